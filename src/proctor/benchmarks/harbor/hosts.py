"""Network policies as task.toml writes them: a mode and, for `allowlist`, host entries."""

import ipaddress
import re

from proctor.environments.network import PUBLIC, NetworkMode, NetworkPolicy

_LABEL = re.compile(r"[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?")
_HINT = "give a host name, '*.name', an IP address or a CIDR range, without scheme, port or path"


def host_entry(text: str) -> str:
    """`text` as a normalised allow-list entry: lower case, no trailing dot.

    Raises ValueError saying what is wrong with it.
    """
    entry = text.strip().lower().removesuffix(".")
    if "/" in entry:
        return _network(entry, text)
    try:
        return str(ipaddress.ip_address(entry))
    except ValueError:
        return _name(entry, text)


def _network(entry: str, text: str) -> str:
    try:
        return str(ipaddress.ip_network(entry, strict=True))
    except ValueError as error:
        raise ValueError(f"{text!r} is not an allowed host; {_HINT}") from error


def _name(entry: str, text: str) -> str:
    labels = entry.removeprefix("*.").split(".")
    if len(entry) > 253 or not all(_LABEL.fullmatch(label) for label in labels):
        raise ValueError(f"{text!r} is not an allowed host; {_HINT}")
    if all(label.isdigit() for label in labels):
        raise ValueError(f"{text!r} looks like an IP address but is not one; {_HINT}")
    return entry


def policy(
    mode: str | None, hosts: list[str] | None, fallback: NetworkPolicy = PUBLIC
) -> NetworkPolicy:
    """The policy of one phase; `fallback` when the section says nothing."""
    if mode is None:
        return fallback
    return NetworkPolicy(NetworkMode(mode), tuple(dict.fromkeys(hosts or ())))
