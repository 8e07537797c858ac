"""Preparing a request: components, tasks, its directory, and what an earlier execution left."""

import os
import shutil
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import datetime

from proctor.evals.attempt.calls import Calls
from proctor.evals.attempt.services import AttemptServices
from proctor.evals.components import Components, build_components, guard
from proctor.evals.contracts.task import TaskSpec
from proctor.evals.digests import RequestDigests
from proctor.evals.metrics.report import attempt_problems
from proctor.evals.options import validate
from proctor.evals.planner import Planner
from proctor.evals.progress import RunView
from proctor.evals.request import RunRequest
from proctor.evals.results.layout import RunLayout
from proctor.evals.results.reserve import namespace, reserve
from proctor.evals.results.restore import restore
from proctor.evals.results.resume import Examination, examine
from proctor.evals.results.run_info import first_run_info, resumed
from proctor.evals.results.stored import load_run_info
from proctor.evals.results.writer import RunWriter
from proctor.evals.run import RequestRun
from proctor.evals.selection import load_and_select
from proctor.evals.tasks import TaskState
from proctor.evals.threads import TrackedThreads
from proctor.kernel.clock import Clock
from proctor.kernel.errors import RunDirectoryError, RunIsLive, StorageError, UsageError
from proctor.kernel.redact import REDACTED, Redactor, secret_settings, secret_values
from proctor.kernel.retry import RetryPolicy
from proctor.models.contract import Usage
from proctor.store.exclusive import Claim, Owner


@dataclass(frozen=True, slots=True)
class Preparation:
    """A checked request with its tasks; nothing is on disk yet."""

    request: RunRequest
    components: Components
    planner: Planner
    tasks: list[TaskSpec]
    digests: RequestDigests


def check(request: RunRequest) -> Preparation:
    """Everything that can be refused before anything runs. Blocking. Raises UsageError."""
    components = build_components(request)
    contract = components.benchmark.metrics()
    truncates = components.strategy.truncates
    if problems := attempt_problems(contract, components.attempts, truncates=truncates):
        raise UsageError("; ".join(problems))
    planner = Planner(request, components)
    tasks = load_and_select(components, request.selection)
    digests: RequestDigests = guard("what identifies the components", RequestDigests.of, components)
    return Preparation(request, components, planner, tasks, digests)


def start(prepared: Preparation, clock: Clock) -> RequestRun:
    """A new run in a newly reserved directory. Blocking. Raises UsageError, and leaves no
    directory behind then."""
    request, c = prepared.request, prepared.components
    space = namespace(c.benchmark.id, c.harness_id, c.model_name)
    root = reserve(request.runtime.results_dir, space, request.runtime.run_id, clock.now())
    try:
        return _started(prepared, root, clock)
    except Exception as error:
        shutil.rmtree(root, ignore_errors=True)  # made a moment ago, and nothing ran in it
        if not isinstance(error, StorageError):
            raise
        raise UsageError(
            f"cannot write to the results directory: {error.message}",
            hint="free space, or choose another with --results DIR",
        ) from error


def _started(prepared: Preparation, root: str, clock: Clock) -> RequestRun:
    now = clock.now()
    claim = _claim(root, now)
    with ExitStack() as undo:
        undo.callback(claim.abandon)
        info = first_run_info(prepared.request, prepared.components, os.path.basename(root), now)
        writer = _writer(prepared, root, clock)
        undo.callback(writer.close)
        writer.write_document(writer.layout.run_info, info, "run_info")
        undo.pop_all()
    states = [TaskState(task) for task in prepared.tasks]
    return _request_run(prepared, clock, writer, claim, info, states)


def stored_request(run_dir: str) -> RunRequest:
    """The request of a run directory. Raises RunDirectoryError."""
    layout = RunLayout(run_dir)
    if not os.path.isdir(layout.root):
        raise RunDirectoryError(f"no such run directory: {run_dir}")
    info = load_run_info(layout)
    if redacted := _redacted_paths(info["request"], ""):
        raise RunDirectoryError(
            f"the request holds redacted values: {', '.join(redacted)}",
            hint="give them by environment variable (for example api_key_env) and start anew",
        )
    return validate(RunRequest, info["request"], "request")


