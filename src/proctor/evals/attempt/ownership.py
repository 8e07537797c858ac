"""What a try acquires is released from the inside out, always, within bounded time.

A failed release is a warning that names the resource; it never hides the first failure, and a
cancellation that arrives meanwhile waits until the releases are over.
"""

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Any

from proctor.evals.attempt.blame import blame
from proctor.evals.attempt.calls import ended, look_at
from proctor.kernel.issues import Cause, Issue, Phase, Severity

CLOSE_LIMIT_S = 30.0


class Ownership:
    """A stack of resources. `warnings` collects what went wrong while releasing."""

    def __init__(self, limit_s: float = CLOSE_LIMIT_S) -> None:
        self._limit_s = limit_s
        self._held: list[tuple[str, Callable[[], Awaitable[Any]]]] = []
        self.warnings: list[Issue] = []

    def add(self, name: str, close: Callable[[], Awaitable[Any]]) -> None:
        """Own a resource from now on; called right after it was acquired."""
        self._held.append((name, close))

    async def __aenter__(self) -> "Ownership":
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        cancelled = False
        while self._held:
            cancelled |= await self._close(*self._held.pop())
        if cancelled and not isinstance(error, asyncio.CancelledError):
            raise asyncio.CancelledError from error  # the stop must not get lost

    async def _close(self, name: str, close: Callable[[], Awaitable[Any]]) -> bool:
        task = asyncio.ensure_future(_called(close))
        cancelled = await finish_shielded(task, self._limit_s)
        if not task.done():
            task.cancel()
            task.add_done_callback(look_at)
            self._warn(name, f"did not close within {self._limit_s:g} s")
        elif task.cancelled():
            self._warn(name, "closing ended with CancelledError although nobody cancelled it")
        elif (error := task.exception()) is not None:
            found = blame(Phase.CLEANUP, error).issue
            self._warn(name, found.message, found.cause, found.traceback)
        return cancelled

    def _warn(
        self,
        name: str,
        message: str,
        cause: Cause = Cause.ENVIRONMENT,
        traceback: str | None = None,
    ) -> None:
        text = f"{name}: {message}"
        self.warnings.append(
            Issue(Severity.WARNING, Phase.CLEANUP, cause, "cleanup_failed", text, traceback)
        )


async def _called(close: Callable[[], Any]) -> None:
    """A close that is a plain function, or raises before it can be awaited, is one that fails."""
    closing = close()
    if inspect.isawaitable(closing):
        await closing


async def finish_shielded(task: "asyncio.Future[Any]", limit_s: float) -> bool:
    """Wait for `task` up to `limit_s` even when cancelled meanwhile; whether that happened."""
    loop = asyncio.get_running_loop()
    end = loop.time() + limit_s
    cancelled = False
    while not task.done() and (left_s := end - loop.time()) > 0:
        try:
            await ended(task, left_s)
        except asyncio.CancelledError:
            cancelled = True
    return cancelled
