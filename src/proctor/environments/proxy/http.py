"""An HTTP proxy for one sandbox: CONNECT for anything, and plain requests for `http://` addresses.

A plain request is passed on with `Connection: close`, so that every request is asked for anew.
"""

import asyncio
import re
import socket
from dataclasses import dataclass
from ipaddress import ip_address

from proctor.environments.proxy.allowed import Allowed
from proctor.environments.proxy.tunnels import (
    Refused,
    Tunnels,
    Unreachable,
    connected,
    join,
    resolved,
)

_HEAD_LIMIT_BYTES = 65_536
_HEAD_LIMIT_S = 60.0
_CONNECT = re.compile(r"CONNECT ([^ ]+):([0-9]{1,5}) HTTP/1\.[01]")
_PLAIN = re.compile(
    r"([A-Z]{1,20}) http://(\[[0-9A-Fa-f:.]+\]|[^/?#:@ ]+)(?::([0-9]{1,5}))?"
    r"([/?][^ #]*)? HTTP/1\.[01]",
    re.IGNORECASE,
)
_DROPPED = ("connection", "proxy-connection", "proxy-authorization", "keep-alive")


@dataclass(frozen=True, slots=True)
class Asked:
    """What a client wants. `first` is sent to the destination before anything else; None for
    CONNECT, which is answered instead."""

    host: str
    port: int
    first: bytes | None


class HttpProxy:
    """Serves the connections that a sandbox makes to its proxy."""

    def __init__(self, tunnels: Tunnels) -> None:
        self._tunnels = tunnels

    async def handle(self, connection: socket.socket) -> None:
        """Serve one connection to its end."""
        head, rest = await _head(connection)
        asked = parse(head)
        if asked is None:
            await _answer(connection, 400, "this proxy serves CONNECT and plain http:// requests")
            return
        self._tunnels.hold(lambda allowed: _by_name(allowed, asked.host))
        try:
            allowed = self._tunnels.allowed
            addresses = await resolved(allowed, asked.host, asked.port)
            outside = await connected(addresses, asked.port)
        except Refused:
            await _answer(connection, 403, f"the network policy does not allow {asked.host}")
            return
        except Unreachable as error:
            await _answer(connection, 502, f"{asked.host} cannot be reached: {error}")
            return
        loop = asyncio.get_running_loop()
        try:
            if asked.first is None:
                established = b"HTTP/1.1 200 Connection established\r\n\r\n"
                await loop.sock_sendall(connection, established)
            await loop.sock_sendall(outside, (asked.first or b"") + rest)
        except BaseException:
            outside.close()
            raise
        await join(connection, outside)


def parse(head: str) -> Asked | None:
    """What the head of a request asks for; None when it is nothing that this proxy serves."""
    lines = head.split("\r\n")
    if match := _CONNECT.fullmatch(lines[0]):
        port = int(match[2])
        return Asked(match[1], port, None) if 0 < port < 65_536 else None
    match = _PLAIN.fullmatch(lines[0])
    if match is None:
        return None
    host, port, path = match[2], int(match[3] or 80), match[4] or "/"
    if not 0 < port < 65_536:
        return None
    kept = [line for line in lines[1:] if line.partition(":")[0].strip().lower() not in _DROPPED]
    path = path if path.startswith("/") else f"/{path}"
    first = [f"{match[1]} {path} HTTP/1.1", *kept, "Connection: close", "", ""]
    return Asked(host, port, "\r\n".join(first).encode("latin-1"))


def _by_name(allowed: Allowed, host: str) -> bool:
    """Whether a tunnel to this host may stay open. Addresses are asked for as such."""
    return allowed.everything or allowed.name(host) or _as_address(allowed, host)


def _as_address(allowed: Allowed, host: str) -> bool:
    try:
        return allowed.address(ip_address(host.strip("[]")))
    except ValueError:
        return False


async def _head(connection: socket.socket) -> tuple[str, bytes]:
    """The head of a request without its blank line, and what came after it."""
    loop = asyncio.get_running_loop()
    data = b""
    async with asyncio.timeout(_HEAD_LIMIT_S):
        while (end := data.find(b"\r\n\r\n")) < 0:
            more = await loop.sock_recv(connection, 8_192)
            if not more or len(data) > _HEAD_LIMIT_BYTES:
                return "", b""
            data += more
    return data[:end].decode("latin-1"), data[end + 4 :]


async def _answer(connection: socket.socket, code: int, message: str) -> None:
    phrase = {400: "Bad Request", 403: "Forbidden", 502: "Bad Gateway"}[code]
    body = f"proctor: {message}\n".encode("latin-1", "replace")
    head = (
        f"HTTP/1.1 {code} {phrase}\r\nContent-Type: text/plain\r\n"
        f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    loop = asyncio.get_running_loop()
    await loop.sock_sendall(connection, head.encode("ascii") + body)
    connection.shutdown(socket.SHUT_WR)
