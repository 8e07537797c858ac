"""Running a launch: preflight of all its requests, one pool, one document beside the runs."""

import os
import threading
from collections.abc import Iterable
from dataclasses import dataclass

from proctor.environments.gates import gate_of
from proctor.evals import registry
from proctor.evals.collecting import collecting
from proctor.evals.executors import Executor
from proctor.evals.launches.document import LaunchDocument
from proctor.evals.launches.leftovers import clear_leftovers
from proctor.evals.launches.orchestrator import Orchestrator
from proctor.evals.launches.preparing import Preparing, Taking
from proctor.evals.launches.slot import Prepare, PreparedRequest, Slot
from proctor.evals.launches.spec import Launch
from proctor.evals.opening import Opened, open_existing, open_new, open_reserved
from proctor.evals.preflight import Preflight, preflight
from proctor.evals.prepare import Earlier, Surroundings
from proctor.evals.progress import Progress
from proctor.evals.report import RunReport, unprepared
from proctor.evals.request import RuntimeRequest
from proctor.evals.results.layout import RunLayout
from proctor.evals.results.spending import read_spending, siblings
from proctor.evals.stopping import Stop, unless_stopped
from proctor.evals.threads import in_own_thread
from proctor.kernel.budget import Budget, BudgetLimits, WallBudget
from proctor.kernel.clock import Clock
from proctor.kernel.errors import ProctorError, Stopped, StorageError, UsageError
from proctor.models.limits import Limits, declare


@dataclass(frozen=True, slots=True)
class Context:
    """What a launch runs with."""

    progress: Progress
    stop: Stop
    clock: Clock


def apply_limits(runtime: RuntimeRequest) -> None:
    """Set the process-wide limits that a launch asks for. The newest setting of each holds."""
    for model, wanted in runtime.model_limits.items():
        declare(model, Limits(wanted.concurrency, wanted.rpm, wanted.tpm))
    for provider, capacity in runtime.provider_limits.items():
        gate_of(provider).configure(capacity=capacity)
    for provider, rate in runtime.env_open_qps.items():
        gate_of(provider).configure(open_qps=rate)


async def run_single(
    pre: Preflight,
    context: Context,
    *,
    run_dir: str | None = None,
    earlier: Earlier | None = None,
    parent: str | None = None,
) -> RunReport:
    """A launch of one: a new run, or `run_dir` continued in place. A request that cannot be
    prepared is refused: its error is raised, or Stopped, and its new directory removed."""
    runtime = pre.request.runtime
    apply_limits(runtime)
    results, space = (runtime.results_dir, pre.namespace) if parent is None else (parent, "")

    def open_directory() -> Opened:
        if run_dir is not None:
            return open_existing(pre, run_dir, context.clock)
        return open_new(pre, results, space, runtime.run_id, context.clock)

    spenders = [run_dir, *siblings(run_dir)] if run_dir is not None else []
    notes = await clear_leftovers([pre.components.environment])
    surroundings = _surroundings(runtime, spenders, context.clock, notes)
    preparing = Preparing(
        Taking(open_directory, earlier),
        surroundings,
        progress=context.progress,
        stop=context.stop,
        grace_s=runtime.cleanup_grace_s,
    )
    slot = Slot(pre.name, preparing)
    await _orchestrate([slot], runtime.task_concurrency, runtime, context, surroundings)
    if slot.failure is not None and slot.report is None:
        raise slot.failure
    if slot.report is None and slot.run is None and context.stop.requested:
        raise Stopped(signal=context.stop.signal)
    return report_of(slot, preparing.run_dir, context.stop)


async def run_launch(
    launch: Launch, context: Context, *, document: LaunchDocument | None = None
) -> list[RunReport]:
    """Run all requests, or go on with those of `document`; one report a request. Raises
    UsageError when nothing can run at all, Stopped when the stop came before."""
    checked = await unless_stopped(context.stop, _preflight_all, launch)
    errors = [f"{name}: {e}" for name, e in checked.items() if isinstance(e, ProctorError)]
    if len(errors) == len(checked):
        raise UsageError("no request of the launch can run:\n" + "\n".join(errors))
    apply_limits(launch.runtime)
    if document is None:
        document = await in_own_thread(
            "reserving the launch", LaunchDocument.reserve, launch, context.clock
        )
    else:
        await in_own_thread("taking the launch", document.hold)
    try:
        return await _run_held(launch, context, checked, document)
    finally:
        await in_own_thread("giving up the launch", document.release)


