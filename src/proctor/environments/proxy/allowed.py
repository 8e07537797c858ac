"""Whom a sandbox may reach under a policy: names, addresses, and what nobody may reach."""

import ipaddress
import re
import socket
from collections.abc import Iterable
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from typing import TypeAlias

from proctor.environments.network import NetworkMode, NetworkPolicy

Address: TypeAlias = IPv4Address | IPv6Address
Network: TypeAlias = IPv4Network | IPv6Network

_NAME = re.compile(r"(?:\*\.)?(?:[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?(?:\.(?!$)|$))+")
LINK_LOCAL: tuple[Network, ...] = (
    IPv4Network("169.254.0.0/16"),
    IPv6Network("fe80::/10"),
    IPv6Network("fd00:ec2::254/128"),
)
"""Refused in every mode: where clouds hand out a machine's keys."""
_MAPPED_PREFIXES = (IPv6Network("64:ff9b::/96"), IPv6Network("2002::/16"))


class Allowed:
    """A policy, ready to be asked."""

    def __init__(self, policy: NetworkPolicy) -> None:
        self.policy = policy
        listed = policy.hosts if policy.mode is NetworkMode.ALLOWLIST else ()
        entries = [entry for host in listed if (entry := parsed(host)) is not None]
        self._names = frozenset(e for e in entries if isinstance(e, str) and e[:2] != "*.")
        self._suffixes = tuple(e[1:] for e in entries if isinstance(e, str) and e[:2] == "*.")
        self.networks: tuple[Network, ...] = tuple(e for e in entries if not isinstance(e, str))

    @property
    def everything(self) -> bool:
        """Whether the policy is `public`."""
        return self.policy.mode is NetworkMode.PUBLIC

    def name(self, host: str) -> bool:
        """Whether a name may be asked for. What it resolves to is a question of its own."""
        host = host.lower().removesuffix(".")
        return self.everything or host in self._names or host.endswith(self._suffixes)

    def address(self, address: Address) -> bool:
        """Whether an address may be reached that was asked for as such."""
        address = plain(address)
        if _never(address):
            return False
        if any(address in network for network in self.networks):
            return True
        return self.everything and not _own_or_nobody(address)

    def resolved(self, address: Address) -> bool:
        """Whether an allowed name may stand for this address.

        Whoever owns a name decides what it resolves to, so it opens no door to this machine.
        """
        address = plain(address)
        if self.address(address):
            return True
        return not _never(address) and not _own_or_nobody(address) and not is_local(address)


def parsed(host: str) -> str | Network | None:
    """An entry of an allow-list: a name in small letters, `*.` and a name, or a network; None
    for anything else."""
    text = host.strip().lower().removesuffix(".")
    try:
        return ipaddress.ip_network(text.strip("[]"), strict=False)
    except ValueError:
        pass
    try:
        text = text.encode("idna").decode("ascii") if not text.isascii() else text
    except UnicodeError:
        return None
    numeric = text.rpartition(".")[2].isdecimal()
    return text if _NAME.fullmatch(text) and len(text) <= 253 and not numeric else None


def unusable(hosts: Iterable[str]) -> list[str]:
    """The entries that are neither a name, a wildcard, an address nor a network."""
    return [host for host in hosts if parsed(host) is None]


def plain(address: Address) -> Address:
    """The IPv4 address that an IPv6 one only wraps, else the address itself."""
    if isinstance(address, IPv6Address):
        if address.ipv4_mapped is not None:
            return address.ipv4_mapped
        if address in _MAPPED_PREFIXES[0]:
            return IPv4Address(int(address) & 0xFFFFFFFF)
        if address in _MAPPED_PREFIXES[1]:
            return IPv4Address(int(address) >> 80 & 0xFFFFFFFF)
    return address


def is_local(address: Address) -> bool:
    """Whether the address is this machine's own: only then can it be bound."""
    family = socket.AF_INET if address.version == 4 else socket.AF_INET6
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.bind((str(address), 0))
    except OSError:
        return False
    return True


def _never(address: Address) -> bool:
    return any(address in network for network in LINK_LOCAL)


def _own_or_nobody(address: Address) -> bool:
    return address.is_loopback or address.is_unspecified or address.is_multicast
