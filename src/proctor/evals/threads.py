"""Blocking code of plug-ins runs in tracked threads.

A thread cannot be stopped from outside. When its time is up it is *abandoned*: its slot is free
at once, its late result is ignored, and it is counted. Threads are daemons, so they never delay
the exit. Too many abandoned threads refuse further blocking calls instead of piling up.
"""

import asyncio
import itertools
import threading
from collections.abc import Callable
from typing import Any, TypeVar

from proctor.kernel.errors import RuntimeFault

T = TypeVar("T")

MAX_ABANDONED = 64


class TrackedThreads:
    """The threads of one launch."""

    def __init__(self, max_abandoned: int = MAX_ABANDONED) -> None:
        self._max_abandoned = max_abandoned
        self._numbers = itertools.count(1)
        self._abandoned: set[threading.Thread] = set()

    @property
    def abandoned(self) -> int:
        """How many abandoned threads are still running."""
        self._abandoned = {t for t in self._abandoned if t.is_alive()}
        return len(self._abandoned)

    async def call(self, what: str, function: Callable[..., T], *args: Any) -> T:
        """Run `function(*args)` in a thread; abandon it when this call is cancelled."""
        if self.abandoned >= self._max_abandoned:
            raise RuntimeFault(
                f"{self._max_abandoned} blocking calls are stuck; {what} was not started",
                code="too_many_abandoned_threads",
                permanent=True,
                hint="give the blocking code its own time limit, or run it as a process",
            )
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()

        def settle(outcome: T | None, error: BaseException | None) -> None:
            if future.done():
                return
            if error is not None:
                future.set_exception(error)
            else:
                future.set_result(outcome)  # type: ignore[arg-type]

        def work() -> None:
            outcome: T | None = None
            error: BaseException | None = None
            try:
                outcome = function(*args)
            except BaseException as raised:  # noqa: BLE001 - handed to the caller as it is
                error = raised
                if isinstance(raised, StopIteration):
                    error = RuntimeError(f"{what} raised StopIteration")
            try:
                loop.call_soon_threadsafe(settle, outcome, error)
            except RuntimeError:  # the loop is closed: nobody waits any more
                return

        thread = threading.Thread(
            target=work, name=f"proctor-{what}-{next(self._numbers)}", daemon=True
        )
        thread.start()
        try:
            return await future
        except asyncio.CancelledError:
            if thread.is_alive():
                self._abandoned.add(thread)
            raise