def resume(prepared: Preparation, run_dir: str, clock: Clock) -> RequestRun:
    """Continue a run in place. Blocking. Raises RunIsLive, RunDirectoryError, StorageError.

    A directory that is refused stays as it was.
    """
    layout, c = RunLayout(run_dir), prepared.components
    now = clock.now()
    claim = _claim(layout.root, now)
    with ExitStack() as undo:
        undo.callback(lambda: claim.release(clock.now()))
        info = load_run_info(layout)
        rules = Examination(
            c.benchmark.metrics(),
            prepared.digests.of_task,
            lambda task: _mode(prepared, task) in ("none", "fresh"),
        )
        found = dict(examine(layout, prepared.tasks, rules))
        writer = _writer(prepared, layout.root, clock)
        undo.callback(writer.close)
        info = resumed(info, now)
        writer.write_document(layout.run_info, info, "run_info")
        primary = rules.contract.primary
        kept = restore(writer, prepared.tasks, found, c.strategy, c.attempts, primary)
        writer.log("run.resumed", **kept.decisions)
        undo.pop_all()
    run = _request_run(prepared, clock, writer, claim, info, kept.states)
    run.view.usage = kept.usage
    run.view.issue_codes.update(kept.issues)
    return run


def _mode(prepared: Preparation, task: TaskSpec) -> str:
    explicit = prepared.request.execution.evaluation_mode
    return explicit or task.evaluation_mode or prepared.components.evaluation_mode


def _claim(root: str, now: datetime) -> Claim:
    taken = Claim.take(root, now)
    if isinstance(taken, Owner):
        raise RunIsLive(
            f"{root} is in use by process {taken.pid} on {taken.host}",
            hint="wait for it to end, or stop it first",
        )
    return taken


def _redacted_paths(value: object, path: str) -> list[str]:
    if value == REDACTED:
        return [path]
    if isinstance(value, dict):
        return [p for k, v in value.items() for p in _redacted_paths(v, f"{path}.{k}".lstrip("."))]
    if isinstance(value, list):
        return [p for i, v in enumerate(value) for p in _redacted_paths(v, f"{path}.{i}")]
    return []


def _writer(prepared: Preparation, root: str, clock: Clock) -> RunWriter:
    return RunWriter(
        RunLayout(root),
        prepared.components.attempts,
        Redactor(secret_values(os.environ) + secret_settings(prepared.request.model_dump())),
        clock,
        strict=prepared.request.execution.durability == "strict",
    )


def _request_run(
    prepared: Preparation,
    clock: Clock,
    writer: RunWriter,
    claim: Claim,
    info: dict[str, object],
    states: list[TaskState],
) -> RequestRun:
    request, c = prepared.request, prepared.components
    execution = request.execution
    retry = RetryPolicy.build(
        execution.max_retries, execution.retry_pattern_list, execution.retry_backoff_s
    )
    services = AttemptServices(
        components=c,
        contract=c.benchmark.metrics(),
        planner=prepared.planner,
        retry=retry,
        calls=Calls(TrackedThreads()),
        store=writer,
        clock=clock,
        digests=prepared.digests,
        labels={"run": str(info["run_id"]), "run_dir": writer.layout.root},
    )
    name = request.name or f"{c.benchmark.id} · {c.harness_id} · {c.model_name}"
    view = RunView(
        name=name,
        run_dir=writer.layout.root,
        tasks=len(states),
        attempts=len(states) * c.attempts.k,
        started=clock.monotonic(),
        k=c.attempts.k,
        usage=Usage(),
    )
    kept = sum(len(state.done) for state in states)
    primary = services.contract.primary
    for state in states:
        if state.is_complete(c.strategy, c.attempts, primary):
            view.finished[state.final_state] += 1
            view.resumed_tasks += 1
    view.attempts_reused = kept
    return RequestRun(
        request, c, services, writer, claim, info, states, view, clock, kept_attempts=kept
    )
