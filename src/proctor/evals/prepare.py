"""From a claimed directory to a run: its tasks, and what earlier work is taken over."""

import os
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from proctor.evals.attempt.calls import Calls
from proctor.evals.attempt.services import AttemptServices
from proctor.evals.contracts.task import TaskSpec
from proctor.evals.executors import Executor, LocalExecutor
from proctor.evals.opening import Opened
from proctor.evals.preflight import Preflight
from proctor.evals.progress import RunView
from proctor.evals.results.layout import RunLayout
from proctor.evals.results.restore import Restored, restore, reuse_plan
from proctor.evals.results.resume import Examination, StoredState, examine
from proctor.evals.results.reuse import (
    CopyRules,
    ReusePlan,
    check_source,
    copy_tasks,
    newest_source,
)
from proctor.evals.results.spending import SpendingFile, read_spending
from proctor.evals.run import RequestRun
from proctor.evals.tasks import TaskState
from proctor.evals.threads import TrackedThreads
from proctor.kernel.budget import Budget, BudgetLimits, WallBudget
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
    wall: WallBudget | None = None
    notes: Sequence[str] = ()
    """What users must know about the launch."""


NOTHING_EARLIER = ("earlier work: none beside this run to reuse; everything runs",)


class Builder:
    """Makes the run of one claimed directory, once its tasks are loaded. Blocking."""

    def __init__(
        self, opened: Opened, tasks: Sequence[TaskSpec], surroundings: Surroundings,
        threads: TrackedThreads,
    ) -> None:  # fmt: skip
        self._opened = opened
        self._pre = opened.pre
        self._tasks = tasks
        self._surroundings = surroundings
        self._threads = threads

    def build(self, earlier: Earlier | None) -> RequestRun:
        """A new run, taking over earlier work where asked, or one that is continued in place. A
        directory that is refused stays as it was. Raises UsageError, StorageError."""
        opened = self._opened
        if opened.existing:
            reuse = opened.info.get("reuse")
            return self._taken_over() if reuse and not reuse["copied"] else self._continued()
        source = self._source(earlier)
        if source is None or earlier is None:
            fresh = [TaskState(task) for task in self._tasks]
            return self._run(fresh, None, NOTHING_EARLIER if earlier is not None else ())
        opened.info["reuse"] = {
            "source": source,
            "anyway": earlier.anyway,
            "rescore": earlier.rescore,
            "copied": False,
        }
        return self._taken_over()

    def _source(self, earlier: Earlier | None) -> str | None:
        if earlier is None:
            return None
        root = self._opened.writer.layout.root
        source = earlier.source or newest_source(os.path.dirname(root), root)
        return os.path.abspath(source) if source is not None else None

    def _taken_over(self) -> RequestRun:
        """Copy what is usable of the source, then go on from the copy."""
        opened, c = self._opened, self._pre.components
        reuse = opened.info["reuse"]
        check_source(reuse["source"], c.benchmark.id, c.attempts)
        source = RunLayout(reuse["source"])
        rules = self._rules(regrade=reuse["rescore"])
        found = dict(examine(source, self._tasks, rules))
        plan = reuse_plan(self._tasks, found, c.attempts, grade_only=rules.grade_only)
        plan.source, plan.anyway = source.root, reuse["anyway"]
        opened.write_info()
        digests = {task.id: rules.digests_of(task) for task in self._tasks if task.id in found}
        copy_tasks(source, opened.writer.layout, found, CopyRules(
            accepted=digests if reuse["anyway"] else None,
            without_results=reuse["rescore"],
            stopping=opened.stopping,
        ))  # fmt: skip
        opened.info["reuse"] = {**reuse, "copied": True}
        opened.write_info()
        rules = self._rules()
        copied = dict(examine(opened.writer.layout, self._tasks, rules))
        return self._restored(copied, rules, plan)

    def _continued(self) -> RequestRun:
        rules = self._rules()
        found = dict(examine(self._opened.writer.layout, self._tasks, rules))
        attempts = self._pre.components.attempts
        plan = reuse_plan(self._tasks, found, attempts, grade_only=rules.grade_only)
        self._opened.write_info()
        return self._restored(found, rules, plan)

    def _rules(self, *, regrade: bool = False) -> Examination:
        reuse = self._opened.info.get("reuse") or {}
        return Examination(
            self._pre.components.benchmark.metrics(),
            self._pre.components.attempts.k,
            self._pre.digests.of_task,
            lambda task: _mode(self._pre, task) in ("none", "fresh"),
            anyway=bool(reuse.get("anyway")),
            regrade=regrade,
            grade_only=bool(reuse.get("rescore")),
        )

    def _restored(
        self, found: Mapping[str, StoredState], rules: Examination, plan: ReusePlan
    ) -> RequestRun:
        c, writer = self._pre.components, self._opened.writer
        restored = restore(writer, self._tasks, found, rules, c.strategy, c.attempts)
        writer.log("run.resumed", **plan.to_json())
        return self._run(restored.states, (restored, plan))

    def _run(
        self,
        states: list[TaskState],
        earlier: tuple[Restored, ReusePlan] | None,
        notes: Sequence[str] = (),
    ) -> RequestRun:
        opened, pre = self._opened, self._pre
        view = _view(opened, states, earlier, (*self._surroundings.notes, *notes))
        spending, budget = _budget(opened, self._surroundings.budget)
        walls = (self._surroundings.wall, _wall(opened))
        run = RequestRun(
            request=pre.request,
            components=pre.components,
            services=_services(opened, budget, self._threads),
            writer=opened.writer,
            claim=opened.claim,
            info=opened.info,
            tasks=states,
            view=view,
            clock=opened.clock,
            executor=self._surroundings.executor,
            budgets=[b for b in (budget, *walls) if b is not None],
            spending=spending,
            kept_attempts=view.attempts_reused,
        )
        run.queue_up()
        return run


