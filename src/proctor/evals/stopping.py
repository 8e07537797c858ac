"""Stopping a run: by signal, by deadline, or from Python.

The first SIGINT or SIGTERM asks for an orderly stop; the second exits at once, and takes the
programs that run in environments of this machine with it.
"""

import asyncio
import itertools
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, TypeVar

from proctor.environments.child import kill_all
from proctor.evals.threads import TrackedThreads
from proctor.kernel.errors import Stopped

T = TypeVar("T")

SIGNALS = (signal.SIGINT, signal.SIGTERM)
_END = b"\0"


class Stop:
    """A request to stop, safe to make from signal handlers and other threads."""

    def __init__(self) -> None:
        self.signal: int | None = None
        self._requested = False  # no lock: a second signal may come while the first is handled
        self._waiters: list[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = []

    @property
    def requested(self) -> bool:
        """Whether somebody asked."""
        return self._requested

    def request(self, signum: int | None = None) -> None:
        """Ask for an orderly stop."""
        if not self.requested:
            self.signal = signum
            self._requested = True
        for loop, event in list(self._waiters):
            if not loop.is_closed():
                loop.call_soon_threadsafe(event.set)

    async def wait(self) -> None:
        """Return once a stop is requested."""
        event = asyncio.Event()
        waiter = (asyncio.get_running_loop(), event)
        self._waiters.append(waiter)
        try:
            if self.requested:
                return
            await event.wait()
        finally:
            self._waiters.remove(waiter)


async def unless_stopped(stop: Stop, function: Callable[..., T], *arguments: Any) -> T:
    """Blocking preparation that leaves nothing behind: a stop does not wait for it. Raises
    Stopped."""
    loop = asyncio.get_running_loop()
    work = loop.create_task(TrackedThreads().call("preparing", function, *arguments))
    stopped = loop.create_task(stop.wait())
    try:
        await asyncio.wait((work, stopped), return_when=asyncio.FIRST_COMPLETED)
        if stop.requested:
            raise Stopped(signal=stop.signal)
        return work.result()
    finally:
        stopped.cancel()
        work.cancel()


@contextmanager
def on_signals(stop: Stop, before_exit: Callable[[], None] | None = None) -> Iterator[None]:
    """Turn SIGINT and SIGTERM into a stop for the time of the block (main thread only).

    Plain handlers, not the loop's: they also run while blocking code holds the loop. Beside them
    a thread reads what the interpreter's own handler, the one in C, writes for each signal: of two
    signals that come together the main thread may see one, and none while it is held up.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    presses = _Presses(stop, before_exit)
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    watcher = threading.Thread(target=presses.watch, args=(reader,), name="proctor-signals")
    watcher.daemon = True
    watcher.start()
    previous = {signum: signal.signal(signum, presses.handle) for signum in SIGNALS}
    woken_before = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    try:
        yield
    finally:
        signal.set_wakeup_fd(woken_before)
        for signum, handler in previous.items():
            signal.signal(signum, handler)
        os.write(writer, _END)  # closing is not enough: a forked child may hold the pipe too
        watcher.join()
        os.close(writer)
        os.close(reader)


class _Presses:
    """Counts the signals that two observers see, each some or all of them."""

    def __init__(self, stop: Stop, before_exit: Callable[[], None] | None) -> None:
        self._stop = stop
        self._before_exit = before_exit
        self._handled = itertools.count(1)  # its next() cannot be cut in two by another signal
        self._watched = itertools.count(1)

    def handle(self, signum: int, frame: FrameType | None) -> None:
        """The main thread's view."""
        self._seen(signum, next(self._handled))

    def watch(self, reader: int) -> None:
        """The thread's view, until it reads `_END`."""
        while (signum := os.read(reader, 1)) != _END:
            if ord(signum) in SIGNALS:
                self._seen(ord(signum), next(self._watched))

    def _seen(self, signum: int, number: int) -> None:
        asked_from_python = self._stop.requested and self._stop.signal is None
        if number == 1 and not asked_from_python:
            self._stop.request(signum)
            return
        if self._before_exit is not None:
            self._before_exit()
        kill_all()
        os._exit(128 + signum)
