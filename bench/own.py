"""What a process can say of itself: CPU, peak memory, bytes written. Standard library only, because
it also runs in the virtual environments of the systems that we compare with."""

import json
import os
import resource
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any


class Span:
    """From construction to `end`: the costs of this process and the children it waited for."""

    def __init__(self) -> None:
        self._wall = time.perf_counter()
        self._user, self._system = _cpu_s()
        self._written = written_bytes()

    def end(self) -> dict[str, Any]:
        """Seconds of wall time and of CPU, bytes given to write calls, peak RSS in KiB so far."""
        user, system = _cpu_s()
        return {
            "wall_s": time.perf_counter() - self._wall,
            "user_s": user - self._user,
            "system_s": system - self._system,
            "written_bytes": written_bytes() - self._written,
            "rss_kib": peak_rss_kib(),
        }


def _cpu_s() -> tuple[float, float]:
    own = resource.getrusage(resource.RUSAGE_SELF)
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return own.ru_utime + children.ru_utime, own.ru_stime + children.ru_stime


def written_bytes() -> int:
    """Bytes that this process has given to write calls (files, pipes and sockets alike)."""
    for line in Path("/proc/self/io").read_text("ascii").splitlines():
        if line.startswith("wchar:"):
            return int(line.split()[1])
    raise SystemExit("/proc/self/io has no wchar; the figures need Linux")


def peak_rss_kib() -> int:
    """Peak resident memory since this program started. `ru_maxrss` would count what the process
    was before it became this program."""
    for line in Path("/proc/self/status").read_text("utf-8").splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1])
    raise SystemExit("/proc/self/status has no VmHWM; the figures need Linux")


def count_syncs() -> Callable[[], int]:
    """Count the calls of `os.fsync` and `os.fdatasync` from now on; call the result to read."""
    calls = 0

    def counted(sync: Callable[[Any], None]) -> Callable[[Any], None]:
        def call(fd: Any) -> None:
            nonlocal calls
            calls += 1
            sync(fd)

        return call

    for name in ("fsync", "fdatasync"):
        setattr(os, name, counted(getattr(os, name)))
    return lambda: calls


def report(path: str, found: dict[str, Any]) -> None:
    """Leave the figures where the parent looks for them; stdout is not ours to keep clean."""
    Path(path).write_text(json.dumps(found), "utf-8")
