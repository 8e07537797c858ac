"""Running a launch: preflight of all its requests, one pool, one document beside the runs."""

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from proctor.environments.gates import GateLimits, gate_of
from proctor.evals import registry
from proctor.evals.executors import Executor
from proctor.evals.launches.document import LaunchDocument
from proctor.evals.launches.orchestrator import Orchestrator
from proctor.evals.launches.preparing import Preparing
from proctor.evals.launches.slot import PreparedRequest, Slot
from proctor.evals.launches.spec import Launch
from proctor.evals.opening import Opened, open_existing, open_new
from proctor.evals.preflight import Preflight, check_budget, preflight
from proctor.evals.prepare import Earlier, Surroundings
from proctor.evals.progress import Progress
from proctor.evals.report import RunReport, unprepared
from proctor.evals.request import RuntimeRequest
from proctor.evals.results.spending import read_spending
from proctor.evals.stopping import Stop
from proctor.kernel.budget import Budget, BudgetLimits
from proctor.kernel.clock import Clock
from proctor.kernel.errors import ProctorError, UsageError
from proctor.kernel.ids import readable
from proctor.models.limits import Limits, declare

DEFAULT_CAPACITY = {"docker": 16}
"""Environments at once where a launch sets no limit of its own; other providers have none."""


@dataclass(frozen=True, slots=True)
class Context:
    """What a launch runs with."""

    progress: Progress
    stop: Stop
    clock: Clock


def apply_limits(runtime: RuntimeRequest, provider_ids: Iterable[str]) -> None:
    """Set the process-wide limits that a launch asks for. The newest setting holds."""
    limits, rates = runtime.provider_limits, runtime.env_open_qps
    for model, wanted in runtime.model_limits.items():
        declare(model, Limits(wanted.concurrency, wanted.rpm, wanted.tpm))
    for provider in {*limits, *rates, *provider_ids}:
        default = DEFAULT_CAPACITY.get(provider, 0)
        if default or provider in limits or provider in rates:
            gate = GateLimits(limits.get(provider, default), rates.get(provider, 0.0))
            gate_of(provider).configure(gate)


async def run_single(
    pre: Preflight,
    context: Context,
    *,
    run_dir: str | None = None,
    earlier: Earlier | None = None,
    parent: str | None = None,
) -> RunReport:
    """A launch of one: a new run, or `run_dir` continued in place. A request that cannot be
    prepared is refused: its error is raised and its new directory removed."""
    runtime = pre.request.runtime
    apply_limits(runtime, [pre.components.environment.id])
    results, space = (runtime.results_dir, pre.namespace) if parent is None else (parent, "")

    def open_directory() -> Opened:
        if run_dir is not None:
            return open_existing(pre, run_dir, context.clock)
        return open_new(pre, results, space, runtime.run_id, context.clock)

    preparing = Preparing(
        open_directory,
        existing=run_dir is not None,
        earlier=earlier,
        progress=context.progress,
        grace_s=runtime.cleanup_grace_s,
        surroundings=Surroundings(executor_of(runtime.executor)),
    )
    slot = Slot(pre.name, preparing)
    orchestrator = Orchestrator(
        [slot], runtime.task_concurrency, context.clock, grace_s=runtime.cleanup_grace_s
    )
    await orchestrator.run(context.stop, runtime.timeout_s)
    if slot.failure is not None and (
        slot.report is None or not isinstance(slot.failure, ProctorError)
    ):
        raise slot.failure
    return report_of(slot, preparing.run_dir, context.stop)


async def run_launch(
    launch: Launch,
    context: Context,
    *,
    document: LaunchDocument | None = None,
    run_dirs: Mapping[str, str] | None = None,
) -> tuple[list[RunReport], str]:
    """Run all requests; the reports and the path of the launch's document. `run_dirs` are those
    of requests that are continued. Raises UsageError when nothing can run at all."""
    checked = await asyncio.to_thread(_preflight_all, launch)
    errors = [f"{name}: {e}" for name, e in checked.items() if isinstance(e, ProctorError)]
    if len(errors) == len(checked):
        raise UsageError("no request of the launch can run:\n" + "\n".join(errors))
    fitting = [pre for pre in checked.values() if isinstance(pre, Preflight)]
    apply_limits(launch.runtime, [pre.components.environment.id for pre in fitting])
    if document is None:
        document = LaunchDocument.reserve(launch, context.clock.now())
    context.progress.planned = list(checked)
    surroundings = _surroundings(launch, run_dirs or {})
    preparations = {
        name: _preparing(launch, name, pre, document, run_dirs or {}, context, surroundings)
        for name, pre in checked.items()
        if isinstance(pre, Preflight)
    }
    slots = [_slot(name, checked[name], preparations.get(name)) for name in checked]
    orchestrator = Orchestrator(
        slots,
        launch.task_concurrency,
        context.clock,
        grace_s=launch.runtime.cleanup_grace_s,
        on_change=lambda slot: _note(document, slot, preparations.get(slot.name)),
    )
    await orchestrator.run(context.stop, launch.runtime.timeout_s)
    reports = [_report(slot, preparations.get(slot.name), context.stop) for slot in slots]
    document.end(reports)
    return reports, document.path


def _surroundings(launch: Launch, run_dirs: Mapping[str, str]) -> Surroundings:
    """The launch's budget, with what its requests spent in earlier executions."""
    wanted = launch.runtime.budget
    budget = None
    if wanted is not None and (wanted.usd is not None or wanted.tokens is not None):
        budget = Budget("launch", BudgetLimits(wanted.usd, wanted.tokens))
        for run_dir in run_dirs.values():
            budget.charge(read_spending(run_dir)[0])
    return Surroundings(executor_of(launch.runtime.executor), budget)


def executor_of(executor_id: str) -> Executor:
    """The executor that a launch names. Raises UnknownComponent."""
    made: Executor = registry.load("executors", executor_id)()
    return made


def _preflight_all(launch: Launch) -> dict[str, Preflight | ProctorError]:
    found: dict[str, Preflight | ProctorError] = {}
    for request in launch.requests:
        try:
            pre = preflight(request)
            check_budget(launch.runtime.budget, pre.components)
            found[str(request.name)] = pre
        except ProctorError as error:
            found[str(request.name)] = error
    return found


def _preparing(
    launch: Launch,
    name: str,
    pre: Preflight,
    document: LaunchDocument,
    run_dirs: Mapping[str, str],
    context: Context,
    surroundings: Surroundings,
) -> Preparing:
    run_dir = run_dirs.get(name)
    space = f"launch/{readable(launch.name)}/{readable(name)}"
    results = launch.runtime.results_dir

    def open_directory() -> Opened:
        if run_dir is not None:
            return open_existing(pre, run_dir, context.clock)
        return open_new(pre, results, space, document.run_id, context.clock)

    return Preparing(
        open_directory,
        existing=run_dir is not None,
        progress=context.progress,
        grace_s=launch.runtime.cleanup_grace_s,
        keep_refused=True,
        surroundings=surroundings,
    )


def _slot(name: str, pre: Preflight | ProctorError, preparing: Preparing | None) -> Slot:
    async def refuse() -> PreparedRequest:
        assert isinstance(pre, ProctorError)
        raise pre

    return Slot(name, preparing if preparing is not None else refuse)


def _note(document: LaunchDocument, slot: Slot, preparing: Preparing | None) -> None:
    run_dir = preparing.run_dir if preparing is not None else ""
    status = slot.state.value
    if slot.report is not None:
        status = slot.report.status
    elif slot.ended:
        status = "failed"
    document.note(slot.name, run_dir, status, slot.error)


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
