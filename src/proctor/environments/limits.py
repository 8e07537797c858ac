"""Limits of a process and its children, set by a shell just before the program starts.

No `preexec_fn` is involved, which would make every start a slow and unsafe fork of the driver.
"""

import math
import resource
from collections.abc import Sequence
from dataclasses import dataclass, fields

TIMEOUT_CEILING_S = 86_400.0
"""The longest a command may take unless a provider is configured otherwise: 24 hours."""

_SHELL = "/bin/sh"
_MB = 1_048_576
_BLOCK = 512  # POSIX: the unit of `ulimit -f`


def clamp_timeout(asked_s: float | None, ceiling_s: float) -> float:
    """`asked_s` if it lies in (0, ceiling_s], else the ceiling.

    For limits that come from a model or from data: None, NaN, infinity and anything not above 0
    must not switch the limit off.
    """
    if asked_s is None or not math.isfinite(asked_s) or not 0 < asked_s <= ceiling_s:
        return ceiling_s
    return asked_s


@dataclass(frozen=True, slots=True)
class ProcessLimits:
    """What a process and each of its children may use. None: no limit of ours.

    `memory_mb` bounds private writable memory per process (RLIMIT_DATA), which ordinary
    allocation of any language counts against; address space that is only reserved is free, so
    that Node, Go and Java start. Such a process is also the first that the kernel ends when the
    machine runs out of memory. `cpu_s` is per process; `file_size_mb` per written file;
    `open_files` per process. `processes` counts *all* processes of the user on the host (or of
    the user namespace, in a sandbox) and does not bind root: see docs/environments.md.
    """

    memory_mb: int | None = None
    cpu_s: int | None = None
    file_size_mb: int | None = None
    open_files: int | None = None
    processes: int | None = None

    def __post_init__(self) -> None:
        for spec in fields(self):
            value = getattr(self, spec.name)
            if value is not None and (not isinstance(value, int) or value < 1):
                raise ValueError(f"{spec.name} must be a whole number above 0, found {value!r}")

    def commands(self) -> str:
        """POSIX shell commands that set the limits; the shell ends with 126 where it cannot."""
        lines = ["ulimit -c 0"]
        if self.memory_mb is not None:
            lines.append(f"ulimit -d {_capped(resource.RLIMIT_DATA, self.memory_mb * _MB) // 1024}")
            lines.append("{ echo 1000 > /proc/self/oom_score_adj; } 2>/dev/null || :")
        if self.cpu_s is not None:
            lines.append(f"ulimit -t {_capped(resource.RLIMIT_CPU, self.cpu_s)}")
        if self.file_size_mb is not None:
            size = _capped(resource.RLIMIT_FSIZE, self.file_size_mb * _MB)
            lines.append(f"ulimit -f {size // _BLOCK}")
        if self.open_files is not None:
            lines.append(f"ulimit -n {_capped(resource.RLIMIT_NOFILE, self.open_files)}")
        if self.processes is not None:
            count = _capped(resource.RLIMIT_NPROC, self.processes)
            # bash says -u, other shells say -p (which in bash means something else).
            lines.append(f"ulimit -u {count} 2>/dev/null || ulimit -p {count}")
        return "\n".join(f"{line} || exit 126" for line in lines)

    def wrap(self, argv: Sequence[str]) -> list[str]:
        """`argv` behind a shell that sets the limits and then becomes the program."""
        return [_SHELL, "-c", f'{self.commands()}\nexec "$@"', "sh", *argv]


def _capped(kind: int, wanted: int) -> int:
    """A limit cannot be raised above the hard limit that the driver itself lives under."""
    hard = resource.getrlimit(kind)[1]
    return wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
