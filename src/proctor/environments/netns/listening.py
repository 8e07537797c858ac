"""Which socket of the driver takes the connections to a port of its loopback.

A port is a number that anybody takes once it is free; a socket is one service. The kernel names
each socket with a number that it never gives again, and tells it on request (sock_diag).
"""

import os
import socket
import struct
from ipaddress import IPv4Address

_LOOPBACK = IPv4Address("127.0.0.1")
_SOCK_DIAG, _BY_FAMILY, _ERROR = 4, 20, 2
_REQUEST, _ANY_STATE, _NO_INTERFACE = 0x1, 0xFFFF_FFFF, 0
_NO_COOKIE = (0xFFFF_FFFF, 0xFFFF_FFFF)
_STATE_AT, _COOKIE_AT = 16 + 1, 16 + 44
_LISTENS = 10


def listener(port: int) -> str:
    """What tells the socket that accepts at 127.0.0.1:`port` from every other; empty when none
    does, or when the kernel does not tell."""
    try:
        return _asked(port)
    except OSError:  # nobody listens, or this kernel has no sock_diag
        return _in_table(port)


def _asked(port: int) -> str:
    """The kernel's own look-up of who gets a connection to that address. Raises OSError."""
    wanted = struct.pack(">HH16s16s", port, 0, _LOOPBACK.packed, b"")
    wanted += struct.pack("=III", _NO_INTERFACE, *_NO_COOKIE)
    body = struct.pack("=BBBxI", socket.AF_INET, socket.IPPROTO_TCP, 0, _ANY_STATE) + wanted
    kind = socket.SOCK_RAW | socket.SOCK_CLOEXEC
    with socket.socket(socket.AF_NETLINK, kind, _SOCK_DIAG) as kernel:
        kernel.send(struct.pack("=IHHII", 16 + len(body), _BY_FAMILY, _REQUEST, 1, 0) + body)
        answer = kernel.recv(4_096)
    (answered,) = struct.unpack_from("=H", answer, 4)
    if answered == _ERROR:
        (code,) = struct.unpack_from("=i", answer, 16)
        raise OSError(-code, os.strerror(-code))
    low, high = struct.unpack_from("=II", answer, _COOKIE_AT)
    return f"cookie {high:x}-{low:x}" if answer[_STATE_AT] == _LISTENS else ""


def _in_table(port: int) -> str:
    """The same from the table of sockets, where one that ended may share its number with a later
    one, but hardly ever its port too."""
    found = []
    for name, hosts in (("tcp", ("0100007F", "0" * 8)), ("tcp6", ("0" * 32,))):
        try:
            with open(f"/proc/thread-self/net/{name}", encoding="ascii") as stream:
                rows = [line.split() for line in stream][1:]
        except OSError:
            continue
        local = {f"{host}:{port:04X}" for host in hosts}
        found += [row[9] for row in rows if row[1] in local and row[3] == "0A"]
    return f"inode {' '.join(sorted(found))}" if found else ""
