"""A clock that tests move."""

import asyncio
import heapq
import itertools
import threading
from datetime import UTC, datetime, timedelta

START = datetime(2026, 1, 1, tzinfo=UTC)


class FakeClock:
    """Time stands still until `advance`, or jumps when `jump_at` tasks sleep.

    With `jump_at=n` the clock jumps to the earliest end of a sleep as soon as `n` tasks sleep;
    `n` is how many tasks of the test can sleep at once. `slept` lists every wait that was asked
    for, in seconds. May be shared by event loops in several threads.
    """

    def __init__(self, start: datetime = START, *, jump_at: int | None = None) -> None:
        self._start = start
        self._jump_at = jump_at
        self._elapsed_s = 0.0
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []
        self._watchers: list[tuple[int, asyncio.Future[None]]] = []
        self._numbers = itertools.count()
        self._lock = threading.Lock()
        self.slept: list[float] = []

    def now(self) -> datetime:
        """The start plus the time that has passed."""
        return self._start + timedelta(seconds=self._elapsed_s)

    def monotonic(self) -> float:
        """Seconds since the clock was made."""
        return self._elapsed_s

    @property
    def sleepers(self) -> int:
        """Tasks that sleep now."""
        with self._lock:
            return sum(1 for _, _, future in self._sleepers if not future.done())

    async def sleep(self, delay_s: float) -> None:
        """Sleep until the clock has been moved by `delay_s`."""
        self.slept.append(delay_s)
        if delay_s <= 0:
            await asyncio.sleep(0)
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        with self._lock:
            entry = (self._elapsed_s + delay_s, next(self._numbers), future)
            heapq.heappush(self._sleepers, entry)
        self._tell_watchers()
        if self._jump_at is not None and self.sleepers >= self._jump_at:
            self._jump()
        await future

    def advance(self, delay_s: float) -> None:
        """Move the clock; tasks whose sleep ends by then wake up, the earliest first."""
        with self._lock:
            target = self._elapsed_s + delay_s
            while self._sleepers and self._sleepers[0][0] <= target:
                due, _, future = heapq.heappop(self._sleepers)
                self._elapsed_s = max(self._elapsed_s, due)
                _finish(future)
            self._elapsed_s = target

    async def asleep(self, count: int) -> None:
        """Wait until `count` tasks sleep."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        with self._lock:
            self._watchers.append((count, future))
        self._tell_watchers()
        await future

    def _jump(self) -> None:
        with self._lock:
            while self._sleepers and self._sleepers[0][2].done():
                heapq.heappop(self._sleepers)
            if not self._sleepers:
                return
            due = self._sleepers[0][0]
            self._elapsed_s = max(self._elapsed_s, due)
            while self._sleepers and self._sleepers[0][0] <= due:
                _finish(heapq.heappop(self._sleepers)[2])

    def _tell_watchers(self) -> None:
        sleeping = self.sleepers
        with self._lock:
            for count, future in self._watchers:
                if sleeping >= count:
                    _finish(future)
            self._watchers = [(n, f) for n, f in self._watchers if sleeping < n]


def _finish(future: "asyncio.Future[None]") -> None:
    def finish() -> None:
        if not future.done():
            future.set_result(None)

    loop = future.get_loop()
    if loop.is_closed():
        return
    try:
        here = asyncio.get_running_loop()
    except RuntimeError:
        here = None
    if here is loop:
        finish()
    else:
        loop.call_soon_threadsafe(finish)
