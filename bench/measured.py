"""Running one case in a process of its own, and looking at what it left on the disk."""

import atexit
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
SYNC_CALLS = "fsync,fdatasync,sync,syncfs,msync,sync_file_range"
LIMIT_S = 3600.0


class CaseFailed(Exception):
    """A case did not end well; the message holds the end of what it said."""


def cache_dir() -> Path:
    """Where benchmarks keep what outlives them: PROCTOR_BENCH_CACHE, else `.bench` here."""
    path = Path(os.environ.get("PROCTOR_BENCH_CACHE") or ROOT / ".bench").absolute()
    path.mkdir(parents=True, exist_ok=True)
    return path


@contextmanager
def scratch() -> Iterator[Path]:
    """An empty folder on the disk of the cache. Not in the system's temporary folder: that one may
    lie in memory, where a sync costs nothing.

    It is removed when this process ends, not before, as long as the disk has room: ext4 does not
    reuse an inode for minutes after a deletion and searches past it, so that a case measured after
    the files of another were removed would pay several times as much for each new file.
    """
    folder = Path(tempfile.mkdtemp(prefix=f"scratch-{os.getpid()}-", dir=cache_dir()))
    if not _kept:
        atexit.register(_remove_kept)
    _kept.append(folder)
    yield folder
    if not _has_room(folder):
        _remove_kept()


def _has_room(folder: Path) -> bool:
    facts = os.statvfs(folder)
    few_files = facts.f_files > 0 and facts.f_favail < ROOM_FILES  # some file systems do not count
    return facts.f_bavail * facts.f_frsize >= ROOM_BYTES and not few_files


_kept: list[Path] = []
ROOM_BYTES = 5_000_000_000
ROOM_FILES = 500_000


def _remove_kept() -> None:
    while _kept:
        shutil.rmtree(_kept.pop(), ignore_errors=True)
    for folder in cache_dir().glob("scratch-*-*"):  # of a process that was killed
        if not Path("/proc", folder.name.split("-")[1]).exists():
            shutil.rmtree(folder, ignore_errors=True)


@dataclass(frozen=True, slots=True)
class Ended:
    """A process that ended well: its whole CPU time, and what it reported of itself."""

    wall_s: float
    user_s: float
    system_s: float
    own: dict[str, Any]

    @property
    def cpu_s(self) -> float:
        return self.user_s + self.system_s


def usual_environment() -> dict[str, str]:
    """The variables of this process, but Python keeps its bytecode: where a machine forbids that,
    every start would compile every module again, which is not what users see."""
    unusual = ("PYTHONDONTWRITEBYTECODE", "PYTHONUNBUFFERED", "PYTHONASYNCIODEBUG", "PYTHONDEVMODE")
    return {name: value for name, value in os.environ.items() if name not in unusual}


def run(argv: Sequence[str], folder: Path, env: Mapping[str, str] | None = None) -> Ended:
    """Run a program in `folder`, whose files `out`, `err` and `report.json` are the program's.

    `{report}` in an argument stands for the path of the report. Raises CaseFailed.
    """
    report = folder / "report.json"
    command = [part.replace("{report}", str(report)) for part in argv]
    environment = {**usual_environment(), "PYTHONPATH": str(ROOT), **(env or {})}
    with open(folder / "out", "wb") as out, open(folder / "err", "wb") as err:
        started = time.perf_counter()
        process = subprocess.Popen(
            command, cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=out, stderr=err
        )
        try:
            _, status, used = os.wait4(process.pid, 0)
        except BaseException:
            process.kill()
            process.wait()
            raise
        wall_s = time.perf_counter() - started
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise CaseFailed(f"{' '.join(argv[:4])} … ended with {process.returncode}: {_last(folder)}")
    own = json.loads(report.read_text("utf-8")) if report.exists() else {}
    return Ended(wall_s, used.ru_utime, used.ru_stime, own)


def _last(folder: Path) -> str:
    said = [(folder / name).read_text("utf-8", "replace").strip() for name in ("err", "out")]
    return next((text[-2000:] for text in said if text), "it said nothing")


@dataclass(frozen=True, slots=True)
class Tree:
    """What lies below a folder. `size_bytes` is the sum of the lengths of files."""

    files: int
    folders: int
    size_bytes: int
    allocated_bytes: int


def look_at(folder: Path) -> Tree:
    """Count a tree; links are not followed."""
    files = folders = size = allocated = 0
    pending = [str(folder)]
    while pending:
        with os.scandir(pending.pop()) as entries:
            for entry in entries:
                facts = entry.stat(follow_symlinks=False)
                allocated += facts.st_blocks * 512
                if entry.is_dir(follow_symlinks=False):
                    folders += 1
                    pending.append(entry.path)
                else:
                    files += 1
                    size += facts.st_size
    return Tree(files, folders, size, allocated)


@cache
def strace() -> tuple[str, ...] | None:
    """strace with the calls to count, None where it is not installed or not allowed."""
    path = shutil.which("strace")
    if path is None:
        return None
    command = (path, "-f", "-qq", "--seccomp-bpf", "-c", "-e", f"trace={SYNC_CALLS}")
    try:
        done = subprocess.run(
            [*command, "-o", os.devnull, sys.executable, "-c", "pass"],
            check=False, capture_output=True, timeout=60,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return None
    return command if done.returncode == 0 else None


def traced_syncs(table: str) -> int:
    """How many calls a table of `strace -c` counts."""
    rows = re.findall(r"^ *[\d.]+ +[\d.]+ +\d+ +(\d+) .*?(\w+)$", table, re.M)
    return sum(int(calls) for calls, name in rows if name in SYNC_CALLS.split(","))


def file_system(path: Path) -> str:
    """The kind of file system that `path` lies on."""
    best, kind = "", "unknown"
    for line in Path("/proc/mounts").read_text("utf-8").splitlines():
        place, found = line.split()[1:3]
        if path.is_relative_to(place) and len(place) >= len(best):
            best, kind = place, found
    return kind


def circumstances() -> dict[str, Any]:
    """What a figure cannot be read without."""
    one, five, fifteen = os.getloadavg()
    return {
        "date": time.strftime("%Y-%m-%d"),
        "python": sys.version.split()[0],
        "kernel": os.uname().release,
        "cpus": len(os.sched_getaffinity(0)),
        "file_system": file_system(cache_dir()),
        "load_average": [round(one, 2), round(five, 2), round(fifteen, 2)],
    }
