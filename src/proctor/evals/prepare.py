"""From a claimed directory to a run: its tasks, and what earlier work is taken over."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field

from proctor.evals.attempt.calls import Calls
from proctor.evals.attempt.services import AttemptServices
from proctor.evals.contracts.task import TaskSpec
from proctor.evals.digests import RequestDigests
from proctor.evals.executors import Executor, LocalExecutor
from proctor.evals.opening import Opened
from proctor.evals.preflight import Preflight
from proctor.evals.progress import RunView
from proctor.evals.results.layout import RunLayout
from proctor.evals.results.restore import Restored, restore, reuse_plan
from proctor.evals.results.resume import Examination, StoredState, examine
from proctor.evals.results.reuse import ReusePlan, check_source, copy_tasks, newest_source
from proctor.evals.results.spending import SpendingFile, read_spending
from proctor.evals.run import RequestRun
from proctor.evals.selection import load_and_select
from proctor.evals.tasks import TaskState
from proctor.evals.threads import TrackedThreads
from proctor.kernel.budget import Budget, BudgetLimits
from proctor.kernel.retry import RetryPolicy
from proctor.models.contract import Usage


@dataclass(frozen=True, slots=True)
class Earlier:
    """Earlier work to take over: `source` is a run directory, or None for the newest of the
    request's own namespace. `anyway` keeps attempts whose inputs changed; `rescore` grades
    stored runs again and runs nothing."""

    source: str | None = None
    anyway: bool = False
    rescore: bool = False


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a request shares with its launch."""

    executor: Executor = field(default_factory=LocalExecutor)
    budget: Budget | None = None


def load_new(
    opened: Opened, earlier: Earlier | None, surroundings: Surroundings = Surroundings()
) -> RequestRun:
    """Load the tasks of a new run, taking over earlier work where asked. Blocking."""
    pre = opened.pre
    source = _source(opened, earlier)
    tasks = load_and_select(pre.components, pre.request.selection)
    if source is None or earlier is None:
        return _request_run(opened, [TaskState(task) for task in tasks], None, surroundings)
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
    return _restored(opened, tasks, copied, rules, plan, surroundings)


def load_existing(opened: Opened, surroundings: Surroundings = Surroundings()) -> RequestRun:
    """Load the tasks of a run that is continued in place. Blocking."""
    pre = opened.pre
    tasks = load_and_select(pre.components, pre.request.selection)
    rules = _rules(pre, Earlier())
    found = dict(examine(opened.writer.layout, tasks, rules))
    plan = reuse_plan(tasks, found, pre.components.attempts)
    return _restored(opened, tasks, found, rules, plan, surroundings)


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
    surroundings: Surroundings,
) -> RequestRun:
    c = opened.pre.components
    restored = restore(opened.writer, tasks, found, rules, c.strategy, c.attempts)
    opened.writer.log("run.resumed", **plan.to_json())
    return _request_run(opened, restored.states, (restored, plan), surroundings)


def _request_run(
    opened: Opened,
    states: list[TaskState],
    earlier: tuple[Restored, ReusePlan] | None,
    surroundings: Surroundings,
) -> RequestRun:
    pre = opened.pre
    view = _view(opened, states, earlier)
    spending, budget = _budget(opened, surroundings.budget)
    return RequestRun(
        request=pre.request,
        components=pre.components,
        services=_services(opened, budget),
        writer=opened.writer,
        claim=opened.claim,
        info=opened.info,
        tasks=states,
        view=view,
        clock=opened.clock,
        executor=surroundings.executor,
        spending=spending,
        kept_attempts=view.attempts_reused,
    )


def _budget(opened: Opened, parent: Budget | None) -> tuple[SpendingFile | None, Budget | None]:
    """The run's budget with what earlier executions spent, and the file that keeps it."""
    wanted = opened.pre.request.execution.budget
    limits = BudgetLimits(wanted.usd, wanted.tokens) if wanted is not None else BudgetLimits()
    if limits.unlimited and parent is None:
        return None, None
    root = opened.writer.layout.root
    spent, number = read_spending(root)
    spending = SpendingFile(root)
    budget = Budget("run", limits, spent=spent, parent=parent, log=spending, first_number=number)
    return spending, budget


def _services(opened: Opened, budget: Budget | None) -> AttemptServices:
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
        budget=budget,
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
