"""The loopback of a new network namespace, set up so that every destination has a route.

There is no way out on that route: what the firewall does not redirect, it refuses. Spoken to the
kernel directly (rtnetlink); starting a program for it would cost several times as much.
"""

import os
import socket
import struct
from ipaddress import IPv4Address, IPv6Address, ip_address

OWN_ADDRESS = "198.18.0.2"
NAMESERVER = "198.18.0.1"
"""Of the range that is set aside for measuring networks: nobody is reached there."""
OWN_ADDRESS_6 = "fd70:726f:6374::2"

_LOOPBACK = 1  # its index in every namespace
_NEWLINK, _NEWADDR, _NEWROUTE, _ERROR = 16, 20, 24, 2
_REQUEST_ACK, _CREATE = 0x1 | 0x4, 0x400
_UP = 0x1
_NODAD = 0x02
_MAIN, _BOOT, _UNICAST = 254, 3, 1
_LINK_SCOPE, _UNIVERSE = 253, 0
_IFA_ADDRESS, _IFA_LOCAL = 1, 2
_RTA_OIF, _RTA_PREFSRC = 4, 7


def set_up(*, ipv6: bool) -> None:
    """Set up the loopback of the namespace that this thread is in. IPv6 only where the host has
    it: programs prefer it and would not try the other. Raises OSError."""
    addresses = [ip_address(OWN_ADDRESS), *([ip_address(OWN_ADDRESS_6)] if ipv6 else [])]
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC) as kernel:
        kernel.bind((0, 0))
        _asked(kernel, _NEWLINK, 0, struct.pack("=BxHiII", 0, 0, _LOOPBACK, _UP, _UP))
        for address in addresses:
            _asked(kernel, _NEWADDR, _CREATE, _address(address))
            _asked(kernel, _NEWROUTE, _CREATE, _default_route(address))


def _address(address: IPv4Address | IPv6Address) -> bytes:
    family, flags = (socket.AF_INET, 0) if address.version == 4 else (socket.AF_INET6, _NODAD)
    head = struct.pack("=BBBBI", family, address.max_prefixlen, flags, _UNIVERSE, _LOOPBACK)
    packed = address.packed
    return head + _attribute(_IFA_LOCAL, packed) + _attribute(_IFA_ADDRESS, packed)


def _default_route(source: IPv4Address | IPv6Address) -> bytes:
    family, scope = (
        (socket.AF_INET, _LINK_SCOPE) if source.version == 4 else (socket.AF_INET6, _UNIVERSE)
    )
    head = struct.pack("=BBBBBBBBI", family, 0, 0, 0, _MAIN, _BOOT, scope, _UNICAST, 0)
    device = _attribute(_RTA_OIF, struct.pack("=I", _LOOPBACK))
    return head + device + _attribute(_RTA_PREFSRC, source.packed)


def _attribute(kind: int, value: bytes) -> bytes:
    length = 4 + len(value)
    return struct.pack("=HH", length, kind) + value + b"\0" * (-length % 4)


def _asked(kernel: socket.socket, kind: int, flags: int, body: bytes) -> None:
    """Send one request and wait for its answer. Raises OSError."""
    kernel.send(struct.pack("=IHHII", 16 + len(body), kind, _REQUEST_ACK | flags, 1, 0) + body)
    answer = kernel.recv(4_096)
    (answered,) = struct.unpack_from("=H", answer, 4)
    (code,) = struct.unpack_from("=i", answer, 16)
    if answered != _ERROR or code != 0:
        raise OSError(-code, f"the network refuses request {kind}: {os.strerror(-code)}")
