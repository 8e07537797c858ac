"""Connections that a sandbox makes to any address: its firewall redirects them to the relay.

The kernel tells where a connection was meant to go; a program inside notices nothing.
"""

import ipaddress
import socket
import struct

from proctor.environments.proxy.allowed import Address, Allowed
from proctor.environments.proxy.names import nameservers
from proctor.environments.proxy.tunnels import Tunnels, Unreachable, connected, join, reset

_ORIGINAL_DESTINATION = 80  # SO_ORIGINAL_DST and IP6T_SO_ORIGINAL_DST


class Relay:
    """Serves redirected connections. `nameserver` is the address that the sandbox takes for its
    name server: connections there go to those of this machine."""

    def __init__(self, tunnels: Tunnels, nameserver: Address) -> None:
        self._tunnels = tunnels
        self._nameserver = nameserver

    async def handle(self, connection: socket.socket) -> None:
        """Serve one connection to its end."""
        meant = meant_for(connection)
        if meant is None:  # somebody connected to the relay itself
            reset(connection)
            return
        address, port = meant
        names = address == self._nameserver and port == 53

        def may(allowed: Allowed) -> bool:
            return allowed.everything if names else allowed.address(address)

        if not may(self._tunnels.allowed):
            reset(connection)
            return
        self._tunnels.hold(may)
        try:
            outside = await connected(nameservers() if names else [address], port)
        except Unreachable:
            reset(connection)
            return
        await join(connection, outside)


def meant_for(connection: socket.socket) -> tuple[Address, int] | None:
    """Where a redirected connection was meant to go; None when it was not redirected."""
    six = connection.family == socket.AF_INET6
    try:
        level, size = (socket.IPPROTO_IPV6, 28) if six else (socket.IPPROTO_IP, 16)
        row = connection.getsockopt(level, _ORIGINAL_DESTINATION, size)
        own = connection.getsockname()
    except OSError:
        return None
    (port,) = struct.unpack("!H", row[2:4])
    address = ipaddress.ip_address(row[8:24] if six else row[4:8])
    return None if (str(address), port) == own[:2] else (address, port)
