"""Control groups that limit nothing and only know their members: whatever a process has started is
in its group, also when it has left the process group and its parent is gone.

They are made below the group that the driver is in, so that its limits hold for them too, in the
hierarchy of version 2, or in that of `pids` of version 1. Where none can be made there are none:
then what leaves its process group is not found.

A group's name tells which driver made it, from the first moment. A driver that is killed leaves its
groups; whoever comes next removes those that are empty. What is in one that nobody has named in a
log may have been left running on purpose: it is not touched, and the group goes when it has ended.
"""

import math
import os
import re
import secrets
import time
from functools import cache
from pathlib import Path

from proctor.environments import grouping, proctable
from proctor.environments.cgroups import own_places, read, write
from proctor.environments.killing import kill_found
from proctor.environments.owner import Owner
from proctor.environments.patience import Patience
from proctor.environments.reaping.leftovers import State, state_of

_PREFIX = "proctor-agent-"
_NAME = re.compile(r"proctor-agent-([0-9]+)-([0-9]+)-[0-9a-f]{12}\.([0-9]*)\.([0-9a-f-]*)")
_OLD_NAME = re.compile(r"proctor-agent-[0-9a-f]{24}")  # as logs of this boot may have it
_ROUNDS = 20
_SWEEP_S = 60.0
END_S = 5.0
"""Seconds for the members of a group to be gone after they were killed."""


@cache
def place() -> str | None:
    """The folder that groups are made in; None where none can be made. Found out once."""
    for folder in own_places():
        probe = f"{folder}/proctor-probe-{secrets.token_hex(6)}"
        try:
            os.mkdir(probe)
            os.rmdir(probe)
        except OSError:
            continue
        return folder
    return None


def new_group() -> str | None:
    """The folder of a new group, None where none can be made."""
    parent = place()
    if parent is None:
        return None
    if time.monotonic() - _swept.get(parent, -math.inf) >= _SWEEP_S:
        sweep()
    owner = Owner.this_process()
    made = f"{_PREFIX}{owner.pid}-{owner.started_ticks}-{secrets.token_hex(6)}"
    folder = f"{parent}/{owner.group_name(made)}"
    try:
        os.mkdir(folder)
    except OSError:
        return None
    return folder


_swept: dict[str, float] = {}
_left: set[str] = set()  # groups of this process that were left with somebody in them


def leave(folder: str) -> None:
    """Remove a group whose execution has ended, now or when what it left running has ended."""
    if not remove_empty(folder):
        _left.add(folder)


def sweep() -> list[str]:
    """Remove the empty groups of drivers that are dead, and those that this process has left; what
    was removed. Done by `new_group` once in a minute."""
    parent = place()
    if parent is None:
        return []
    _swept[parent] = time.monotonic()
    own = {folder for folder in tuple(_left) if os.path.dirname(folder) == parent}
    try:
        dead = {f"{parent}/{name}" for name in os.listdir(parent) if _is_of_the_dead(name)}
    except OSError:
        dead = set()
    empty = [folder for folder in own | dead if not members(folder)]
    removed = [folder for folder in empty if remove_empty(folder)]
    _left.difference_update(removed)
    return removed


def _is_of_the_dead(name: str) -> bool:
    found = _NAME.fullmatch(name)
    if found is None:
        return False
    pid, ticks, namespace, boot = found.groups()
    return state_of(Owner(int(pid), int(ticks), boot, namespace)) is State.DEAD


def take_in(folder: str, pgid: int) -> bool:
    """Put the members of a process group into `folder`; what they start later is in it by itself.
    Whether all of them are. One that is in a group of its own already (a sandbox's) stays there:
    its limits are worth more."""
    ours = _membership(os.getpid(), folder)
    for _ in range(_ROUNDS):  # one may start another while it is moved
        live = proctable.live_members(pgid)
        left = [pid for pid in live if _membership(pid, folder) == ours]
        if not left:
            return set(live) <= set(members(folder))
        for pid in left:
            try:
                write(f"{folder}/cgroup.procs", str(pid))
            except ProcessLookupError:
                continue
            except OSError:
                return False
    return False


def _membership(pid: int, folder: str) -> str:
    """The line of the process's groups that is about the hierarchy of `folder`."""
    second = os.path.exists(f"{folder}/cgroup.events")
    try:
        lines = read(f"/proc/{pid}/cgroup").splitlines()
    except OSError:
        return ""
    for line in lines:
        _, _, rest = line.partition(":")
        names, _, _ = rest.partition(":")
        if (second and not names) or (not second and "pids" in names.split(",")):
            return rest
    return ""


def members(folder: str) -> list[int]:
    """The processes in a group and in groups below it; none when it is gone."""
    found = [pid for each in _tree(folder) for pid in grouping.members(each)]
    # One of another namespace of process ids is shown as 0.
    return [pid for pid in found if pid > 0 and proctable.runs(pid)]


def _tree(folder: str) -> list[str]:
    """A group and those below it, the deepest first."""
    return [where for where, _, _ in os.walk(folder, topdown=False)]


def is_group(folder: object) -> bool:
    """Whether this names a group of this module: a log may hold anything."""
    if not isinstance(folder, str):
        return False
    name = os.path.basename(folder)
    if not (_NAME.fullmatch(name) or _OLD_NAME.fullmatch(name)):
        return False
    parents = [where for where in own_places(everywhere=True) if folder.startswith(f"{where}/")]
    return bool(parents) and os.path.realpath(folder) == folder


async def end(folder: str, limit_s: float = END_S) -> bool:
    """Kill whoever is in a group and remove it; whether nobody is left. Idempotent."""
    patience = Patience(limit_s)
    while True:
        for each in _tree(folder):
            _stop_forks(each)
        kill_found(members(folder), lambda: members(folder))
        if remove_empty(folder):
            return True
        if not members(folder) and patience.over():
            return True  # only the folder is left, and nobody is in it
        if patience.over():
            return False
        await patience.pause()


def remove_empty(folder: str) -> bool:
    """Remove a group in which nobody is; whether it is gone."""
    for each in _tree(folder):
        try:
            os.rmdir(each)
        except FileNotFoundError:
            continue
        except OSError:
            return False
    return not Path(folder).exists()


def _stop_forks(folder: str) -> None:
    """A group that starts processes faster than they are ended: version 2 kills all in one go, in
    version 1 nothing more may be started."""
    for file, value in (("cgroup.kill", "1"), ("pids.max", "0")):
        if os.path.exists(f"{folder}/{file}"):
            try:
                write(f"{folder}/{file}", value)
            except OSError:
                continue
            return
