"""What an attempt leaves on disk: its run record, and the attempt record itself."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from proctor.evals.attempt.grading import Grade
from proctor.evals.attempt.job import AttemptJob
from proctor.evals.contracts.result import Artifact, RunResult
from proctor.evals.contracts.task import PreparedTask
from proctor.evals.results.records import ATTEMPT_SCHEMA, RUN_SCHEMA
from proctor.kernel import jsontext
from proctor.kernel.clock import iso
from proctor.kernel.issues import Issue, Phase
from proctor.models.contract import Usage


@dataclass(frozen=True, slots=True)
class Left:
    """What the last try of an attempt left."""

    result: RunResult | None
    issues: tuple[Issue, ...]
    artifacts: tuple[Artifact, ...]
    usage: Usage


def attempt_record(
    job: AttemptJob,
    left: Left,
    grade: Grade | None,
    failure: Issue | None,
    digests: Mapping[str, str],
    finished_at: datetime,
) -> dict[str, Any]:
    """`result.json`: the attempt record. All keys are always there."""
    result = left.result
    telemetry = jsontext.sanitized(dict(result.telemetry)) if result is not None else {}
    return {
        "schema_version": ATTEMPT_SCHEMA,
        "task_id": job.task.id,
        "attempt": job.index,
        "status": _status(job, result, failure),
        "metrics": dict(grade.values) if grade is not None else {},
        "unavailable": dict(grade.unavailable) if grade is not None else {},
        "final_answer": result.final_answer if result is not None else None,
        "trajectory": result.trajectory if result is not None else None,
        "error": _error(result, failure),
        "artifacts": [a.to_json() for a in left.artifacts],
        "analysis_result": {},
        "meta": {
            "benchmark": dict(grade.evidence) if grade is not None else {},
            "harness": {"telemetry": telemetry},
        },
        "issues": [i.to_json() for i in left.issues],
        "retry_count": job.retries,
        "usage": {
            **left.usage.to_json(),
            "wall_s": round(sum(job.phases_s.values()), 6),
            "waiting_s": round(job.waiting_s, 6),
            "phases_s": {name: round(value, 6) for name, value in job.phases_s.items()},
        },
        "plan": job.plan_digest or None,
        "digests": dict(digests),
        "started_at": iso(job.started_at) if job.started_at is not None else None,
        "finished_at": iso(finished_at),
    }


def _status(job: AttemptJob, result: RunResult | None, failure: Issue | None) -> str:
    if failure is not None:
        # With the run record durable, whatever fails (opening a fresh environment too) is
        # the evaluation's failure.
        graded = job.result is not None or failure.phase is Phase.EVALUATE
        return "eval_error" if graded else "run_error"
    if result is None or result.error or result.timed_out:
        return "run_error"
    return "completed"


def _error(result: RunResult | None, failure: Issue | None) -> str | None:
    if failure is not None:
        return failure.traceback or failure.message
    if result is not None and result.timed_out and not result.error:
        return "the agent reached its time limit"
    return result.error if result is not None else None


def result_json(result: RunResult) -> dict[str, Any]:
    """A run result as JSON, whatever its harness left in the telemetry."""
    return {**result.to_json(), "telemetry": jsontext.sanitized(dict(result.telemetry))}


def run_record(job: AttemptJob, prepared: PreparedTask, result: RunResult) -> dict[str, Any]:
    """`run.json`: everything that evaluating again needs besides the task itself."""
    out: dict[str, Any] = {
        "schema_version": RUN_SCHEMA,
        "task_id": job.task.id,
        "attempt": job.index,
        "result": result_json(result),
        "issues": [i.to_json() for i in job.result_issues],
        "retry_count": job.retries,
        "phases_s": {name: round(value, 6) for name, value in job.phases_s.items()},
        "waiting_s": round(job.waiting_s, 6),
        "plan": job.plan_digest,
        "digests": dict(job.digests),
        "started_at": iso(job.started_at) if job.started_at is not None else None,
    }
    if prepared.input is not job.task.input:
        out["input"] = prepared.input
    if prepared.state:
        out["state"] = dict(prepared.state)
    return out
