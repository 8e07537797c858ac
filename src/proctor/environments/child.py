"""A started program with its pipes, driven by readiness callbacks of the running event loop."""

import asyncio
import os
import select
import signal
import subprocess
import threading
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

from proctor.environments import proctable
from proctor.environments.capture import BoundedCapture
from proctor.environments.contract import ExecResult
from proctor.environments.patience import Patience
from proctor.environments.variables import base_variables
from proctor.kernel.errors import EnvironmentFault

_READ_BYTES = 65_536
_DRAIN_BYTES = 1_048_576  # the most an unprivileged pipe can hold
_KILL_WAIT_S = 10.0
_GROUP_WAIT_S = 2.0


@dataclass(frozen=True, slots=True)
class Start:
    """What to start. `env` None is the short list of `base_variables`, never all of the driver's.

    `keep_fds` are descriptors of the driver that the program inherits. `lingers` False: members of
    the group that outlive the program are its own helpers and not worth telling; killed they are.
    `within` is entered around the start only: what this thread is in then, the program is in too.
    """

    argv: Sequence[str]
    cwd: str | None = None
    env: Mapping[str, str] | None = None
    stdin: bytes | None = None
    keep_fds: tuple[int, ...] = ()
    lingers: bool = True
    within: AbstractContextManager[Any] | None = None


class Child:
    """One program, started by the constructor. Then `wait` or `abandon`, once each.

    The constructor raises OSError or ValueError when the program cannot be started.
    """

    def __init__(self, start: Start, output_limit_bytes: int) -> None:
        self._loop = asyncio.get_running_loop()
        self._captures = (BoundedCapture(output_limit_bytes), BoundedCapture(output_limit_bytes))
        with start.within or nullcontext():
            self._popen, *outputs, self._stdin_fd = _spawn(start)
        self._pid = self._popen.pid
        self._pidfd: int | None = None
        self._input = memoryview(start.stdin or b"")
        self._ended: asyncio.Future[None] = self._loop.create_future()
        self._timer: asyncio.TimerHandle | None = None
        self._timed_out = False
        self._unkillable = False
        self._tell_lingering = start.lingers
        self._lingering = False
        self._group_left = False
        self._readers = dict(zip(outputs, self._captures, strict=True))
        _running.add(self)

    async def wait(self, timeout_s: float | None) -> None:
        """Until the program has ended and its group is gone; kills when the time is up."""
        if timeout_s is not None:
            self._timer = self._loop.call_later(timeout_s, self._on_timeout)
        for fd in self._readers:
            os.set_blocking(fd, False)
            self._loop.add_reader(fd, self._on_output, fd)
        if self._stdin_fd is not None:
            os.set_blocking(self._stdin_fd, False)
            self._on_writable()  # most inputs fit into the pipe at once
            if self._stdin_fd is not None:
                self._loop.add_writer(self._stdin_fd, self._on_writable)
        self._watch_exit()
        await self._ended
        if self._group_left:
            await self._group_gone()

    async def abandon(self) -> None:
        """Kill the group and reap the program, whatever state it is in."""
        try:
            if self._popen.returncode is None:
                self.kill()
                self._ended = self._loop.create_future()
                if not self._unkillable:
                    await asyncio.wait((self._ended,), timeout=_KILL_WAIT_S)
            if self._group_left:
                await self._group_gone()
        finally:
            if self._popen.returncode is None:
                self._reap_now()
            if self._ended.done() and not self._ended.cancelled():
                self._ended.exception()  # looked at: whoever abandons has an error of its own
            self._release()

    def kill(self) -> None:
        """Kill the whole group now; whoever awaits `wait` gets the result."""
        if self._popen.returncode is None:  # not reaped: the id still belongs to our group
            self._signal_group(signal.SIGKILL)

    def result(self, duration_s: float) -> ExecResult:
        """What the program did, after `wait`."""
        out, err = (capture.result() for capture in self._captures)
        dropped = out.dropped_bytes + err.dropped_bytes
        return ExecResult(
            None if self._timed_out else self._popen.returncode,
            out.text,
            err.text,
            timed_out=self._timed_out,
            truncated=dropped > 0,
            dropped_bytes=dropped,
            lingering=self._lingering,
            duration_s=duration_s,
            stdout_raw=out.raw,
            stderr_raw=err.raw,
        )

    # --- callbacks

    def _on_output(self, fd: int) -> None:
        try:
            data = os.read(fd, _READ_BYTES)
        except BlockingIOError:
            return
        if data:
            self._readers[fd].feed(data)
        else:
            self._close_reader(fd)

    def _on_writable(self) -> None:
        fd = self._stdin_fd
        if fd is None:
            return
        try:
            self._input = self._input[os.write(fd, self._input) :]
        except BlockingIOError:
            return
        except BrokenPipeError:  # the program does not want the rest
            self._input = self._input[:0]
        if not self._input:
            self._close_stdin()

    def _on_timeout(self) -> None:
        self._timed_out = True
        self.kill()
        self._timer = self._loop.call_later(_KILL_WAIT_S, self._on_unkillable)

    def _on_unkillable(self) -> None:
        self._unkillable = True
        if not self._ended.done():
            message = f"process {self._pid} does not end {_KILL_WAIT_S:g} s after it was killed"
            self._ended.set_exception(EnvironmentFault(message, code="unkillable"))

    def _on_exit(self) -> None:
        """The program has ended: reap it, kill what it left, take what the pipes hold."""
        if self._popen.returncode is not None or not self._reap(os.WNOHANG):
            return
        # The id of a group without members is free again, but ids are handed out in turn: nobody
        # can have got this one between the two calls.
        if self._signal_group(0):
            if self._tell_lingering and not self._timed_out:
                self._lingering = bool(proctable.live_members(self._pid))
            self._group_left = self._signal_group(signal.SIGKILL)
        for fd in list(self._readers):
            self._drain(fd)
        self._release()
        if not self._ended.done():
            self._ended.set_result(None)

    # --- parts

    def _watch_exit(self) -> None:
        try:
            self._pidfd = os.pidfd_open(self._pid)
        except ProcessLookupError:  # gone already, and reaped by somebody else
            self._loop.call_soon(self._on_exit)
        except (AttributeError, OSError):  # not Linux, an old kernel, or no descriptor left
            threading.Thread(target=self._watch_by_thread, daemon=True).start()
        else:
            self._loop.add_reader(self._pidfd, self._on_exit)

    def _watch_by_thread(self) -> None:
        try:
            os.waitid(os.P_PID, self._pid, os.WEXITED | os.WNOWAIT)
        except ChildProcessError:  # reaped already, by `abandon` or by somebody else
            pass
        try:
            self._loop.call_soon_threadsafe(self._on_exit)
        except RuntimeError:  # the loop was closed: nobody waits any more
            self._reap(os.WNOHANG)

    def _reap(self, flags: int) -> bool:
        try:
            pid, status = os.waitpid(self._pid, flags)
        except ChildProcessError:
            # Somebody else took the exit status (SIGCHLD ignored in this process?). It is unknown,
            # and must not be mistaken for success.
            self._popen.returncode = 255
            if not self._ended.done():
                self._ended.set_exception(
                    EnvironmentFault("a command's exit status was lost to another waiter")
                )
            return True
        if pid:
            self._popen.returncode = os.waitstatus_to_exitcode(status)
        return bool(pid)

    def _reap_now(self) -> None:
        """After a second cancellation: one short blocking wait, so that no zombie stays."""
        if self._pidfd is not None:
            select.select([self._pidfd], [], [], 1.0)
        self._reap(os.WNOHANG)

    def _signal_group(self, number: int) -> bool:
        try:
            os.killpg(self._pid, number)
        except ProcessLookupError:
            return False
        except PermissionError:  # only processes of other users are left in it
            return True
        return True

    async def _group_gone(self) -> None:
        """Wait, within bounds, until the killed members have really ended."""
        patience = Patience(_GROUP_WAIT_S)
        while self._signal_group(0):
            self._reap_orphans()
            if patience.over() or not proctable.live_members(self._pid):
                return
            await patience.pause()

    def _reap_orphans(self) -> None:
        """Where we are process 1, as in a container, what the group left becomes our child."""
        try:
            os.waitpid(-self._pid, os.WNOHANG)
        except ChildProcessError:
            pass

    def _drain(self, fd: int) -> None:
        """Take what the pipe holds now, without waiting for the end of file."""
        left = _DRAIN_BYTES
        while left > 0:
            try:
                data = os.read(fd, _READ_BYTES)
            except BlockingIOError:
                return
            if not data:
                return
            self._readers[fd].feed(data)
            left -= len(data)

    def _close_reader(self, fd: int) -> None:
        self._loop.remove_reader(fd)
        del self._readers[fd]
        os.close(fd)

    def _close_stdin(self) -> None:
        if self._stdin_fd is not None:
            self._loop.remove_writer(self._stdin_fd)
            os.close(self._stdin_fd)
            self._stdin_fd = None

    def _release(self) -> None:
        """Close every descriptor and stop the clock. Idempotent."""
        _running.discard(self)
        if self._timer is not None:
            self._timer.cancel()
        self._close_stdin()
        for fd in list(self._readers):
            self._close_reader(fd)
        if self._pidfd is not None:
            self._loop.remove_reader(self._pidfd)
            os.close(self._pidfd)
            self._pidfd = None


