"""A door for one service of the driver into a network namespace, and for nothing else.

The service listens on the driver's own loopback. Inside there is a socket of the driver's on the
namespace's loopback; whoever connects to it talks to that service, whatever the network policy
says. Nothing that comes through the door can choose where it leads, and it leads nowhere once the
service is gone, whoever takes its port then.
"""

import asyncio
import socket
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager
from ipaddress import IPv4Address

from proctor.environments.netns.listening import listener
from proctor.environments.netns.namespace import NetworkNamespace
from proctor.environments.network import NetworkMode, NetworkPolicy
from proctor.environments.proxy.allowed import Allowed
from proctor.environments.proxy.tunnels import Tunnels, Unreachable, connected, join, reset

LOOPBACK = IPv4Address("127.0.0.1")
_BACKLOG = 64
_NOTHING = NetworkPolicy(NetworkMode.NO_NETWORK)

Where = Callable[[], Awaitable[AbstractContextManager[NetworkNamespace]]]
"""Asks for the namespace that doors are made in; the answer is open while it is entered."""


class Door:
    """Open from the moment it is made until `close`. At most 64 connections at a time; more wait,
    and they are apart from those that the policy lets through.

    Raises OSError when it cannot be made. All methods belong to one event loop.
    """

    def __init__(
        self, namespace: NetworkNamespace, port: int, inside: int = 0, service: str = ""
    ) -> None:
        self._port = port
        self.service = service or listener(port)
        if not self.service:
            raise OSError(f"nothing of the driver listens at {LOOPBACK}:{port}")
        with namespace.entered():
            self._listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        try:
            self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self._listener.setblocking(False)
            self._listener.bind((str(LOOPBACK), inside))
            self._listener.listen(_BACKLOG)
        except BaseException:
            self._listener.close()
            raise
        self.inside: int = self._listener.getsockname()[1]
        self._tunnels = Tunnels(Allowed(_NOTHING))
        serving = self._tunnels.serve(self._listener, self._handle)
        self._serving = asyncio.get_running_loop().create_task(serving)

    @property
    def address(self) -> str:
        """`HOST:PORT` inside."""
        return f"{LOOPBACK}:{self.inside}"

    def is_stale(self) -> bool:
        """Whether the service that it was made for is gone."""
        return listener(self._port) != self.service

    async def close(self) -> None:
        """Nobody comes in any more, and whoever is in is cut off. Idempotent."""
        self._serving.cancel()
        await asyncio.wait((self._serving,))
        await self._tunnels.close()
        self._listener.close()

    async def _handle(self, connection: socket.socket) -> None:
        if self.is_stale():
            reset(connection)
            return
        try:
            outside = await connected([LOOPBACK], self._port)
        except Unreachable:
            reset(connection)
            return
        if self.is_stale():  # it may have gone in between: not a byte went to whoever took the port
            outside.close()
            reset(connection)
            return
        await join(connection, outside)


class Doors:
    """The doors of one sandbox, by the driver's port. They can be made again in another namespace,
    at the same addresses. One thing happens to them at a time, and what was asked for before
    `close` opens nothing after it."""

    def __init__(self) -> None:
        self._open: dict[int, Door] = {}
        self._changing = asyncio.Lock()
        self._closes = 0
        self._shut = False

    async def address(self, where: Where, port: int) -> str:
        """Where the driver's port is reached inside; makes its door unless it is there. Raises
        OSError, and what `where` raises."""
        closes = self._closes
        async with self._changing:
            door = self._open.get(port)
            if door is None or door.is_stale():
                inside = 0 if door is None else door.inside
                await self._drop(port)
                with await where() as namespace:
                    if self._shut or self._closes != closes:
                        raise OSError("the access was ended meanwhile")
                    door = self._open[port] = Door(namespace, port, inside)
            return door.address

    async def move(self, where: Where) -> None:
        """Make every door again in a new namespace. Raises OSError, and what `where` raises;
        then all are closed."""
        closes = self._closes
        async with self._changing:
            if not self._open:
                return
            known = [(port, door.inside, door.service) for port, door in self._open.items()]
            await self._drop(*self._open)
            with await where() as namespace:
                for port, inside, service in known:
                    if self._shut or self._closes != closes:
                        return
                    self._open[port] = Door(namespace, port, inside, service)

    async def close(self, *, for_good: bool = False) -> None:
        """Close every door, to the end even when cancelled; `for_good`: no more are made.
        Idempotent."""
        self._closes += 1
        self._shut |= for_good
        await asyncio.shield(asyncio.ensure_future(self._closed()))

    async def _closed(self) -> None:
        async with self._changing:
            await self._drop(*self._open)

    async def _drop(self, *ports: int) -> None:
        doors = [self._open.pop(port) for port in ports if port in self._open]
        await asyncio.shield(asyncio.gather(*(door.close() for door in doors)))
