"""The Python API: `run`, `arun`, `resume`, `aresume`, `load`."""

import asyncio
import os
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, TypeVar

from proctor.evals import prepare
from proctor.evals.options import validate
from proctor.evals.progress import Progress
from proctor.evals.report import RunReport
from proctor.evals.request import RunRequest
from proctor.evals.results.loaded import Run
from proctor.evals.run import RequestRun
from proctor.evals.stopping import Stop, on_signals
from proctor.evals.threads import TrackedThreads
from proctor.kernel.clock import Clock, SystemClock
from proctor.kernel.errors import Stopped

T = TypeVar("T")

LEFTOVER_GRACE_S = 1.0
"""How long plug-in code that ignores its cancellation may delay the return."""


def _checked(request: RunRequest | Mapping[str, Any]) -> RunRequest:
    return request if isinstance(request, RunRequest) else validate(RunRequest, request, "request")


async def arun(
    request: RunRequest | Mapping[str, Any],
    *,
    progress: Progress | None = None,
    stop: Stop | None = None,
    clock: Clock | None = None,
) -> RunReport:
    """Run a request in a new directory and return its report.

    `stop.request()` from anywhere asks for an orderly stop; cancelling this coroutine does the
    same. Raises UsageError when the request cannot run, Stopped when the stop came before its
    directory was made; nothing has run then.
    """
    clock, stop = clock or SystemClock(), stop or Stop()
    prepared = await _unless_stopped(stop, prepare.check, _checked(request))
    return await _carried_out(stop, progress, prepare.start, prepared, clock)


async def aresume(
    run_dir: str | os.PathLike[str],
    *,
    progress: Progress | None = None,
    stop: Stop | None = None,
    clock: Clock | None = None,
    changes: Mapping[str, Any] | None = None,
) -> RunReport:
    """Continue a run in place: only what has no valid record runs.

    `changes` are run knobs (fields of `runtime`) that may differ from the first execution.
    Raises RunDirectoryError, RunIsLive, or Stopped.
    """
    clock, stop = clock or SystemClock(), stop or Stop()
    place = os.fspath(run_dir)
    request = await asyncio.to_thread(prepare.stored_request, place)
    if changes:
        knobs = {**request.runtime.model_dump(), **changes}
        whole = {**request.model_dump(exclude_none=True), "runtime": knobs}
        request = validate(RunRequest, whole, "request")
    prepared = await _unless_stopped(stop, prepare.check, request)
    return await _carried_out(stop, progress, prepare.resume, prepared, place, clock)


async def _unless_stopped(stop: Stop, function: Callable[..., T], *arguments: Any) -> T:
    """Blocking preparation that leaves nothing behind: a stop does not wait for it."""
    loop = asyncio.get_running_loop()
    work = loop.create_task(TrackedThreads().call("preparing", function, *arguments))
    stopped = loop.create_task(stop.wait())
    try:
        await asyncio.wait((work, stopped), return_when=asyncio.FIRST_COMPLETED)
        if not work.done():
            raise Stopped(signal=stop.signal)
        return work.result()
    finally:
        stopped.cancel()
        work.cancel()


async def _carried_out(
    stop: Stop, progress: Progress | None, function: Callable[..., RequestRun], *arguments: Any
) -> RunReport:
    """Take the run directory and run. A cancellation meanwhile still gives the directory up."""
    taking = asyncio.ensure_future(asyncio.to_thread(function, *arguments))
    cancelled = False
    try:
        await asyncio.shield(taking)
    except asyncio.CancelledError:
        cancelled = True
        await asyncio.wait((taking,))
    if cancelled:
        stop.request()
    report = await _execute(taking.result(), progress, stop)
    if cancelled:
        raise asyncio.CancelledError
    return report


async def _execute(run: RequestRun, progress: Progress | None, stop: Stop) -> RunReport:
    if progress is not None:
        progress.start(run.view, run.clock)
    status = "failed"
    work = asyncio.ensure_future(run.execute(stop))
    try:
        report = await _through_cancellation(work, stop)
        status = report.status
        return report
    finally:
        await run.close()
        if progress is not None:
            progress.stop(status)


async def _through_cancellation(work: "asyncio.Future[RunReport]", stop: Stop) -> RunReport:
    """Cancelling the caller asks for an orderly stop, then cancels."""
    try:
        return await asyncio.shield(work)
    except asyncio.CancelledError:
        stop.request()
        await asyncio.wait((work,))
        raise


def run(request: RunRequest | Mapping[str, Any], **options: Any) -> RunReport:
    """`arun` for code without an event loop. In the main thread, SIGINT and SIGTERM ask for an
    orderly stop; a second one exits at once."""
    return _blocking(arun, request, options)


def resume(run_dir: str | os.PathLike[str], **options: Any) -> RunReport:
    """`aresume` for code without an event loop."""
    return _blocking(aresume, run_dir, options)


def load(run_dir: str | os.PathLike[str]) -> Run:
    """A read-only view of a run directory. Raises RunDirectoryError."""
    return Run(os.fspath(run_dir))


def _blocking(function: Any, subject: Any, options: dict[str, Any]) -> RunReport:
    stop = options.pop("stop", None) or Stop()
    with on_signals(stop, options.pop("before_exit", None)):
        report: RunReport = run_loop(function(subject, stop=stop, **options), stop)
        return report


def run_loop(coroutine: Coroutine[Any, Any, T], stop: Stop) -> T:
    """Like asyncio.run, but code that ignores its cancellation cannot delay the return, and a
    SystemExit of a plug-in stops the run in order before it propagates."""
    loop = asyncio.new_event_loop()
    try:
        asyncio.set_event_loop(loop)
        return _to_the_end(loop, loop.create_task(coroutine), stop)
    finally:
        try:
            left = asyncio.all_tasks(loop)
            for task in left:
                task.cancel()
            if left:
                loop.run_until_complete(asyncio.wait(left, timeout=LEFTOVER_GRACE_S))
            loop.run_until_complete(loop.shutdown_asyncgens())
        finally:
            asyncio.set_event_loop(None)
            loop.close()


def _to_the_end(loop: asyncio.AbstractEventLoop, main: "asyncio.Task[T]", stop: Stop) -> T:
    """asyncio lets SystemExit and KeyboardInterrupt of any task out of the loop at once; each
    task that waits for that one does so again."""
    while True:
        try:
            return loop.run_until_complete(main)
        except (SystemExit, KeyboardInterrupt):
            stop.request()
            if main.done():
                raise
