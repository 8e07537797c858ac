"""Runs one program to its end: own process group, bounded output, the whole group killed.

Built on `subprocess.Popen` (which starts children with vfork) and the event loop's readiness
callbacks. The loop's own subprocess transport costs several times the CPU and waits for the end
of file of pipes that a background child may hold open for ever.
"""

import errno
import time
from collections.abc import Mapping, Sequence

from proctor.environments.child import Child, Start
from proctor.environments.contract import OUTPUT_LIMIT_BYTES, ExecResult
from proctor.environments.limits import ProcessLimits
from proctor.kernel.errors import EnvironmentFault

_MISSING = (errno.ENOENT, errno.ENOTDIR)
_UNUSABLE = (errno.EACCES, errno.EPERM, errno.ENOEXEC, errno.E2BIG, errno.ELOOP,
             errno.ENAMETOOLONG, errno.EISDIR, errno.ETXTBSY)  # fmt: skip


async def run_process(
    argv: Sequence[str],
    *,
    cwd: str | None = None,
    env: Mapping[str, str] | None = None,
    stdin: bytes | None = None,
    timeout_s: float | None = None,
    output_limit_bytes: int = OUTPUT_LIMIT_BYTES,
    limits: ProcessLimits | None = None,
) -> ExecResult:
    """Run `argv` to its end and return what it did.

    `timeout_s`: None is no limit; pass limits that come from a model or from data through
    `clamp_timeout`. `env` None gives PATH, LANG, LC_*, TZ and TERM only. stdin is /dev/null unless
    given. When the program ends, processes of its group that are left are killed (`lingering`)
    without waiting for their output. Cancelling kills the group and reaps the program. Raises
    EnvironmentFault `cannot_start` when the machine cannot start processes, and `unkillable`.
    """
    started = Start(argv if limits is None else limits.wrap(argv), cwd, env, stdin)
    return await run_child(started, timeout_s=timeout_s, output_limit_bytes=output_limit_bytes)


async def run_child(
    start: Start,
    *,
    timeout_s: float | None,
    output_limit_bytes: int = OUTPUT_LIMIT_BYTES,
    running: set[Child] | None = None,
) -> ExecResult:
    """`run_process` for a prepared `Start`. While it runs, the child is in the set `running`."""
    if timeout_s is not None and not timeout_s > 0:
        raise ValueError(f"timeout_s must be above 0, found {timeout_s}")
    began = time.monotonic()
    try:
        child = Child(start, output_limit_bytes)
    except (OSError, ValueError) as error:
        return _not_started(start, error, time.monotonic() - began)
    if running is not None:
        running.add(child)
    try:
        await child.wait(timeout_s)
    except BaseException:
        await child.abandon()
        raise
    finally:
        if running is not None:
            running.discard(child)
    return child.result(time.monotonic() - began)


def _not_started(start: Start, error: OSError | ValueError, duration_s: float) -> ExecResult:
    """What a shell reports for a program that is missing (127) or cannot run (126)."""
    name = str(start.argv[0]) if start.argv else ""
    if not isinstance(error, OSError):  # NUL or a lone surrogate in an argument or variable
        return ExecResult(126, "", f"cannot run {name!r}: {error}\n", duration_s=duration_s)
    if error.errno not in (*_MISSING, *_UNUSABLE):
        raise EnvironmentFault(
            f"cannot start a process: {error.strerror}",
            code="cannot_start",
            hint="lower the concurrency or raise the limits of open files and processes",
        ) from error
    where = f"{name!r}"
    if start.cwd is not None and error.filename == start.cwd:
        where += f" in {start.cwd!r}"
    code = 127 if error.errno in _MISSING else 126
    return ExecResult(code, "", f"cannot run {where}: {error.strerror}\n", duration_s=duration_s)
