"""One attempt in the making: what survives between its tries, and how a try ends."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from proctor.evals.contracts.result import RunResult
from proctor.evals.contracts.task import PreparedTask, TaskSpec
from proctor.evals.planner import ExecutionPlan
from proctor.kernel.issues import Issue, Phase, Severity
from proctor.models.contract import Usage


@dataclass(slots=True)
class AttemptJob:
    """An attempt on its way to a record. Mutable; owned by one worker at a time.

    `result` is set once the run record is durable (modes `none` and `fresh`): from then on only
    the evaluation is repeated. `waiting_s` counts queueing and back-off, never working time.
    """

    task: TaskSpec
    index: int
    plan: ExecutionPlan | None = None
    plan_digest: str = ""
    digests: Mapping[str, str] = field(default_factory=dict)
    """What its inputs were when its plan was made, by field."""
    retries: int = 0
    prepared: PreparedTask | None = None
    result: RunResult | None = None
    result_issues: tuple[Issue, ...] = ()
    started_at: datetime | None = None
    waiting_s: float = 0.0
    waiting_since: float | None = None
    phases_s: dict[str, float] = field(default_factory=dict)
    artifacts_asked: bool = False
    """Whether any code of it, in whatever step or try, asked where artifacts go."""


@dataclass(frozen=True, slots=True)
class Finished:
    """The attempt has its record. `observations` are the valid ones by metric id."""

    record: Mapping[str, Any]
    observations: Mapping[str, float]
    severity: Severity | None
    usage: Usage
    issues: tuple[Issue, ...]


@dataclass(frozen=True, slots=True)
class RetryLater:
    """This try is dropped; the attempt is tried again after `delay_s` seconds."""

    issue: Issue
    phase: Phase
    scope: str
    """`attempt` (a new environment, the same plan) or `evaluation` (only grading again)."""
    matched: str | None
    delay_s: float
    details: Mapping[str, Any]


TryOutcome = Finished | RetryLater
