"""One control group: limits of all processes of a sandbox together, and their end."""

import os
from collections.abc import Iterator
from dataclasses import dataclass

from proctor.environments.cgroups import Hierarchy, available, read, write
from proctor.environments.contract import Resources
from proctor.environments.killing import kill_found
from proctor.environments.patience import Patience
from proctor.kernel.errors import EnvironmentFault

_MB = 1_048_576
_PERIOD_US = 100_000
_MOST_US = 1_000_000_000
_REMOVAL_WAIT_S = 5.0


@dataclass(frozen=True, slots=True)
class GroupLimits:
    """What the processes of a group may use together. None: no limit of ours."""

    memory_mb: int | None = None
    pids: int | None = None
    cpus: float | None = None

    @classmethod
    def of(cls, wishes: Resources) -> "GroupLimits":
        """What of a task's wishes a group can enforce here."""
        usable = available().controllers
        return cls(
            wishes.memory_mb if "memory" in usable else None,
            wishes.pids if "pids" in usable else None,
            wishes.cpus if "cpu" in usable else None,
        )

    @property
    def controllers(self) -> tuple[str, ...]:
        """What a group needs for these limits."""
        wanted = {"memory": self.memory_mb, "pids": self.pids, "cpu": self.cpus}
        return tuple(name for name, value in wanted.items() if value is not None)


class ControlGroup:
    """A group of this name in every hierarchy that the limits need; made by the constructor.

    Raises EnvironmentFault `cannot_start` when it cannot be made, and leaves nothing then.
    """

    def __init__(self, name: str, limits: GroupLimits) -> None:
        self._limits = limits
        self._folders = {
            f"{place.parent}/{name}": place
            for place in available().hierarchies
            if set(place.controllers) & set(limits.controllers)
        }
        try:
            for folder, place in self._folders.items():
                os.mkdir(folder)
                for file, value in _settings(limits, place):
                    write(f"{folder}/{file}", value)
                _without_swap(folder, limits)
        except OSError as error:
            for folder in self._folders:
                _remove(folder)
            raise EnvironmentFault(
                f"cannot make the control group {name}: {error.strerror}", code="cannot_start"
            ) from error

    @property
    def entrances(self) -> tuple[str, ...]:
        """The files that a process writes 0 to in order to join."""
        return tuple(f"{folder}/cgroup.procs" for folder in self._folders)

    def kills(self) -> int:
        """How many processes the kernel has ended because the group's memory ran out."""
        if self._limits.memory_mb is None:
            return 0
        for folder, place in self._folders.items():
            if "memory" in place.controllers:
                file = "memory.events" if place.version == 2 else "memory.oom_control"
                return _count(f"{folder}/{file}", "oom_kill")
        return 0

    async def remove(self) -> None:
        """Kill whoever is in the group and remove it. Idempotent.

        Raises EnvironmentFault `unkillable` when a process does not end within 5 s.
        """
        patience = Patience(_REMOVAL_WAIT_S)
        while left := [folder for folder in self._folders if not remove_group(folder)]:
            if patience.over():
                message = f"the control groups {left} still hold processes that do not end"
                raise EnvironmentFault(message, code="unkillable")
            await patience.pause()


def remove_group(folder: str) -> bool:
    """Kill the members of a group and try to remove it once; whether it is gone."""
    if _remove(folder):
        return True
    kill_found(members(folder), lambda: members(folder))
    return _remove(folder)


def members(folder: str) -> list[int]:
    """The processes of a group; none when it is gone."""
    try:
        return [int(word) for word in read(f"{folder}/cgroup.procs").split()]
    except OSError:
        return []


def _remove(folder: str) -> bool:
    try:
        os.rmdir(folder)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True


def _settings(limits: GroupLimits, place: Hierarchy) -> Iterator[tuple[str, str]]:
    second = place.version == 2
    if limits.memory_mb is not None and "memory" in place.controllers:
        yield ("memory.max" if second else "memory.limit_in_bytes"), str(limits.memory_mb * _MB)
    if limits.pids is not None and "pids" in place.controllers:
        yield "pids.max", str(limits.pids)
    if limits.cpus is not None and "cpu" in place.controllers:
        quota = str(min(_MOST_US, max(1_000, round(limits.cpus * _PERIOD_US))))
        if second:
            yield "cpu.max", f"{quota} {_PERIOD_US}"
        else:
            yield "cpu.cfs_period_us", str(_PERIOD_US)
            yield "cpu.cfs_quota_us", quota


def _without_swap(folder: str, limits: GroupLimits) -> None:
    """Memory in swap is memory too; kernels without swap accounting lack the files."""
    if limits.memory_mb is None:
        return
    both = str(limits.memory_mb * _MB)
    for file, value in (("memory.swap.max", "0"), ("memory.memsw.limit_in_bytes", both)):
        if os.path.exists(f"{folder}/{file}"):
            write(f"{folder}/{file}", value)


def _count(path: str, name: str) -> int:
    try:
        lines = read(path).splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.split()[:1] == [name]), 0)
