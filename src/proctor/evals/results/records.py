"""The records of a run directory: their versions, and what a task's attempts share.

Writers always write the newest version; readers take older ones at this edge only.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from proctor.evals.contracts.plan import AttemptPlan
from proctor.evals.contracts.result import RunResult
from proctor.evals.contracts.task import PreparedTask, TaskSpec
from proctor.kernel.issues import Issue

ATTEMPT_SCHEMA = "proctor.attempt.v1"
RUN_SCHEMA = "proctor.run.v1"
TASK_SCHEMA = "proctor.task.v1"
RUN_INFO_SCHEMA = "proctor.run_info.v1"
SUMMARY_SCHEMA = "proctor.summary.v1"


@dataclass(frozen=True, slots=True)
class WasRun:
    """What a run record keeps of an attempt whose agent has finished."""

    result: RunResult
    issues: tuple[Issue, ...]
    phases_s: Mapping[str, float]
    waiting_s: float
    retries: int


def what_was_run(run: Mapping[str, Any]) -> WasRun:
    """Read a run record. Raises KeyError, TypeError or ValueError where it is damaged."""
    return WasRun(
        RunResult.from_json(run["result"]),
        tuple(Issue.from_json(issue) for issue in run["issues"]),
        {str(name): float(value) for name, value in run["phases_s"].items()},
        float(run["waiting_s"]),
        int(run["retry_count"]),
    )


def prepared_from(run: Mapping[str, Any], task: TaskSpec) -> PreparedTask:
    """The prepared task of a run record."""
    return PreparedTask(task, run.get("input", task.input), run.get("state", {}))


def task_record(task: TaskSpec, plan: AttemptPlan) -> dict[str, Any]:
    """`task.json`: what the attempts of a task share."""
    return {
        "schema_version": TASK_SCHEMA,
        "task_id": task.id,
        "category": task.category,
        "ground_truth": task.target,
        "attempt_plan": plan.to_json(),
    }
