"""Blocking code of plug-ins runs in tracked threads.

A thread cannot be stopped from outside. When its time is up it is *abandoned*: its slot is free
at once, its late result is ignored, and it is counted. Threads are daemons, so they never delay
the exit. Too many abandoned threads refuse further blocking calls instead of piling up.
"""

import asyncio
import itertools
import threading
from collections.abc import Callable, Collection
from typing import Any, TypeVar

from proctor.kernel.errors import RuntimeFault

T = TypeVar("T")

MAX_ABANDONED = 64
_numbers = itertools.count(1)


class BlockingCall:
    """One call in a thread of its own. `ended` is done when the thread is, whoever waits."""

    def __init__(self, what: str, number: int, function: Callable[..., Any], args: Any) -> None:
        self._loop = asyncio.get_running_loop()
        self._what = what
        self._function, self._args = function, args
        self.outcome: asyncio.Future[Any] = self._loop.create_future()
        self.ended: asyncio.Future[None] = self._loop.create_future()
        name = f"proctor-{what}-{number}"
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._thread.start()

    def _work(self) -> None:
        outcome: Any = None
        error: BaseException | None = None
        try:
            outcome = self._function(*self._args)
        except BaseException as raised:  # noqa: BLE001 - handed to the caller as it is
            error = raised
            if isinstance(raised, StopIteration):
                error = RuntimeError(f"{self._what} raised StopIteration")
        try:
            self._loop.call_soon_threadsafe(self._settle, outcome, error)
        except RuntimeError:  # the loop is closed: nobody waits any more
            return

    def _settle(self, outcome: Any, error: BaseException | None) -> None:
        self.ended.set_result(None)
        if self.outcome.done():  # abandoned: its late result is ignored
            return
        if error is not None:
            self.outcome.set_exception(error)
        else:
            self.outcome.set_result(outcome)


def in_own_thread(what: str, function: Callable[..., T], *args: Any) -> "asyncio.Future[T]":
    """Run our own blocking work in a daemon thread of its own: plug-in code that fills the event
    loop's default threads cannot hold it up."""
    return BlockingCall(what, next(_numbers), function, args).outcome


class TrackedThreads:
    """The threads of one launch."""

    def __init__(self, max_abandoned: int = MAX_ABANDONED) -> None:
        self._max_abandoned = max_abandoned
        self._working: set[BlockingCall] = set()
        self._abandoned: set[BlockingCall] = set()

    @property
    def abandoned(self) -> int:
        """How many abandoned threads are still running."""
        self._abandoned = {call for call in self._abandoned if not call.ended.done()}
        return len(self._abandoned)

    @property
    def working(self) -> frozenset[BlockingCall]:
        """The calls that somebody waits for now."""
        return frozenset(self._working)

    async def call(self, what: str, function: Callable[..., T], *args: Any) -> T:
        """Run `function(*args)` in a thread; abandon it when this call is cancelled."""
        if self.abandoned >= self._max_abandoned:
            raise RuntimeFault(
                f"{self._max_abandoned} blocking calls are stuck; {what} was not started",
                code="too_many_abandoned_threads",
                permanent=True,
                hint="give the blocking code its own time limit, or run it as a process",
            )
        call = BlockingCall(what, next(_numbers), function, args)
        self._working.add(call)
        try:
            outcome: T = await call.outcome
            return outcome
        except asyncio.CancelledError:
            if not call.ended.done():
                self._abandoned.add(call)
            raise
        finally:
            self._working.discard(call)

    @staticmethod
    async def settled(calls: Collection[BlockingCall], limit_s: float) -> None:
        """Wait until these calls have ended, at most `limit_s` seconds."""
        waiting = [call.ended for call in calls if not call.ended.done()]
        if waiting and limit_s > 0:
            await asyncio.wait(waiting, timeout=limit_s)
