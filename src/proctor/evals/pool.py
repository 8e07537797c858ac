"""The worker pool: takes tasks in order, runs their attempts, waits out back-offs.

A task in back-off holds no worker; when its time comes it takes the next free worker before any
new task. The pool ends when every task is done, or when it is stopped from outside.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterable

from proctor.evals.tasks import TaskState
from proctor.kernel.clock import Clock

Execute = Callable[[TaskState], Awaitable[float | None]]
"""Runs a task until it is done (None) or must wait (seconds of back-off)."""


class Pool:
    """`concurrency` workers over one list of tasks."""

    def __init__(self, concurrency: int, execute: Execute, clock: Clock) -> None:
        self._concurrency = concurrency
        self._execute = execute
        self._clock = clock
        self._due: deque[TaskState] = deque()
        self._fresh: deque[TaskState] = deque()
        self._left = 0
        self._wake: deque[asyncio.Future[None]] = deque()
        self._timers: set[asyncio.Task[None]] = set()

    @property
    def waiting(self) -> int:
        """Tasks in back-off."""
        return len(self._timers)

    async def run(self, tasks: Iterable[TaskState]) -> None:
        """Run all tasks. What a worker raises stops the others and propagates."""
        self._fresh.extend(tasks)
        self._left = len(self._fresh)
        workers = min(self._concurrency, self._left)
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(workers):
                    group.create_task(self._work())
        except BaseExceptionGroup as group_error:
            raise _first(group_error) from None
        finally:
            for timer in self._timers:
                timer.cancel()

    async def _work(self) -> None:
        while (task := await self._take()) is not None:
            delay_s = await self._execute(task)
            if delay_s is None:
                self._left -= 1
                if self._left == 0:
                    self._wake_all()
            else:
                self._wait_out(task, delay_s)

    async def _take(self) -> TaskState | None:
        while True:
            if self._due:
                return self._due.popleft()
            if self._fresh:
                return self._fresh.popleft()
            if self._left == 0:
                return None
            ready = asyncio.get_running_loop().create_future()
            self._wake.append(ready)
            await ready

    def _wait_out(self, task: TaskState, delay_s: float) -> None:
        async def wait() -> None:
            await self._clock.sleep(delay_s)
            self._due.append(task)
            self._wake_one()

        timer = asyncio.get_running_loop().create_task(wait())
        self._timers.add(timer)
        timer.add_done_callback(self._timers.discard)

    def _wake_one(self) -> None:
        while self._wake:
            ready = self._wake.popleft()
            if not ready.done():
                ready.set_result(None)
                return

    def _wake_all(self) -> None:
        while self._wake:
            self._wake_one()


def _first(group: BaseExceptionGroup[BaseException]) -> BaseException:
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
