"""Names of owners: who holds a lease, and whether that process can be known to be dead.

A lease that ran out may be taken by anybody. One that has not may be taken at once when its owner
was a process of this machine that has ended: so a program that was killed goes on the moment it is
started again. Of an owner on another machine nothing is known but the time; neither of one in
another namespace of process ids, where numbers and names of hosts mean something else.
"""

import os
import secrets
import socket
from functools import cache
from pathlib import Path

from proctor.store.exclusive import boot_id, process_start_time

_FIELDS = 7


def owner_name() -> str:
    """A new name for this process as an owner: `host/machine/boot/namespace/pid/start/nonce`,
    never given twice."""
    parts = (
        *_place(), str(os.getpid()), _part(process_start_time(os.getpid())), secrets.token_hex(4),
    )  # fmt: skip
    return "/".join(parts)


def is_dead(owner: str) -> bool:
    """Whether `owner` was made by a process that has certainly ended; False when in doubt."""
    parts = owner.split("/")
    if len(parts) != _FIELDS:
        return False
    host, machine, boot, namespace, pid, start, _ = parts
    here = _place()
    if host != here[0] or not boot or not start or not pid.isdigit():
        return False
    if boot != here[2]:  # the machine was started anew, or it is another of the same name
        return bool(machine) and machine == here[1]
    return namespace == here[3] and process_start_time(int(pid)) != start


def _place() -> tuple[str, str, str, str]:
    return _part(socket.gethostname()), _machine(), _part(boot_id()), _namespace()


@cache
def _machine() -> str:
    """The identity that the machine was given at its installation; empty where there is none."""
    try:
        return _part(Path("/etc/machine-id").read_text("utf-8").strip()[:64])
    except (OSError, ValueError):
        return ""


def _namespace() -> str:
    """The namespace of process ids; empty where there are none."""
    try:
        return _part(os.readlink("/proc/self/ns/pid"))
    except OSError:
        return ""


def _part(text: str | None) -> str:
    return (text or "").replace("/", "_")
