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
        """Await within `limit_s` seconds; raises DeadlineReached. Code that ignores its
        cancellation is left behind after a grace."""
        if limit_s is None:
            return await coroutine
        task = asyncio.get_running_loop().create_task(coroutine)
        try:
            if await ended(task, limit_s):
                return task.result()
        except asyncio.CancelledError:
            await self._stop(task)
            raise
        await self._stop(task)
        raise DeadlineReached(what, limit_s)

    async def _stop(self, task: asyncio.Task[Any]) -> None:
        task.cancel()
        if await ended(task, CANCEL_GRACE_S):
            if not task.cancelled():
                task.exception()  # seen: it must not be reported as never retrieved
            return
        self._left_behind.add(task)
        task.add_done_callback(self._settle)

    def _settle(self, task: asyncio.Task[Any]) -> None:
        self._left_behind.discard(task)
        if not task.cancelled():
            task.exception()


async def ended(task: "asyncio.Future[Any]", limit_s: float) -> bool:
    """Wait for `task` to end, at most `limit_s` seconds; whether it did. Cheaper than
    `asyncio.wait`, which every attempt would pay for several times."""
    if task.done():
        return True
    loop = asyncio.get_running_loop()
    waiter: asyncio.Future[None] = loop.create_future()

    def wake(_: object = None) -> None:
        if not waiter.done():
            waiter.set_result(None)

    timer = loop.call_later(limit_s, wake)
    task.add_done_callback(wake)
    try:
        await waiter
    finally:
        timer.cancel()
        task.remove_done_callback(wake)
    return task.done()


async def _as_coroutine(awaitable: Any) -> Any:
    return await awaitable
