"""Host names looked up once for many connections, off the event loop."""

import asyncio
import ipaddress
import socket
from concurrent.futures import ThreadPoolExecutor

KEEP_S = 30.0
"""How long an answer is used again."""


class Resolver:
    """The addresses of one host, for one event loop.

    Look-ups run in a thread of their own: the event loop's threads may all be busy with code
    under evaluation. The address that worked last comes first.
    """

    def __init__(self, host: str, port: int) -> None:
        self._host = host
        self._port = port
        self._literal = _is_literal(host)
        self._addresses: list[str] = [host] if self._literal else []
        self._until = 0.0
        self._lookup: asyncio.Task[list[str]] | None = None

    async def addresses(self) -> list[str]:
        """Addresses to try in order. Raises OSError."""
        loop = asyncio.get_running_loop()
        if self._literal or (self._addresses and loop.time() < self._until):
            return self._addresses
        if self._lookup is None:
            self._lookup = loop.create_task(self._look_up(loop))
        # One caller that gives up must not take the answer from the others.
        return await asyncio.shield(self._lookup)

    def worked(self, address: str) -> None:
        """Try `address` first from now on."""
        if self._addresses[:1] != [address] and address in self._addresses:
            self._addresses = [address, *(a for a in self._addresses if a != address)]

    def forget(self) -> None:
        """Look up again next time: none of the addresses worked."""
        self._until = 0.0

    async def _look_up(self, loop: asyncio.AbstractEventLoop) -> list[str]:
        executor = ThreadPoolExecutor(1, thread_name_prefix="proctor-dns")
        try:
            found = await loop.run_in_executor(executor, _getaddrinfo, self._host, self._port)
            self._addresses = found
            self._until = loop.time() + KEEP_S
            return found
        finally:
            self._lookup = None
            executor.shutdown(wait=False)


def _is_literal(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _getaddrinfo(host: str, port: int) -> list[str]:
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    addresses = list(dict.fromkeys(str(info[4][0]) for info in found))
    if not addresses:
        raise OSError(f"no address for {host}")
    return addresses
