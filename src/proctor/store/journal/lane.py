"""A thread that owns one connection and works off jobs in groups.

Callers on any event loop hand a job in and await its future. A group is whatever waits when the
thread is free: while one group reaches the disk, the next one gathers, so many runs share a sync.
"""

import asyncio
import threading
from collections.abc import Callable, Sequence
from queue import Empty, SimpleQueue
from typing import Any

from proctor.kernel.errors import StorageError
from proctor.store.journal.errors import JournalClosed
from proctor.store.journal.jobs import Job

GROUP = 256
"""Jobs that one group takes at most."""


class Lane:
    """`opened` runs in the thread first and gives the function that works off a group, which sets
    `answer` or `error` of each job; `closed` runs in it last."""

    def __init__(
        self,
        name: str,
        opened: Callable[[], Callable[[Sequence[Job]], None]],
        closed: Callable[[], None],
    ) -> None:
        self._open = opened
        self._closed = closed
        self._queue: SimpleQueue[Job | None] = SimpleQueue()
        self._gate = threading.Lock()
        self._closing = False
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._started = threading.Event()
        self._failure: BaseException | None = None

    def start(self) -> None:
        """Open; raises what `opened` raises."""
        self.begin()
        self.opened()

    def begin(self) -> None:
        """Start to open."""
        self._thread.start()

    def opened(self) -> None:
        """Wait until it is open; raises what the function `opened` raises."""
        self._started.wait()
        if self._failure is not None:
            self._thread.join()
            raise self._failure

    async def do(self, job: Job) -> Any:
        """Hand `job` in and wait for its answer. Raises JournalClosed, and the job's error."""
        with self._gate:  # nothing is put behind the end mark
            if self._closing:
                raise JournalClosed
            self._queue.put(job)
        return await job.future

    def end(self) -> None:
        """Take nothing new; what was handed in is still done. Idempotent."""
        with self._gate:
            if not self._closing:
                self._closing = True
                self._queue.put(None)

    def join(self) -> None:
        """Wait for the thread's end."""
        self._thread.join()

    def _run(self) -> None:
        try:
            work = self._open()
        except BaseException as error:  # noqa: BLE001 - raised by `start`
            self._failure = error
            self._started.set()
            return
        self._started.set()
        try:
            going = True
            while going:
                jobs, going = self._gather()
                if jobs:
                    _work_off(work, jobs)
                    _deliver(jobs)
        finally:
            self._closed()

    def _gather(self) -> tuple[list[Job], bool]:
        """The jobs that wait, at least one unless the lane ends; and whether to go on."""
        found: list[Job] = []
        job = self._queue.get()
        while job is not None:
            found.append(job)
            if len(found) == GROUP:
                return found, True
            try:
                job = self._queue.get_nowait()
            except Empty:
                return found, True
        return found, False


def _work_off(work: Callable[[Sequence[Job]], None], jobs: Sequence[Job]) -> None:
    """Whatever goes wrong, nobody waits for ever and the thread goes on."""
    try:
        work(jobs)
    except Exception as error:  # noqa: BLE001 - told to each caller
        for job in jobs:
            if job.answer is None and job.error is None:
                job.error = StorageError(f"the journal failed: {type(error).__name__}: {error}")


def _deliver(jobs: Sequence[Job]) -> None:
    """Wake each loop once for all its jobs."""
    by_loop: dict[asyncio.AbstractEventLoop, list[Job]] = {}
    for job in jobs:
        by_loop.setdefault(job.future.get_loop(), []).append(job)
    for loop, mine in by_loop.items():
        try:
            loop.call_soon_threadsafe(_settle, mine)
        except RuntimeError:  # the loop is closed: nobody waits any more
            continue


def _settle(jobs: Sequence[Job]) -> None:
    for job in jobs:
        job.settle()
