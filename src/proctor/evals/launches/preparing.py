"""How a slot gets its run: reserve or claim the directory, then load, off the event loop."""

import asyncio
from collections.abc import Callable
from typing import TypeVar

from proctor.evals.attempt.ownership import finish_shielded
from proctor.evals.launches.slot import PreparedRequest
from proctor.evals.opening import Opened
from proctor.evals.prepare import Earlier, Surroundings, load_existing, load_new
from proctor.evals.progress import Progress
from proctor.evals.run import RequestRun
from proctor.kernel.errors import UsageError

T = TypeVar("T")


class Preparing:
    """Prepares one request. `run_dir` is known from the moment the directory is there.

    `keep_refused`: a request that cannot be prepared leaves its directory with the error in it
    (in a launch); otherwise the directory is removed again, as for a single run that is refused.
    """

    def __init__(
        self,
        open_directory: Callable[[], Opened],
        *,
        existing: bool = False,
        earlier: Earlier | None = None,
        surroundings: Surroundings | None = None,
        progress: Progress | None = None,
        grace_s: float = 30.0,
        keep_refused: bool = False,
    ) -> None:
        self._open_directory = open_directory
        self._existing = existing
        self._earlier = earlier
        self._surroundings = surroundings or Surroundings()
        self._progress = progress
        self._grace_s = grace_s
        self._keep_refused = keep_refused
        self.run_dir = ""

    async def __call__(self) -> PreparedRequest:
        opened = await self._in_thread(self._open_directory)
        self.run_dir = opened.writer.layout.root
        try:
            run = await self._in_thread(lambda: self._load(opened))
        except asyncio.CancelledError:
            opened.end("interrupt", None)
            raise
        except Exception as error:
            self._refused(opened, error)
            raise
        run.begin()
        if self._progress is not None:
            self._progress.start(run.view, run.clock)
        return run

    def _load(self, opened: Opened) -> RequestRun:
        if self._existing:
            return load_existing(opened, self._surroundings)
        return load_new(opened, self._earlier, self._surroundings)

    def _refused(self, opened: Opened, error: Exception) -> None:
        if self._existing and isinstance(error, UsageError):
            opened.close_unchanged()
        elif self._existing or self._keep_refused:
            opened.end("fail", str(error))
        else:
            opened.discard()
            self.run_dir = ""

    async def _in_thread(self, function: Callable[[], T]) -> T:
        """Run blocking work; when cancelled, let it come to an end within the grace."""
        task = asyncio.ensure_future(asyncio.to_thread(function))
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            await finish_shielded(task, self._grace_s)
            raise
