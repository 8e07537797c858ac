"""The state of one task of a running request, kept small: a run may have 100,000 of them."""

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from proctor.evals.attempt.job import AttemptJob
from proctor.evals.contracts.plan import AttemptPlan
from proctor.evals.contracts.task import TaskSpec
from proctor.evals.metrics.observations import TaskObservations
from proctor.evals.strategy import Strategy
from proctor.kernel.issues import Severity


@dataclass(frozen=True, slots=True)
class AttemptSummary:
    """What is remembered of a finished attempt."""

    observations: Mapping[str, float]
    severity: Severity | None


@dataclass(slots=True)
class TaskState:
    """A task with its finished attempts, and the attempt in the making."""

    spec: TaskSpec
    done: dict[int, AttemptSummary] = field(default_factory=dict)
    evaluate_only: frozenset[int] = frozenset()
    """Indices whose stored run record only needs grading."""
    stored_state: str | None = None
    """The state folder the task was found in, when it was."""
    job: AttemptJob | None = None
    ready_since: float | None = None
    """When its last attempt ended, as monotonic seconds; None before the first."""
    grade_only: bool = False
    """Whether only `evaluate_only` attempts may run (rescore)."""

    def is_complete(self, strategy: Strategy, plan: AttemptPlan, primary: str) -> bool:
        """Whether the strategy asks for no further attempt."""
        done = self.done
        order = sorted(done) if len(done) > 1 else done
        return strategy.is_complete([done[i].observations.get(primary) for i in order], plan.k)

    def is_settled(self, strategy: Strategy, plan: AttemptPlan, primary: str) -> bool:
        """Whether nothing of this task will run any more."""
        if self.grade_only and self.evaluate_only <= self.done.keys():
            return True
        return self.is_complete(strategy, plan, primary)

    def next_index(self, plan: AttemptPlan) -> int:
        """The first attempt index that has no record and may run."""
        allowed = sorted(self.evaluate_only) if self.grade_only else range(1, plan.k + 1)
        return next(i for i in allowed if i not in self.done)

    @property
    def final_state(self) -> Literal["normal", "error", "fatal"]:
        """The highest severity of any attempt; warnings only = normal."""
        severities = [summary.severity for summary in self.done.values()]
        if Severity.FATAL in severities:
            return "fatal"
        return "error" if Severity.ERROR in severities else "normal"

    def observations(self, strategy: Strategy, plan: AttemptPlan, primary: str) -> TaskObservations:
        """What the metric report counts of this task."""
        state, complete = self.final_state, self.is_complete(strategy, plan, primary)
        return TaskObservations(
            task_id=self.spec.id,
            category=self.spec.category,
            state=state if complete or state == "fatal" else "missing",
            attempts={index: summary.observations for index, summary in self.done.items()},
            ended_early=complete and len(self.done) < plan.k,
        )


Queues = dict[str | None, deque[tuple[int, TaskState]]]
"""Tasks with their position, in order, by the provider whose permit their next try needs."""


def queued(tasks: Iterable[TaskState], provider_of: Callable[[TaskState], str | None]) -> Queues:
    """Queues of `tasks` in this order."""
    queues: Queues = {}
    for position, task in enumerate(tasks):
        queues.setdefault(provider_of(task), deque()).append((position, task))
    return queues
