"""Things on this host that carry an owner's mark: processes, control groups, temporary folders."""

import asyncio
import os
import signal
import stat
from collections.abc import Iterator
from pathlib import Path

from proctor.environments import proctable
from proctor.environments.cgroups import available
from proctor.environments.copying import open_regular
from proctor.environments.grouping import remove_group
from proctor.environments.hosted import temp_dir
from proctor.environments.owner import MARKER, Owner, group_in_name, owner_in_name
from proctor.environments.patience import Patience
from proctor.environments.reaping.leftovers import Leftover
from proctor.environments.removal import remove_entry
from proctor.environments.variables import SESSION_MARK
from proctor.kernel import jsontext
from proctor.kernel.errors import EnvironmentFault

_MARKER_LIMIT_BYTES = 65_536
_REMOVAL_LIMIT_S = 60.0
_END_WAIT_S = 5.0
_DEPTH = 8


class Processes:
    """Commands, found by a variable that they inherited, in this pid namespace only."""

    rank = 0

    async def list_owned(self) -> list[Leftover]:
        return await asyncio.to_thread(lambda: list(_processes()))

    async def remove(self, item: Leftover) -> None:
        pid = int(item.where)
        try:
            fd = os.pidfd_open(pid)
        except ProcessLookupError:
            return
        try:
            # Only now is the id surely the process's that the descriptor names.
            if _session_of(pid) == item.name:
                signal.pidfd_send_signal(fd, signal.SIGKILL)
                await _ended(pid)
        except ProcessLookupError:
            return
        finally:
            os.close(fd)


class Groups:
    """Control groups; their names say all about their owner."""

    rank = 1

    async def list_owned(self) -> list[Leftover]:
        return await asyncio.to_thread(lambda: list(_groups()))

    async def remove(self, item: Leftover) -> None:
        patience = Patience(_END_WAIT_S)
        while not remove_group(item.where):
            if patience.over():
                message = f"{item.where} still holds processes that do not end"
                raise EnvironmentFault(message, code="unkillable")
            await patience.pause()


class Folders:
    """Private temporary folders; last, because they lead to the rest."""

    rank = 2

    async def list_owned(self) -> list[Leftover]:
        return await asyncio.to_thread(lambda: list(_folders()))

    async def remove(self, item: Leftover) -> None:
        folder, name = os.path.split(item.where)

        def remove() -> bool:
            place = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                return remove_entry(place, name, timeout_s=_REMOVAL_LIMIT_S)
            finally:
                os.close(place)

        if not await asyncio.to_thread(remove):
            raise EnvironmentFault(
                f"{item.where} was not removed within {_REMOVAL_LIMIT_S:g} s",
                hint="run it again to go on",
            )


def folder_names() -> list[str]:
    """The names of temporary folders of drivers: a look at one folder, nothing more."""
    try:
        return [name for name in os.listdir(temp_dir()) if owner_in_name(name) is not None]
    except OSError:
        return []


def _processes() -> Iterator[Leftover]:
    ours = proctable.pid_namespace()
    for pid in proctable.pids():
        name = _session_of(pid)
        found = owner_in_name(name) if name else None
        if found is None or proctable.pid_namespace(pid) != ours:
            continue
        # A process of an earlier boot is not running, so its owner is of this one.
        owner = Owner(*found, proctable.boot_id(), ours)
        yield Leftover("process", name, owner, where=str(pid))


def _session_of(pid: int) -> str:
    """The session that a process was started in; empty where there is none."""
    return proctable.variable(pid, SESSION_MARK)


async def _ended(pid: int) -> None:
    patience = Patience(_END_WAIT_S)
    while proctable.runs(pid):
        if patience.over():
            raise EnvironmentFault(f"process {pid} does not end", code="unkillable")
        await patience.pause()


def _groups() -> Iterator[Leftover]:
    for place in available().hierarchies:
        top = place.root
        for folder, inside, _ in os.walk(top):
            if folder[len(top) :].count("/") >= _DEPTH:
                inside.clear()
            for name in list(inside):
                owner = group_in_name(name)
                if owner is not None:
                    inside.remove(name)
                    path = os.path.join(folder, name)
                    yield Leftover("control group", name, owner, "bubblewrap", where=path)


def _folders() -> Iterator[Leftover]:
    for name in folder_names():
        path = os.path.join(temp_dir(), name)
        try:
            facts = os.lstat(path)
        except OSError:
            continue
        if not stat.S_ISDIR(facts.st_mode) or not _may_remove(facts.st_uid):
            continue
        yield _folder(name, path)


def _may_remove(uid: int) -> bool:
    """Others' folders are theirs to clean up, unless we are root."""
    return os.geteuid() in (0, uid)


def _folder(name: str, path: str) -> Leftover:
    """The folder's own file says more than its name. Where they contradict each other, nothing is
    known but whether the named process is there. A driver that was killed within the instant
    before it had written the file leaves a folder with nothing else in it."""
    named = owner_in_name(name)
    assert named is not None
    record = _marker(path)
    owner = Owner.from_json(record) if record is not None else None
    if record is None and _holds_nothing(path):
        owner = Owner(*named, proctable.boot_id(), proctable.pid_namespace())
    if owner is None or (owner.pid, owner.started_ticks) != named:
        return Leftover("folder", name, Owner(*named, ""), where=path)
    labels = record.get("labels") if record is not None else None
    shown = {str(k): str(v) for k, v in labels.items()} if isinstance(labels, dict) else {}
    provider = str(record.get("provider", "")) if record is not None else ""
    return Leftover("folder", name, owner, provider, shown, path)


def _holds_nothing(path: str) -> bool:
    try:
        return set(os.listdir(path)) <= {MARKER}
    except OSError:
        return False


def _marker(path: str) -> dict[str, object] | None:
    try:
        folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fd = open_regular(folder, MARKER, str(Path(path, MARKER)))
        with open(fd, "rb") as stream:
            found = jsontext.loads(stream.read(_MARKER_LIMIT_BYTES).decode("utf-8", "replace"))
    except (OSError, EnvironmentFault, jsontext.JsonError):
        return None
    finally:
        os.close(folder)
    return found if isinstance(found, dict) else None
