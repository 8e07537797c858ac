"""Ends every process of a container but its first, from outside, without restarting it.

The engine freezes the container, so that nothing in it can fork or run away; all its processes but
the first get the signal that nobody can refuse; and the container is thawed. None of them runs
another instruction. That takes a driver with root's rights on the machine of the engine, and a
first process that is ours: everything else is left to the restart.
"""

import os
import signal
from collections.abc import Callable
from functools import partial
from typing import Any

from proctor.environments import proctable
from proctor.environments.docker.engine import Engine, EngineError
from proctor.environments.docker.freezing import freeze, thawed
from proctor.environments.patience import Patience
from proctor.kernel.errors import EnvironmentFault

_GONE_WAIT_S = 5.0


async def swept(engine: Engine, facts: Any, main: tuple[str, ...]) -> bool:
    """Whether every process but the first is surely gone. `facts` is the engine's description of
    the container, `main` the command line of its first process."""
    name, pid, own_id = str(facts["Name"]).strip("/"), _first(facts), str(facts["Id"])
    if not is_here(pid, own_id) or os.geteuid() != 0 or not _is_ours(pid, main):
        return False
    namespace = proctable.pid_namespace(pid)
    if namespace in ("", proctable.pid_namespace()):
        return False
    try:
        await freeze(engine, name)
        belongs = partial(_belongs, namespace, own_id)
        left = _killed({found for found in proctable.pids() if belongs(found)} - {pid}, belongs)
    except (EngineError, EnvironmentFault):  # an engine that cannot: the restart tells more
        left = None
    finally:
        goes_on = await thawed(engine, name)
    return goes_on and left is not None and await _gone(left) and _is_ours(pid, main)


def is_here(pid: int, container_id: str) -> bool:
    """Whether the process of this machine with the id `pid` is in the container: engines put the
    id of a container into the names of its control groups."""
    return pid > 0 and container_id in _groups(pid)


def _first(facts: Any) -> int:
    return int(facts["State"].get("Pid") or 0)


def _groups(pid: int) -> str:
    try:
        with open(f"/proc/{pid}/cgroup", encoding="utf-8") as stream:
            return stream.read()
    except OSError:
        return ""


def _is_ours(pid: int, main: tuple[str, ...]) -> bool:
    """Whether a process runs our command and nobody traces it: whoever does takes it along."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as stream:
            words = stream.read(65_536).split(b"\0")[:-1]
        with open(f"/proc/{pid}/status", encoding="utf-8") as stream:
            traced = [line.split()[1] for line in stream if line.startswith("TracerPid:")]
    except OSError:
        return False
    return words == [word.encode() for word in main] and traced == ["0"]


def _belongs(namespace: str, container_id: str, pid: int) -> bool:
    """Whether a process is in a container: in its namespace of process ids, or in one made inside.

    The engine's own watchers may be in its control groups too, but never in a namespace of its.
    """
    theirs = proctable.pid_namespace(pid)
    own = proctable.pid_namespace()
    return theirs == namespace or (theirs not in ("", own) and container_id in _groups(pid))


def _killed(pids: set[int], belongs: Callable[[int], bool]) -> dict[int, int | None] | None:
    """Send the signal; when each of them started, or None when one could not be reached.

    A process may end by itself, out of memory say, and its id be given to another one. So each is
    held by a descriptor first, and only what the descriptor names is asked about and gets it.
    """
    started: dict[int, int | None] = {}
    for pid in pids:
        try:
            fd = os.pidfd_open(pid)
        except ProcessLookupError:
            continue
        except OSError:  # no descriptor, or a kernel without them
            return None
        try:
            if belongs(pid):
                started[pid] = proctable.start_ticks(pid)
                signal.pidfd_send_signal(fd, signal.SIGKILL)
        except ProcessLookupError:
            continue
        except PermissionError:
            return None
        finally:
            os.close(fd)
    return started


async def _gone(pids: dict[int, int | None]) -> bool:
    """Wait until none of these processes runs any more, within a bound."""
    patience = Patience(_GONE_WAIT_S)
    while any(proctable.runs(p) and proctable.start_ticks(p) == at for p, at in pids.items()):
        if patience.over():
            return False
        await patience.pause()
    return True
