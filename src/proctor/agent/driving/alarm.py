"""A timer that is set anew only when something earlier comes: steps that follow each other quickly
share one, instead of making and cancelling a task each."""

import asyncio
from collections.abc import Callable

from proctor.kernel.clock import Clock


class Alarm:
    """Calls `ring` in the event loop, once for each time it is set and not stopped."""

    def __init__(self, clock: Clock, ring: Callable[[], None]) -> None:
        self._clock = clock
        self._ring = ring
        self._at = 0.0
        self._task: asyncio.Task[None] | None = None

    @property
    def is_set(self) -> bool:
        """Whether it will ring."""
        return self._task is not None

    def by(self, at: float) -> None:
        """Ring at `at` (seconds of the clock's `monotonic`) or before."""
        if self._task is not None:
            if self._at <= at:
                return
            self._task.cancel()
        self._at = at
        self._task = asyncio.get_running_loop().create_task(self._wait(at))

    def stop(self) -> None:
        """Not to ring any more."""
        if self._task is not None:
            self._task.cancel()
            self._task = None

    async def _wait(self, at: float) -> None:
        await self._clock.sleep(max(0.0, at - self._clock.monotonic()))
        self._task = None
        self._ring()
