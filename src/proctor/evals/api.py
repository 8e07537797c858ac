"""The Python API: run, launch, resume, rescore (each with an async twin) and load."""

import asyncio
import os
from collections.abc import Coroutine, Mapping
from typing import Any, TypeVar

from proctor.evals.launches.document import LaunchDocument
from proctor.evals.launches.launch import Context, run_launch, run_single
from proctor.evals.launches.spec import Launch, LaunchSpec, merge, resolve
from proctor.evals.loop import new_loop
from proctor.evals.opening import stored_request
from proctor.evals.options import validate
from proctor.evals.preflight import Preflight, preflight
from proctor.evals.prepare import Earlier
from proctor.evals.progress import Progress
from proctor.evals.report import RunReport
from proctor.evals.request import RunRequest
from proctor.evals.results.loaded import Run
from proctor.evals.stopping import Stop, on_signals, unless_stopped
from proctor.kernel.clock import Clock, SystemClock
from proctor.kernel.errors import UsageError

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
    earlier: Earlier | None = None,
) -> RunReport:
    """Run a request in a new directory and return its report.

    `earlier` takes over usable records of another run. `stop.request()` from anywhere asks for an
    orderly stop; cancelling this coroutine does the same. Raises UsageError when the request
    cannot run, Stopped when the stop came before its directory was made; nothing has run then.
    """
    context = _context(progress, stop, clock)
    pre = await unless_stopped(context.stop, preflight, _checked(request))
    return await _orderly(run_single(pre, context, earlier=earlier), context)


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
    context = _context(progress, stop, clock)
    place = os.fspath(run_dir)
    request = await unless_stopped(context.stop, stored_request, place)
    request = with_runtime(request, changes or {})
    pre = await unless_stopped(context.stop, preflight, request)
    return await _orderly(run_single(pre, context, run_dir=place), context)


async def arescore(
    run_dir: str | os.PathLike[str],
    *,
    changes: Mapping[str, Any] | None = None,
    progress: Progress | None = None,
    stop: Stop | None = None,
    clock: Clock | None = None,
) -> RunReport:
    """Grade a run's stored answers and artifacts again, into a new run beside it.

    `changes` is laid over the request (for example another scorer). Nothing but evaluation runs.
    Raises UsageError for a run whose evaluation needs the agent's own environment (mode reuse).
    """
    context = _context(progress, stop, clock)
    place = os.path.abspath(os.fspath(run_dir))  # noqa: ASYNC240 - asks for the folder only
    pre = await unless_stopped(context.stop, _rescoring, place, changes or {})
    earlier = Earlier(source=place, rescore=True)
    single = run_single(pre, context, earlier=earlier, parent=os.path.dirname(place))
    return await _orderly(single, context)


def _rescoring(place: str, changes: Mapping[str, Any]) -> Preflight:
    request = stored_request(place)
    whole: dict[str, Any] = request.model_dump(exclude_none=True)
    whole["runtime"].pop("run_id", None)
    merge(whole, changes)
    pre = preflight(validate(RunRequest, whole, "request"))
    if pre.components.evaluation_mode == "reuse":
        raise UsageError(
            "rescore needs evaluation mode none or fresh; in mode reuse the grade depends on the "
            "agent's own environment, which is gone",
            hint="run again instead",
        )
    return pre


async def alaunch(
    spec: LaunchSpec | Launch | Mapping[str, Any],
    *,
    progress: Progress | None = None,
    stop: Stop | None = None,
    clock: Clock | None = None,
) -> list[RunReport]:
    """Run several named requests through one pool; one report a request, in their order."""
    context = _context(progress, stop, clock)
    return await _orderly(run_launch(_resolved(spec), context), context)


