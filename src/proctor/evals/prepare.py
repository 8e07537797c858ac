"""Preparing a request: preflight, its directory, its tasks, and what earlier work is taken over.

preflight   components, options, what is missing here (nothing on disk yet)
open        reserve or claim the directory, write the first run_info
load        tasks, once; their needs; earlier records examined, shown and put in place
"""

import contextlib
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from proctor.evals.attempt.calls import Calls
from proctor.evals.attempt.services import AttemptServices
from proctor.evals.components import Components, build_components
from proctor.evals.contracts.task import TaskSpec
from proctor.evals.digests import RequestDigests
from proctor.evals.executors import Executor, LocalExecutor
from proctor.evals.metrics.report import attempt_problems
from proctor.evals.options import validate
from proctor.evals.planner import Planner
from proctor.evals.progress import RunView
from proctor.evals.request import RunRequest
from proctor.evals.results.layout import RunLayout
from proctor.evals.results.reserve import namespace, reserve
from proctor.evals.results.restore import Restored, restore, reuse_plan
from proctor.evals.results.resume import Examination, StoredState, examine
from proctor.evals.results.reuse import ReusePlan, check_source, copy_tasks, newest_source
from proctor.evals.results.run_info import ended, first_run_info, resumed
from proctor.evals.results.stored import load_run_info
from proctor.evals.results.writer import RunWriter
from proctor.evals.run import RequestRun
from proctor.evals.selection import load_and_select
from proctor.evals.tasks import TaskState
from proctor.evals.threads import TrackedThreads
from proctor.kernel.clock import Clock
from proctor.kernel.errors import RunDirectoryError, RunIsLive, UsageError
from proctor.kernel.redact import REDACTED, Redactor, secret_values
from proctor.kernel.retry import RetryPolicy
from proctor.models.contract import Usage
from proctor.store.exclusive import Claim, Owner


@dataclass(frozen=True, slots=True)
class Preflight:
    """A request whose components are there and fit together."""

    request: RunRequest
    components: Components
    planner: Planner

    @property
    def name(self) -> str:
        """What people call this request."""
        c = self.components
        plain = f"{c.benchmark.id} · {c.harness_id} · {c.model_name}"
        return self.request.name or plain

    @property
    def namespace(self) -> str:
        """Where single runs of this request are kept, below the results directory."""
        c = self.components
        return namespace(c.benchmark.id, c.harness_id, c.model_name)


@dataclass(frozen=True, slots=True)
class Earlier:
    """Earlier work to take over: `source` is a run directory, or None for the newest of the
    request's own namespace. `anyway` keeps attempts whose inputs changed; `rescore` grades
    stored runs again and runs nothing."""

    source: str | None = None
    anyway: bool = False
    rescore: bool = False


def preflight(request: RunRequest) -> Preflight:
    """Build and check what a request names. Blocking. Raises UsageError."""
    components = build_components(request)
    contract = components.benchmark.metrics()
    truncates = components.strategy.truncates
    if problems := attempt_problems(contract, components.attempts, truncates=truncates):
        raise UsageError("; ".join(problems))
    return Preflight(request, components, Planner(request, components))


def check(request: RunRequest) -> list[TaskSpec]:
    """Everything that can be refused before anything runs. Blocking. Raises UsageError."""
    return load_and_select(preflight(request).components, request.selection)


class Opened:
    """A claimed run directory with its first `run_info.json`."""

    def __init__(
        self,
        pre: Preflight,
        root: str,
        info: dict[str, Any],
        claim: Claim,
        clock: Clock,
        found: Mapping[str, Any] | None = None,
    ) -> None:
        self.pre = pre
        self._found = found
        self.clock = clock
        self.claim = claim
        self.info = info
        self.writer = RunWriter(
            RunLayout(root),
            pre.components.attempts,
            Redactor(secret_values(os.environ)),
            clock,
            strict=pre.request.execution.durability == "strict",
        )
        self.writer.write_document(self.writer.layout.run_info, info, "run_info")

    def end(self, event: str, error: str | None) -> None:
        """The request was not prepared: say on disk how that ended (`fail`, `interrupt`)."""
        self.info = ended(self.info, event, self.clock.now(), error)
        self.writer.write_document(self.writer.layout.run_info, self.info, "run_info")
        self.close()

    def close_unchanged(self) -> None:
        """Give an existing directory up as it was found."""
        if self._found is not None:
            self.writer.write_document(self.writer.layout.run_info, self._found, "run_info")
        self.close()

    def discard(self) -> None:
        """Remove a directory that was reserved for a request which is refused."""
        self.close()
        shutil.rmtree(self.writer.layout.root, ignore_errors=True)
        parent = os.path.dirname(self.writer.layout.root)
        with contextlib.suppress(OSError):  # not empty: other runs are in it
            os.removedirs(parent)

    def close(self) -> None:
        """Give the directory up. Idempotent."""
        self.claim.release(self.clock.now())
        self.writer.close()


def open_new(
    pre: Preflight, results_dir: str, space: str, run_id: str | None, clock: Clock
) -> Opened:
    """Reserve a new directory. Blocking. Raises UsageError."""
    now = clock.now()
    root = reserve(results_dir, space, run_id, now)
    claim = _claim(root, now)
    info = first_run_info(pre.request, pre.components, os.path.basename(root), now)
    return Opened(pre, root, info, claim, clock)


