"""Names of owners: who holds a lease, and whether that process can be known to be dead.

A lease that ran out may be taken by anybody. One that has not may be taken at once when its owner
was a process of this machine that has ended: so a program that was killed goes on the moment it is
started again. Of an owner on another machine nothing is known but the time.
"""

import os
import secrets
import socket

from proctor.store.exclusive import boot_id, process_start_time

_FIELDS = 5


def owner_name() -> str:
    """A new name for this process as an owner: `host/boot/pid/start/nonce`, never given twice."""
    parts = (
        _part(socket.gethostname()), _part(boot_id()), str(os.getpid()),
        _part(process_start_time(os.getpid())), secrets.token_hex(4),
    )  # fmt: skip
    return "/".join(parts)


def is_dead(owner: str) -> bool:
    """Whether `owner` was made by a process that has certainly ended; False when in doubt."""
    parts = owner.split("/")
    if len(parts) != _FIELDS:
        return False
    host, boot, pid, start, _ = parts
    if host != _part(socket.gethostname()) or not boot or not start or not pid.isdigit():
        return False
    if boot != _part(boot_id()):
        return True  # the machine was started anew
    return process_start_time(int(pid)) != start


def _part(text: str | None) -> str:
    return (text or "").replace("/", "_")