_running: set[Child] = set()


def kill_all() -> None:
    """Kill every program that runs now, without waiting: for a driver that exits at once. May be
    called from a signal handler."""
    for child in list(_running):
        child.kill()


def _spawn(start: Start) -> "tuple[subprocess.Popen[bytes], int, int, int | None]":
    """Start the program; returns it with our ends of stdout, stderr and (if used) stdin."""
    opened: list[int] = []
    variables = base_variables() if start.env is None else start.env

    def pipe() -> tuple[int, int]:
        pair = os.pipe()
        opened.extend(pair)
        return pair

    try:
        out_read, out_write = pipe()
        err_read, err_write = pipe()
        in_read, in_write = pipe() if start.stdin else (subprocess.DEVNULL, None)
        popen: subprocess.Popen[Any] = subprocess.Popen(
            [_utf8(word) for word in start.argv],
            bufsize=0,
            stdin=in_read,
            stdout=out_write,
            stderr=err_write,
            cwd=start.cwd,
            env={_utf8(name): _utf8(value) for name, value in variables.items()},
            pass_fds=start.keep_fds,
            start_new_session=True,
        )
    except BaseException:
        for fd in opened:
            os.close(fd)
        raise
    for fd in (out_write, err_write, in_read):
        if fd >= 0:
            os.close(fd)
    return popen, out_read, err_read, in_write


def _utf8(text: str) -> bytes:
    """What a program gets to see is UTF-8, whatever locale the driver runs in."""
    return text.encode("utf-8", "surrogateescape")
