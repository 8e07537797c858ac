"""The threads that write evidence: few while they keep up, more when the disk is slow.

Every system call of a thread gives the interpreter's lock away and has to win it back from the
event loop, so that eight threads cost three times the CPU of one for the same files. Jobs asked
for in the same loop turn therefore go to one thread together; another thread is added only when
jobs have been waiting for `LATE_S`, as on a disk whose syncs take long.
"""

import asyncio
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

from proctor.kernel.errors import StorageError

MOST_THREADS = 8
"""Enough to let a slow disk group its syncs."""
LATE_S = 0.25
"""How long jobs may wait before another thread is added."""
TOGETHER = 8
"""Jobs that one thread takes at a time, and the most that one turn of the loop is told of."""
_TELL_S = 0.001


class _Job(NamedTuple):
    future: "asyncio.Future[Any]"
    function: Callable[..., Any]
    args: tuple[Any, ...]


class _Batch(NamedTuple):
    loop: asyncio.AbstractEventLoop
    jobs: list[_Job]
    since: float


_Outcome = tuple["asyncio.Future[Any]", Any, Exception | None]


class Hands:
    """Runs blocking jobs in threads of its own, roughly in the order in which they came."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._asked: list[_Job] = []
        self._batches: deque[_Batch] = deque()
        self._changed = threading.Condition()
        self._threads: set[threading.Thread] = set()
        self._idle = 0
        self._closed = False
        self._told = _Told()

    @property
    def threads(self) -> int:
        """How many threads there are now."""
        return len(self._threads)

    def run(self, function: Callable[..., Any], *args: Any) -> "asyncio.Future[Any]":
        """A future of `function(*args)`; cancelled when the hands are closed already."""
        loop = asyncio.get_running_loop()
        job = _Job(loop.create_future(), function, args)
        if not self._asked:
            loop.call_soon(self._hand_over, loop)
        self._asked.append(job)
        return job.future

    def _hand_over(self, loop: asyncio.AbstractEventLoop) -> None:
        jobs, self._asked = self._asked, []
        now = time.monotonic()
        with self._changed:
            if self._closed:  # the run is over, and whoever asks comes too late
                for job in jobs:
                    job.future.cancel()
                return
            for start in range(0, len(jobs), TOGETHER):
                self._batches.append(_Batch(loop, jobs[start : start + TOGETHER], now))
            self._add_thread(now)
            if not self._threads:
                self._refuse()
            self._changed.notify()

    def _refuse(self) -> None:
        """No thread can be started at all: whoever asked is told. Called with the lock."""
        while self._batches:
            for job in self._batches.popleft().jobs:
                job.future.set_exception(
                    StorageError(
                        "cannot start a thread to write results with",
                        hint="raise the limit on processes (ulimit -u), then `proctor resume`",
                    )
                )

    def _add_thread(self, now: float) -> None:
        """Add a thread for the first batch, or for one that is late. Called with the lock."""
        if not self._batches or self._idle or len(self._threads) >= MOST_THREADS:
            return
        if not self._threads or now - self._batches[0].since > LATE_S:
            # A daemon: a driver that dies without closing its run must not hang at its exit.
            thread = threading.Thread(target=self._work, name=self._name, daemon=True)
            try:
                thread.start()
            except RuntimeError:  # the limit on processes: those that are there go on
                return
            self._threads.add(thread)

    def _work(self) -> None:
        while (batch := self._next()) is not None:
            _do(batch, self._told)

    def _next(self) -> _Batch | None:
        """The next batch; None ends the thread: all but one go when there is nothing to do."""
        with self._changed:
            while not self._batches:
                if self._closed or len(self._threads) > 1:
                    self._threads.discard(threading.current_thread())
                    self._changed.notify_all()
                    return None
                self._idle += 1
                self._changed.wait()
                self._idle -= 1
            batch = self._batches.popleft()
            self._add_thread(time.monotonic())
            return batch

    def close(self) -> None:
        """Wait until everything that was handed over is done, and end the threads. Idempotent."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
            self._changed.wait_for(lambda: not self._threads)


class _Told:
    """Outcomes on their way to the loop. One turn hands on at most `TOGETHER`, however many are
    done by then: each wakes an attempt, and all of them in one turn would hold up the others."""

    def __init__(self) -> None:
        self._outcomes: deque[_Outcome] = deque()
        self._lock = threading.Lock()
        self._asked = False
        """Whether the loop is going to settle."""

    def tell(self, loop: asyncio.AbstractEventLoop, outcomes: list[_Outcome]) -> None:
        """From a thread: these jobs are done."""
        with self._lock:
            self._outcomes.extend(outcomes)
            if self._asked or not self._outcomes:
                return
            self._asked = True
        try:
            loop.call_soon_threadsafe(self._settle, loop)
        except RuntimeError:  # the loop is closed: nobody waits any more
            return

    def _settle(self, loop: asyncio.AbstractEventLoop) -> None:
        with self._lock:
            count = min(TOGETHER, len(self._outcomes))
            outcomes = [self._outcomes.popleft() for _ in range(count)]
            self._asked = bool(self._outcomes)
            if self._asked:
                loop.call_soon(self._settle, loop)
        for future, value, error in outcomes:
            if future.done():  # nobody waits any more
                continue
            if error is not None:
                future.set_exception(error)
            else:
                future.set_result(value)


def _do(batch: _Batch, told: _Told) -> None:
    """Do the jobs; tell the loop of what is done once a millisecond, and at the end."""
    outcomes: list[_Outcome] = []
    since = time.monotonic()
    for future, function, args in batch.jobs:
        try:
            outcomes.append((future, function(*args), None))
        except Exception as error:  # noqa: BLE001 - handed to whoever asked
            outcomes.append((future, None, error))
        if time.monotonic() - since > _TELL_S:
            told.tell(batch.loop, outcomes)
            outcomes, since = [], time.monotonic()
    told.tell(batch.loop, outcomes)
