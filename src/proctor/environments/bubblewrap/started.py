"""One start of bwrap: its arguments, the shell inside that sets limits, what bwrap reports."""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from proctor.environments.bubblewrap.machine import Machine
from proctor.environments.grouping import ControlGroup
from proctor.environments.limits import ProcessLimits
from proctor.kernel.errors import EnvironmentFault

_ENTER = 'cd -- "$1" || exit 127\nshift\n'
_FIRST_TO_GO = "{ echo 1000 > /proc/self/oom_score_adj; } 2>/dev/null || :\n"
_JOIN = 'while [ "$1" != -- ]; do echo 0 > "$1" || exit 125; shift; done\nshift\nexec "$@"'


def joined(words: Sequence[str]) -> bytes:
    """Words as bwrap reads them from a file."""
    if any("\0" in word for word in words):
        raise ValueError("it holds a NUL byte")
    return b"".join(os.fsencode(word) + b"\0" for word in words)


def inner(argv: Sequence[str], cwd: str, limits: ProcessLimits) -> list[str]:
    """The command behind a shell inside that changes the folder and sets the limits.

    Should the whole machine run out of memory, what runs in a sandbox goes first.
    """
    script = f'{_ENTER}{_FIRST_TO_GO}{limits.commands()}\nexec "$@"'
    return ["/bin/sh", "-c", script, "sh", cwd, *argv]


def outer(machine: Machine, group: ControlGroup | None) -> list[str]:
    """The program that becomes bwrap; with a group, a shell that joins it first."""
    if group is None:
        return [*machine.command]
    return ["/bin/sh", "-c", _JOIN, "sh", *group.entrances, "--", *machine.command]


@contextmanager
def descriptors(fixed: bytes, variables: Mapping[str, str]) -> Iterator[tuple[int, int, int]]:
    """(arguments, report, status): what bwrap reads, what it writes to, and where we read that.

    The arguments lie in a file in memory: other users of the host can read command lines.
    """
    words = [word for name, value in variables.items() for word in ("--setenv", name, value)]
    try:
        data = fixed + joined(words)
    except ValueError as error:
        message = f"a variable cannot be set: {error}"
        raise EnvironmentFault(message, code="unsupported", permanent=True) from error
    opened: list[int] = []
    try:
        args = os.memfd_create("proctor-bwrap-args")
        opened.append(args)
        with open(args, "wb", closefd=False) as stream:
            stream.write(data)
        os.lseek(args, 0, os.SEEK_SET)
        status, report = os.pipe()
        opened += (status, report)
        os.set_blocking(status, False)
        yield args, report, status
    finally:
        for fd in opened:
            os.close(fd)


def written(fd: int) -> bytes:
    """What a pipe holds now."""
    try:
        return os.read(fd, 65_536)
    except BlockingIOError:
        return b""
