"""What a temporary PostgreSQL server costs beside its client.

Standard library only: it also runs in the virtual environments of the systems we compare with.
"""

import os
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

_TICKS = os.sysconf("SC_CLK_TCK")
_STATE, _PARENT, _CPU, _CPU_OF_ENDED = 0, 1, slice(11, 13), slice(13, 15)


def server_pid(url: str) -> int:
    """The first process of the server at `url` (of `proctor.testing.postgresql`)."""
    (folder,) = parse_qs(urlsplit(url).query)["host"]
    return int(Path(folder, "data", "postmaster.pid").read_text("ascii").split()[0])


def server_cpu_s(pid: int) -> float:
    """CPU seconds so far of the server: its first process, its children, and those that ended."""
    ticks = 0
    for entry in os.scandir("/proc"):
        if not entry.name.isdigit():
            continue
        facts = _facts(entry.name)
        if entry.name == str(pid):
            ticks += sum(map(int, facts[_CPU])) + sum(map(int, facts[_CPU_OF_ENDED]))
        elif facts and facts[_PARENT] == str(pid):
            ticks += sum(map(int, facts[_CPU]))
    return ticks / _TICKS


def _facts(pid: str) -> list[str]:
    """The fields of a process after its name, none when it has ended."""
    try:
        return Path("/proc", pid, "stat").read_text("utf-8").rpartition(")")[2].split()
    except OSError:
        return []