def open_existing(pre: Preflight, run_dir: str, clock: Clock) -> Opened:
    """Claim a run directory to continue it. Blocking. Raises RunIsLive, RunDirectoryError."""
    layout = RunLayout(run_dir)
    now = clock.now()
    claim = _claim(layout.root, now)
    try:
        found = load_run_info(layout)
        return Opened(pre, layout.root, resumed(found, now), claim, clock, found)
    except BaseException:
        claim.release(clock.now())
        raise


def load_new(
    opened: Opened, earlier: Earlier | None, executor: Executor | None = None
) -> RequestRun:
    """Load the tasks of a new run, taking over earlier work where asked. Blocking."""
    pre = opened.pre
    source = _source(opened, earlier)
    tasks = load_and_select(pre.components, pre.request.selection)
    if source is None or earlier is None:
        return _request_run(opened, [TaskState(task) for task in tasks], None, executor)
    rules = _rules(pre, earlier)
    layout = RunLayout(source)
    found = dict(examine(layout, tasks, rules))
    plan = reuse_plan(tasks, found, pre.components.attempts)
    plan.source, plan.anyway = source, earlier.anyway
    by_id = {task.id: task for task in tasks}
    accept = (lambda task_id: rules.digests_of(by_id[task_id])) if earlier.anyway else None
    copy_tasks(layout, opened.writer.layout, found, accept)
    opened.info["reused_from"] = source
    opened.writer.write_document(opened.writer.layout.run_info, opened.info, "run_info")
    copied = dict(examine(opened.writer.layout, tasks, rules))
    return _restored(opened, tasks, copied, rules, plan, executor)


def load_existing(opened: Opened, executor: Executor | None = None) -> RequestRun:
    """Load the tasks of a run that is continued in place. Blocking."""
    pre = opened.pre
    tasks = load_and_select(pre.components, pre.request.selection)
    rules = _rules(pre, Earlier())
    found = dict(examine(opened.writer.layout, tasks, rules))
    plan = reuse_plan(tasks, found, pre.components.attempts)
    return _restored(opened, tasks, found, rules, plan, executor)


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


def _source(opened: Opened, earlier: Earlier | None) -> str | None:
    if earlier is None:
        return None
    c = opened.pre.components
    root = opened.writer.layout.root
    source = earlier.source or newest_source(os.path.dirname(root), root)
    if source is None:
        return None
    check_source(source, c.benchmark.id, c.attempts)
    return os.path.abspath(source)


def _rules(pre: Preflight, earlier: Earlier) -> Examination:
    c = pre.components
    explicit = pre.request.execution.evaluation_mode

    def again(task: TaskSpec) -> bool:
        return (explicit or task.evaluation_mode or c.evaluation_mode) in ("none", "fresh")

    return Examination(
        c.benchmark.metrics(),
        RequestDigests.of(c).of_task,
        again,
        anyway=earlier.anyway,
        rescore=earlier.rescore,
    )


def _restored(
    opened: Opened,
    tasks: list[TaskSpec],
    found: Mapping[str, StoredState],
    rules: Examination,
    plan: ReusePlan,
    executor: Executor | None,
) -> RequestRun:
    c = opened.pre.components
    restored = restore(opened.writer, tasks, found, rules, c.strategy, c.attempts)
    opened.writer.log("run.resumed", **plan.to_json())
    return _request_run(opened, restored.states, (restored, plan), executor)


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


def _request_run(
    opened: Opened,
    states: list[TaskState],
    earlier: tuple[Restored, ReusePlan] | None,
    executor: Executor | None,
) -> RequestRun:
    pre = opened.pre
    view = _view(opened, states, earlier)
    return RequestRun(
        request=pre.request,
        components=pre.components,
        services=_services(opened),
        writer=opened.writer,
        claim=opened.claim,
        info=opened.info,
        tasks=states,
        view=view,
        clock=opened.clock,
        executor=executor or LocalExecutor(),
        kept_attempts=view.attempts_reused,
    )


def _services(opened: Opened) -> AttemptServices:
    request, c = opened.pre.request, opened.pre.components
    execution = request.execution
    return AttemptServices(
        components=c,
        contract=c.benchmark.metrics(),
        planner=opened.pre.planner,
        retry=RetryPolicy.build(
            execution.max_retries, execution.retry_pattern_list, execution.retry_backoff_s
        ),
        calls=Calls(TrackedThreads()),
        store=opened.writer,
        clock=opened.clock,
        digests=RequestDigests.of(c),
        labels={"run": str(opened.info["run_id"]), "run_dir": opened.writer.layout.root},
    )


def _view(
    opened: Opened, states: list[TaskState], earlier: tuple[Restored, ReusePlan] | None
) -> RunView:
    c = opened.pre.components
    view = RunView(
        name=opened.pre.name,
        run_dir=opened.writer.layout.root,
        tasks=len(states),
        attempts=len(states) * c.attempts.k,
        started=opened.clock.monotonic(),
        k=c.attempts.k,
        usage=earlier[0].usage if earlier is not None else Usage(),
        attempts_reused=sum(len(state.done) for state in states),
        notes=[*c.environment.cautions(), *(earlier[1].lines() if earlier is not None else [])],
    )
    primary = c.benchmark.metrics().primary
    for state in states:
        if state.is_complete(c.strategy, c.attempts, primary):
            view.finished[state.final_state] += 1
            view.resumed_tasks += 1
    return view
