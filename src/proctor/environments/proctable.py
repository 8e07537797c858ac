"""Questions to the process table. Where there is no /proc they answer "nothing found"."""

import os
from collections.abc import Iterator
from functools import cache
from pathlib import Path

_PROC = "/proc"
_FEW = 64


def live_members(group: int) -> list[int]:
    """The processes of a process group that still run; dead ones that wait for their parent not."""
    return [pid for pid in pids() if _group(pid) == group and (row := _stat(pid)) and _runs(row)]


def marked(variable: str, value: str, *, since: int) -> list[int]:
    """Live processes whose environment variables held `variable=value` when they started.

    `since` is a process id handed out before any of them: smaller ids are looked at only when the
    numbering has started again in between.
    """
    needle = b"\0" + os.fsencode(f"{variable}={value}") + b"\0"
    found = []
    for pid in _handed_out(since):
        try:
            with open(f"{_PROC}/{pid}/environ", "rb") as stream:
                variables = b"\0" + stream.read(1_000_000) + b"\0"
        except OSError:  # it ended, or belongs to somebody else
            continue
        if needle in variables and (row := _stat(pid)) and _runs(row):
            found.append(pid)
    return found


def _handed_out(since: int) -> Iterator[int]:
    """Ids that processes may have which started after the id `since` was handed out."""
    newest = newest_pid()
    if since <= newest < since + _FEW:
        yield from range(since, newest + 1)  # trying each costs less than listing all
        return
    for pid in pids():
        if pid >= since or newest < since:
            yield pid


def start_ticks(pid: int) -> int | None:
    """When a process started, in clock ticks since boot: tells a reused id from the original."""
    row = _stat(pid)
    return int(row[19]) if row else None


def pid_namespace(pid: int | None = None) -> str:
    """The number of a process's namespace of process ids (default: of this process); empty where
    it is not told."""
    try:
        link = os.readlink(f"{_PROC}/{'self' if pid is None else pid}/ns/pid")
    except OSError:
        return ""
    return link.removeprefix("pid:[").removesuffix("]")


def variable(pid: int, name: str) -> str:
    """The value of an environment variable that a process started with; empty without."""
    needle = os.fsencode(f"{name}=")
    try:
        with open(f"{_PROC}/{pid}/environ", "rb") as stream:
            entries = stream.read(1_000_000).split(b"\0")
    except OSError:
        return ""
    found = next((entry for entry in entries if entry.startswith(needle)), b"")
    return os.fsdecode(found[len(needle) :])


def runs(pid: int) -> bool:
    """Whether a process is there and has not ended."""
    row = _stat(pid)
    return row is not None and _runs(row)


@cache
def boot_id() -> str:
    """The kernel's name for this boot; empty where there is none."""
    try:
        return Path(_PROC, "sys/kernel/random/boot_id").read_text("utf-8").strip()
    except OSError:
        return ""


def newest_pid() -> int:
    """The id that was handed out last on this machine; 0 where it is not told."""
    try:
        with open(f"{_PROC}/loadavg", encoding="utf-8") as stream:
            return int(stream.read().split()[-1])
    except (OSError, ValueError, IndexError):
        return 0


def pids() -> Iterator[int]:
    """Every process id in use."""
    try:
        names = os.listdir(_PROC)
    except OSError:
        return iter(())
    return (int(name) for name in names if name.isdecimal())


def _group(pid: int) -> int | None:
    """A process's group: a hundredth of the cost of reading its line in /proc."""
    try:
        return os.getpgid(pid)
    except OSError:
        return None


def _stat(pid: int) -> list[str] | None:
    """The fields of /proc/PID/stat from the state on (index 0), or None when it is gone."""
    try:
        with open(f"{_PROC}/{pid}/stat", "rb") as stream:
            text = stream.read()
    except OSError:
        return None
    # The program's name stands in brackets before and may itself hold brackets and blanks.
    return text[text.rindex(b")") + 1 :].decode("ascii").split()


def _runs(row: list[str]) -> bool:
    return row[0] not in ("Z", "X")
