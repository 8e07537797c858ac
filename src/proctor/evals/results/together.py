"""Small blocking jobs that are asked for in the same loop turn share one thread hop."""

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Any


class Together:
    """Runs jobs in a thread, in the order in which they were asked for."""

    def __init__(self, executor: Executor) -> None:
        self._executor = executor
        self._jobs: list[tuple[asyncio.Future[Any], Callable[..., Any], tuple[Any, ...]]] = []

    def run(self, function: Callable[..., Any], *args: Any) -> "asyncio.Future[Any]":
        """A future of `function(*args)`. Call from the event loop."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Any] = loop.create_future()
        if not self._jobs:
            loop.call_soon(self._start, loop)
        self._jobs.append((future, function, args))
        return future

    def _start(self, loop: asyncio.AbstractEventLoop) -> None:
        jobs, self._jobs = self._jobs, []
        try:
            self._executor.submit(self._work, loop, jobs)
        except RuntimeError:  # shut down: the run is over, and whoever asks comes too late
            for future, _, _ in jobs:
                future.cancel()

    @staticmethod
    def _work(loop: asyncio.AbstractEventLoop, jobs: list[Any]) -> None:
        outcomes: list[tuple[asyncio.Future[Any], Any, Exception | None]] = []
        for future, function, args in jobs:
            try:
                outcomes.append((future, function(*args), None))
            except Exception as error:  # noqa: BLE001 - handed to whoever asked
                outcomes.append((future, None, error))
        loop.call_soon_threadsafe(_settle, outcomes)


def _settle(outcomes: list[tuple["asyncio.Future[Any]", Any, Exception | None]]) -> None:
    for future, value, error in outcomes:
        if future.done():  # nobody waits any more
            continue
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(value)
