"""How a slot gets its run: reserve or claim the directory, load the tasks, take earlier work over.

All of it is blocking and off the event loop. Loading is the benchmark's code and leaves nothing
behind: a stop does not wait for it. Work on the directory is ours: a stop waits for its end.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from proctor.evals.attempt.calls import ended, look_at
from proctor.evals.attempt.ownership import finish_shielded
from proctor.evals.ending import Ending, log_defect
from proctor.evals.launches.slot import PreparedRequest
from proctor.evals.opening import Opened
from proctor.evals.prepare import Builder, Earlier, Surroundings
from proctor.evals.progress import Progress
from proctor.evals.run import RequestRun
from proctor.evals.selection import load_and_select
from proctor.evals.stopping import Stop
from proctor.evals.threads import TrackedThreads, in_own_thread

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Taking:
    """How a request gets its directory and what of earlier work.

    `keep_unprepared`: a request that is not prepared, by an error or a stop, leaves its new
    directory with that in it (in a launch); otherwise the directory is removed again.
    """

    open_directory: Callable[[], Opened]
    earlier: Earlier | None = None
    keep_unprepared: bool = False


class Preparing:
    """Prepares one request. `run_dir` is known from the moment the directory is there."""

    def __init__(
        self,
        taking: Taking,
        surroundings: Surroundings,
        *,
        progress: Progress,
        stop: Stop,
        grace_s: float,
    ) -> None:
        self._taking = taking
        self._surroundings = surroundings
        self._progress = progress
        self._stop = stop
        self._grace_s = grace_s
        self._threads = TrackedThreads()
        self.run_dir = ""

    async def __call__(self) -> PreparedRequest:
        opening = in_own_thread("opening the run", self._taking.open_directory)
        try:
            opened = await self._to_its_end(opening)
            self.run_dir = opened.writer.layout.root
            run = await self._loaded(opened)
            run.begin()
        except (asyncio.CancelledError, SystemExit, KeyboardInterrupt):
            if opening.done() and opening.exception() is None:
                await self._to_its_end(
                    in_own_thread("giving up the run", self._stopped, opening.result())
                )
            raise
        except Exception as error:
            if opening.exception() is None:
                await self._to_its_end(
                    in_own_thread("giving up the run", self._refused, opening.result(), error)
                )
            raise
        self._progress.start(run.view, run.clock)
        return run

    async def _loaded(self, opened: Opened) -> RequestRun:
        pre = opened.pre
        tasks = await self._threads.call(
            "loading the tasks", load_and_select, pre.components, pre.request.selection
        )
        builder = Builder(opened, tasks, self._surroundings, self._threads)
        building = in_own_thread("preparing the run", builder.build, self._taking.earlier)
        return await self._to_its_end(building, when_stopped=opened.stopping.set)

    def _stopped(self, opened: Opened) -> None:
        self._given_up(opened, Ending("interrupt" if self._stop.requested else "deadline"))

    def _refused(self, opened: Opened, error: Exception) -> None:
        log_defect(opened.writer, error)
        self._given_up(opened, Ending.of(error))

    def _given_up(self, opened: Opened, ending: Ending) -> None:
        if opened.existing or self._taking.keep_unprepared:
            self.run_dir = opened.writer.layout.root
            opened.end(ending)
        else:
            opened.discard()
            self.run_dir = ""

    async def _to_its_end(
        self, work: "asyncio.Future[T]", when_stopped: Callable[[], None] | None = None
    ) -> T:
        """The outcome of blocking work; when we are cancelled, wait for its end all the same, up
        to the grace."""
        try:
            await ended(work, None)
        except asyncio.CancelledError:
            if when_stopped is not None:
                when_stopped()
            work.add_done_callback(look_at)
            await finish_shielded(work, self._grace_s)
            raise
        return work.result()