async def _run_held(
    launch: Launch,
    context: Context,
    checked: dict[str, Preflight | ProctorError],
    document: LaunchDocument,
) -> list[RunReport]:
    context.progress.planned = list(checked)
    earlier = [document.run_dir(name) for name in checked]
    ready = [pre for pre in checked.values() if isinstance(pre, Preflight)]
    notes = await clear_leftovers(pre.components.environment for pre in ready)
    surroundings = _surroundings(launch.runtime, earlier, context.clock, notes)
    preparations = {
        name: _preparing(launch, name, pre, document, context, surroundings)
        for name, pre in checked.items()
        if isinstance(pre, Preflight)
    }
    slots = [
        Slot(name, _announced(name, _prepare(pre, preparations.get(name)), context.progress))
        for name, pre in checked.items()
    ]
    await _orchestrate(slots, launch.task_concurrency, launch.runtime, context, surroundings)
    reports = [_report(slot, preparations.get(slot.name), context.stop) for slot in slots]
    await in_own_thread("ending the launch", document.end, reports)
    return reports


async def _orchestrate(
    slots: list[Slot],
    concurrency: int,
    runtime: RuntimeRequest,
    context: Context,
    surroundings: Surroundings,
) -> None:
    grace_s = runtime.cleanup_grace_s
    orchestrator = Orchestrator(slots, concurrency, context.clock, grace_s=grace_s)
    collecting.begin()
    try:
        await orchestrator.run(context.stop, runtime.timeout_s)
    finally:
        collecting.end()
        await surroundings.executor.close()


def _surroundings(
    runtime: RuntimeRequest, run_dirs: Iterable[str], clock: Clock, notes: list[str]
) -> Surroundings:
    """The launch's executor and budget, with what its requests spent in earlier executions."""
    wanted = runtime.budget
    budget = wall = None
    if wanted is not None and (wanted.usd is not None or wanted.tokens is not None):
        budget = Budget("launch", BudgetLimits(wanted.usd, wanted.tokens), lock=threading.Lock())
        for run_dir in run_dirs:
            budget.charge(read_spending(run_dir)[0])
    if wanted is not None and wanted.wall_s:
        wall = WallBudget("launch", wanted.wall_s, clock)
    return Surroundings(executor_of(runtime.executor), budget, wall, notes)


def executor_of(executor_id: str) -> Executor:
    """The executor that a launch names. Raises UnknownComponent."""
    made: Executor = registry.load("executors", executor_id)()
    return made


def _preflight_all(launch: Launch) -> dict[str, Preflight | ProctorError]:
    executor_of(launch.runtime.executor)
    found: dict[str, Preflight | ProctorError] = {}
    for request in launch.requests:
        try:
            found[str(request.name)] = preflight(request)
        except ProctorError as error:
            found[str(request.name)] = error
    return found


def _preparing(
    launch: Launch,
    name: str,
    pre: Preflight,
    document: LaunchDocument,
    context: Context,
    surroundings: Surroundings,
) -> Preparing:
    run_dir = document.run_dir(name)

    def open_directory() -> Opened:
        if os.path.exists(RunLayout(run_dir).run_info):
            return open_existing(pre, run_dir, context.clock)
        try:  # also where a kill left the directory without its first file
            os.makedirs(run_dir, exist_ok=True)
        except OSError as error:
            raise StorageError(f"cannot write {run_dir}: {error.strerror}") from error
        return open_reserved(pre, run_dir, context.clock)

    return Preparing(
        Taking(open_directory, keep_unprepared=True),
        surroundings,
        progress=context.progress,
        stop=context.stop,
        grace_s=launch.runtime.cleanup_grace_s,
    )


def _prepare(pre: Preflight | ProctorError, preparing: Preparing | None) -> Prepare:
    async def refuse() -> PreparedRequest:
        assert isinstance(pre, ProctorError)
        raise pre

    return preparing if preparing is not None else refuse


def _announced(name: str, prepare: Prepare, progress: Progress) -> Prepare:
    """Whoever watches hears at once of a request that cannot run, not when all others are over."""

    async def announced() -> PreparedRequest:
        try:
            return await prepare()
        except Exception as error:
            ours = isinstance(error, ProctorError)
            progress.cannot_run(name, str(error) if ours else f"{type(error).__name__}: {error}")
            raise

    return announced


def _report(slot: Slot, preparing: Preparing | None, stop: Stop) -> RunReport:
    return report_of(slot, preparing.run_dir if preparing is not None else "", stop)


def report_of(slot: Slot, run_dir: str, stop: Stop) -> RunReport:
    """A slot's report, also when it never had its tasks."""
    if slot.report is not None:
        return slot.report
    if slot.failure is not None:
        return unprepared(slot.name, run_dir, "failed", slot.error)
    status = "interrupted" if stop.requested else "timed_out"
    return unprepared(slot.name, run_dir, status, slot.error, stop.signal)
