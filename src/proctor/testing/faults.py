"""Failing at an exact moment: kill the process or fill the disk at a named write point.

    python -m proctor.testing.faults --at result.partial --hit 4 --do enospc -- run …

runs the command line in this process and does something at one hit of the kernel's fault points
(`proctor.kernel.faults`). Points are named `<role>.<moment>`; `--do record=FILE` runs undisturbed
and lists in FILE every point that was hit, in order, one a line, so that a test can go through
all of them.

| `--do` | at the chosen hit |
|---|---|
| `kill` | the process ends by SIGKILL: nothing is flushed, released or cleaned up |
| `enospc` | this one call fails with `OSError(ENOSPC)`, as on a full disk |
| `record=FILE` | nothing; every hit is noted in FILE |

`--at NAME` counts the hits of that point, `--hit-any N` those of all points together. Exit code:
that of the command line; 2 for wrong arguments.
"""

import argparse
import errno
import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal, NoReturn

from proctor.kernel import faults

Deed = Literal["kill", "enospc", "record"]


@dataclass(frozen=True, slots=True)
class FaultPlan:
    """What happens at which hit. `at` None counts the hits of all points; hits count from 1.

    `record_to` is the file of `do="record"`, which ignores `at` and `hit`.
    """

    do: Deed
    at: str | None = None
    hit: int = 1
    record_to: str | None = None


class Injector:
    """A hook for `proctor.kernel.faults.install`. Points may be hit in several threads."""

    def __init__(self, plan: FaultPlan) -> None:
        self._plan = plan
        self._lock = threading.Lock()
        self._hits = 0
        self._record: int | None = None
        if plan.record_to is not None:
            flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_CLOEXEC
            self._record = os.open(plan.record_to, flags, 0o644)

    @property
    def hits(self) -> int:
        """How often a point that counts was hit so far."""
        return self._hits

    def __call__(self, name: str) -> None:
        """One hit of the point `name`."""
        plan = self._plan
        if plan.at is not None and name != plan.at:
            return
        with self._lock:
            self._hits += 1
            due = self._hits == plan.hit
            if self._record is not None:
                os.write(self._record, f"{name}\n".encode())
        if plan.do == "kill" and due:
            _die()
        if plan.do == "enospc" and due:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def close(self) -> None:
        """Close the record. Idempotent."""
        if self._record is not None:
            os.close(self._record)
            self._record = None


def _die() -> NoReturn:
    os.kill(os.getpid(), signal.SIGKILL)
    while True:  # not one instruction of the caller after the point
        signal.pause()


@contextmanager
def injected(plan: FaultPlan) -> Iterator[Injector]:
    """Have `plan` in force in this process for the time of the block."""
    injector = Injector(plan)
    faults.install(injector)
    try:
        yield injector
    finally:
        faults.install(None)
        injector.close()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run `proctor` with the arguments after `--` under a plan; its exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    mine, command = given, None
    if "--" in given:
        cut = given.index("--")
        mine, command = given[:cut], given[cut + 1 :]
    plan = _plan(mine, command)
    from proctor.cli.app import main as run_command_line

    with injected(plan):
        return run_command_line(command)


def _plan(arguments: Sequence[str], command: Sequence[str] | None) -> FaultPlan:
    parser = argparse.ArgumentParser(
        prog="python -m proctor.testing.faults",
        usage="%(prog)s [--at NAME [--hit N] | --hit-any N] --do kill|enospc|record=FILE -- "
        "PROCTOR ARGUMENTS",
        description="Run proctor and fail at an exact moment.",
    )
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--at", metavar="NAME", help="a point, such as result.partial")
    which.add_argument("--hit-any", metavar="N", type=_count, help="the N-th hit of all points")
    parser.add_argument("--hit", metavar="N", type=_count, default=1, help="which hit of --at")
    parser.add_argument("--do", required=True, metavar="WHAT", help="kill, enospc or record=FILE")
    found = parser.parse_args(arguments)
    deed, _, file = found.do.partition("=")
    if not command:
        parser.error("nothing to run: give the arguments of proctor after --")
    if deed == "record" and file:
        return FaultPlan("record", record_to=file)
    if found.do not in ("kill", "enospc"):
        parser.error(f"--do {found.do}: expected kill, enospc or record=FILE")
    if found.at is None and found.hit_any is None:
        parser.error(f"--do {found.do} needs --at NAME or --hit-any N")
    return FaultPlan(found.do, found.at, found.hit_any or found.hit)


def _count(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text}: hits count from 1")
    return number


if __name__ == "__main__":
    sys.exit(main())
