"""Name queries of a sandbox, passed on to this machine's name servers while all is `public`."""

import asyncio
import ipaddress
import socket
from pathlib import Path
from typing import Any

from proctor.environments.proxy.allowed import Address
from proctor.environments.proxy.tunnels import Tunnels

_CONFIGURATION = "/etc/resolv.conf"
_LIMIT_S = 5.0
_AT_ONCE = 32
_LARGEST = 65_535
_SERVER_FAILURE = 2


def nameservers(configuration: str | None = None) -> list[Address]:
    """The name servers of this machine."""
    found: list[Address] = []
    try:
        lines = Path(configuration or _CONFIGURATION).read_text("utf-8", "replace").splitlines()
    except OSError:
        return found
    for line in lines:
        words = line.split()
        if len(words) > 1 and words[0] == "nameserver":
            try:
                found.append(ipaddress.ip_address(words[1].partition("%")[0]))
            except ValueError:
                continue
    return found


class NameRelay:
    """Answers queries on a socket inside with what a name server outside says."""

    def __init__(self, tunnels: Tunnels, inside: socket.socket) -> None:
        self._tunnels = tunnels
        self._inside = inside
        self._asking: set[asyncio.Task[None]] = set()

    async def serve(self) -> None:
        """Answer for ever; closing down ends what is being asked."""
        loop = asyncio.get_running_loop()
        try:
            while True:
                query, client = await loop.sock_recvfrom(self._inside, _LARGEST)
                if not self._tunnels.allowed.everything or len(self._asking) >= _AT_ONCE:
                    continue
                task = loop.create_task(self._ask(query, client))
                self._asking.add(task)
                task.add_done_callback(self._asking.discard)
        finally:
            for task in self._asking:
                task.cancel()

    async def _ask(self, query: bytes, client: tuple[Any, ...]) -> None:
        answer = await _answered(query) or failure(query)
        if answer and self._tunnels.allowed.everything:
            await asyncio.get_running_loop().sock_sendto(self._inside, answer, client)


async def _answered(query: bytes) -> bytes | None:
    """What the first name server that answers says."""
    loop = asyncio.get_running_loop()
    for server in nameservers():
        family = socket.AF_INET if server.version == 4 else socket.AF_INET6
        with socket.socket(family, socket.SOCK_DGRAM) as outside:
            outside.setblocking(False)
            try:
                await loop.sock_connect(outside, (str(server), 53))
                await loop.sock_sendall(outside, query)
                async with asyncio.timeout(_LIMIT_S):
                    return await loop.sock_recv(outside, _LARGEST)
            except (OSError, TimeoutError):
                continue
    return None


def failure(query: bytes) -> bytes | None:
    """The answer `SERVFAIL` to a query; None when it is none."""
    if len(query) < 12:
        return None
    return query[:2] + bytes([query[2] | 0x80, 0x80 | _SERVER_FAILURE]) + query[4:]