async def aresume_launch(
    path: str | os.PathLike[str],
    *,
    progress: Progress | None = None,
    stop: Stop | None = None,
    clock: Clock | None = None,
    changes: Mapping[str, Any] | None = None,
) -> list[RunReport]:
    """Continue a launch by its document: every request that has a directory goes on in place."""
    context = _context(progress, stop, clock)
    reading = LaunchDocument.read, os.fspath(path), context.clock
    document = await unless_stopped(context.stop, *reading)
    launch = with_knobs(document.launch, changes or {})
    return await _orderly(run_launch(launch, context, document=document), context)


def with_knobs(launch: Launch, changes: Mapping[str, Any]) -> Launch:
    """The launch with other run knobs. Raises OptionError."""
    concurrency = changes.get("task_concurrency", launch.task_concurrency)
    runtime = {**launch.runtime.model_dump(), **changes, "task_concurrency": concurrency}
    whole = {**launch.model_dump(exclude_none=True), "runtime": runtime}
    return validate(Launch, {**whole, "task_concurrency": concurrency}, "launch")


def with_runtime(request: RunRequest, changes: Mapping[str, Any]) -> RunRequest:
    """The request with other run knobs."""
    if not changes:
        return request
    knobs = {**request.runtime.model_dump(), **changes}
    whole = {**request.model_dump(exclude_none=True), "runtime": knobs}
    return validate(RunRequest, whole, "request")


def _context(progress: Progress | None, stop: Stop | None, clock: Clock | None) -> Context:
    return Context(progress or Progress(), stop or Stop(), clock or SystemClock())


def _resolved(spec: LaunchSpec | Launch | Mapping[str, Any]) -> Launch:
    if isinstance(spec, Launch):
        return spec
    return resolve(spec if isinstance(spec, LaunchSpec) else validate(LaunchSpec, spec, "launch"))


async def _orderly(running: Coroutine[Any, Any, T], context: Context) -> T:
    """Cancelling the caller asks for an orderly stop, then cancels."""
    work = asyncio.ensure_future(running)
    try:
        return await asyncio.shield(work)
    except asyncio.CancelledError:
        context.stop.request()
        await asyncio.wait((work,))
        raise
    finally:
        context.progress.stop()


def run(request: RunRequest | Mapping[str, Any], **options: Any) -> RunReport:
    """`arun` for code without an event loop. In the main thread, SIGINT and SIGTERM ask for an
    orderly stop; a second one exits at once."""
    report: RunReport = _blocking(arun, request, options)
    return report


def resume(run_dir: str | os.PathLike[str], **options: Any) -> RunReport:
    """`aresume` for code without an event loop."""
    report: RunReport = _blocking(aresume, run_dir, options)
    return report


def rescore(run_dir: str | os.PathLike[str], **options: Any) -> RunReport:
    """`arescore` for code without an event loop."""
    report: RunReport = _blocking(arescore, run_dir, options)
    return report


def launch(spec: LaunchSpec | Launch | Mapping[str, Any], **options: Any) -> list[RunReport]:
    """`alaunch` for code without an event loop."""
    reports: list[RunReport] = _blocking(alaunch, spec, options)
    return reports


def resume_launch(path: str | os.PathLike[str], **options: Any) -> list[RunReport]:
    """`aresume_launch` for code without an event loop."""
    reports: list[RunReport] = _blocking(aresume_launch, path, options)
    return reports


def load(run_dir: str | os.PathLike[str]) -> Run:
    """A read-only view of a run directory. Raises RunDirectoryError."""
    return Run(os.fspath(run_dir))


def _blocking(function: Any, subject: Any, options: dict[str, Any]) -> Any:
    stop = options.pop("stop", None) or Stop()
    with on_signals(stop, options.pop("before_exit", None)):
        return run_loop(function(subject, stop=stop, **options), stop)


def run_loop(coroutine: Coroutine[Any, Any, T], stop: Stop) -> T:
    """Like asyncio.run, but code that ignores its cancellation cannot delay the return, and a
    SystemExit of a plug-in stops the run in order before it propagates."""
    loop = new_loop()
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
