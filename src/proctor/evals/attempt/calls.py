"""Calling plug-in code: sync or async, with a limit that holds even when it does not cooperate."""

import asyncio
import inspect
from collections.abc import Callable, Coroutine
from typing import Any

from proctor.evals.threads import TrackedThreads

CANCEL_GRACE_S = 5.0
"""How long cancelled plug-in code may take to unwind before it is left behind."""


class DeadlineReached(Exception):
    """Our limit passed; a TimeoutError raised by the called code is something else."""

    def __init__(self, what: str, limit_s: float) -> None:
        self.what = what
        self.limit_s = limit_s
        super().__init__(f"{what} reached its limit of {limit_s:g} s")


class StrayCancellation(Exception):
    """Called code ended with CancelledError although nobody had cancelled it.

    Our own cancellations always propagate. This one must not look like them: the attempt would
    end without an outcome, and its worker with it.
    """

    def __init__(self, what: str) -> None:
        super().__init__(f"{what} ended with CancelledError although nobody cancelled it")


class Calls:
    """Bounded calls, sharing the launch's tracked threads."""

    def __init__(self, threads: TrackedThreads) -> None:
        self.threads = threads
        self._left_behind: set[asyncio.Task[Any]] = set()

    async def plugin(
        self, what: str, method: Callable[..., Any], *args: Any, limit_s: float | None
    ) -> Any:
        """Call a method that may be a plain function (thread) or a coroutine function."""
        if inspect.iscoroutinefunction(method):
            return await self.bounded(what, method(*args), limit_s)
        outcome = await self.bounded(what, self.threads.call(what, method, *args), limit_s)
        if inspect.isawaitable(outcome):
            return await self.bounded(what, _as_coroutine(outcome), limit_s)
        return outcome

    async def bounded(
        self, what: str, coroutine: Coroutine[Any, Any, Any], limit_s: float | None
    ) -> Any:
        """Await within `limit_s` seconds (None: without limit); raises DeadlineReached and
        StrayCancellation. Code that ignores its cancellation is left behind after a grace.

        The code runs in a task of its own, so that a cancellation it makes stays its own.
        """
        task = asyncio.get_running_loop().create_task(coroutine)
        try:
            await asyncio.sleep(0)  # what is over after one step needs no waiter and no timer
            in_time = await ended(task, limit_s)
        except asyncio.CancelledError:
            await self._stop(task)
            raise
        if in_time:
            if task.cancelled():
                raise StrayCancellation(what)
            return task.result()
        await self._stop(task)
        raise DeadlineReached(what, limit_s or 0.0)

    async def _stop(self, task: asyncio.Task[Any]) -> None:
        task.cancel()
        try:
            await ended(task, CANCEL_GRACE_S)
        finally:  # also when we are cancelled while we wait
            if task.done():
                look_at(task)
            else:
                self._left_behind.add(task)
                task.add_done_callback(self._settle)

    def _settle(self, task: asyncio.Task[Any]) -> None:
        self._left_behind.discard(task)
        look_at(task)


def look_at(task: "asyncio.Future[Any]") -> None:
    """Take the exception of a task that nobody waits for, so that asyncio does not report it."""
    if not task.cancelled():
        task.exception()


async def ended(task: "asyncio.Future[Any]", limit_s: float | None) -> bool:
    """Wait for `task` to end, at most `limit_s` seconds (None: as long as it takes); whether it
    did. Cheaper than `asyncio.wait`, which every attempt would pay for several times."""
    if task.done():
        return True
    loop = asyncio.get_running_loop()
    waiter: asyncio.Future[None] = loop.create_future()

    def wake(_: object = None) -> None:
        if not waiter.done():
            waiter.set_result(None)

    timer = loop.call_later(limit_s, wake) if limit_s is not None else None
    task.add_done_callback(wake)
    try:
        await waiter
    finally:
        if timer is not None:
            timer.cancel()
        task.remove_done_callback(wake)
    return task.done()


async def _as_coroutine(awaitable: Any) -> Any:
    return await awaitable