def _mode(pre: Preflight, task: TaskSpec) -> str:
    explicit = pre.request.execution.evaluation_mode
    return explicit or task.evaluation_mode or pre.components.evaluation_mode


def _budget(opened: Opened, parent: Budget | None) -> tuple[SpendingFile | None, Budget | None]:
    """The run's budget with what earlier executions spent, and the file that keeps it."""
    wanted = opened.pre.request.execution.budget
    limits = BudgetLimits(wanted.usd, wanted.tokens) if wanted is not None else BudgetLimits()
    if limits.unlimited and parent is None:
        return None, None
    root = opened.writer.layout.root
    spent, number = read_spending(root)
    spending = SpendingFile(root)
    budget = Budget(
        "run",
        limits,
        spent=spent,
        parent=parent,
        log=spending,
        first_number=number,
        lock=threading.Lock(),
    )
    return spending, budget


def _wall(opened: Opened) -> WallBudget | None:
    wanted = opened.pre.request.execution.budget
    if wanted is None or not wanted.wall_s:
        return None
    return WallBudget("run", wanted.wall_s, opened.clock)


def _services(opened: Opened, budget: Budget | None, threads: TrackedThreads) -> AttemptServices:
    request, c = opened.pre.request, opened.pre.components
    execution = request.execution
    return AttemptServices(
        components=c,
        contract=c.benchmark.metrics(),
        planner=opened.pre.planner,
        retry=RetryPolicy.build(
            execution.max_retries, execution.retry_pattern_list, execution.retry_backoff_s
        ),
        calls=Calls(threads),
        store=opened.writer,
        clock=opened.clock,
        digests=opened.pre.digests,
        labels={"run": str(opened.info["run_id"]), "run_dir": opened.writer.layout.root},
        budget=budget,
    )


def _view(
    opened: Opened,
    states: list[TaskState],
    earlier: tuple[Restored, ReusePlan] | None,
    notes: Sequence[str],
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
        notes=[
            *notes,
            *c.environment.cautions(),
            *(earlier[1].lines() if earlier is not None else []),
        ],
    )
    if earlier is not None:
        view.issue_codes.update(earlier[0].issues)
    primary = c.benchmark.metrics().primary
    for state in states:
        if state.is_complete(c.strategy, c.attempts, primary):
            view.finished[state.final_state] += 1
            view.resumed_tasks += 1
    return view
