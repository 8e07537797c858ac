"""A door for one service of the driver into a network namespace, and for nothing else.

The service listens on the driver's own loopback. Inside there is a socket of the driver's on the
namespace's loopback; whoever connects to it talks to that service, whatever the network policy
says. Nothing that comes through the door can choose where it leads.
"""

import asyncio
import socket
from ipaddress import IPv4Address

from proctor.environments.netns.namespace import NetworkNamespace
from proctor.environments.network import NetworkMode, NetworkPolicy
from proctor.environments.proxy.allowed import Allowed
from proctor.environments.proxy.tunnels import Tunnels, Unreachable, connected, join, reset

LOOPBACK = IPv4Address("127.0.0.1")
_BACKLOG = 64
_NOTHING = NetworkPolicy(NetworkMode.NO_NETWORK)


class Door:
    """Open from the moment it is made until `close`. At most 64 connections at a time; more wait,
    and they are apart from those that the policy lets through.

    Raises OSError when it cannot be made. All methods belong to one event loop.
    """

    def __init__(self, namespace: NetworkNamespace, port: int, inside: int = 0) -> None:
        self._port = port
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

    async def close(self) -> None:
        """Nobody comes in any more, and whoever is in is cut off. Idempotent."""
        self._serving.cancel()
        await asyncio.wait((self._serving,))
        await self._tunnels.close()
        self._listener.close()

    async def _handle(self, connection: socket.socket) -> None:
        try:
            outside = await connected([LOOPBACK], self._port)
        except Unreachable:
            reset(connection)
            return
        await join(connection, outside)


class Doors:
    """The doors of one sandbox, by the driver's port. They can be made again in another namespace,
    at the same addresses."""

    def __init__(self) -> None:
        self._open: dict[int, Door] = {}

    def __bool__(self) -> bool:
        return bool(self._open)

    def address(self, namespace: NetworkNamespace, port: int) -> str:
        """Where the driver's port is reached inside; makes its door unless it is there."""
        if port not in self._open:
            self._open[port] = Door(namespace, port)
        return self._open[port].address

    async def move(self, namespace: NetworkNamespace) -> None:
        """Make every door again in a new namespace. Raises OSError."""
        known = {port: door.inside for port, door in self._open.items()}
        await self.close()
        for port, inside in known.items():
            self._open[port] = Door(namespace, port, inside)

    async def close(self) -> None:
        """Close every door. Idempotent."""
        doors, self._open = list(self._open.values()), {}
        for door in doors:
            await door.close()
