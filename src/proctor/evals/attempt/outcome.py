"""How a try ends: a record, or another try."""

import asyncio
from dataclasses import replace
from typing import Any

from proctor.evals.attempt.blame import PhaseFailed, blame
from proctor.evals.attempt.grading import Grade
from proctor.evals.attempt.inference import too_late
from proctor.evals.attempt.job import AttemptJob, Finished, RetryLater, TryOutcome
from proctor.evals.attempt.lifecycle import ReturnedError, Try
from proctor.evals.attempt.record import Left, attempt_record, result_json
from proctor.evals.attempt.services import AttemptServices
from proctor.kernel.errors import StorageError
from proctor.kernel.issues import Cause, Issue, Phase, Severity, highest
from proctor.kernel.retry import RetryDecision

_EVALUATOR_CAUSES = frozenset(
    [Cause.EVALUATOR, Cause.JUDGE, Cause.ENVIRONMENT, Cause.MODEL_PROVIDER, Cause.BENCHMARK]
)


async def run_try(services: AttemptServices, job: AttemptJob) -> TryOutcome:
    """Execute one try. Raises StorageError and cancellation; everything else is an outcome."""
    attempt = Try(services, job)
    job.started_at = job.started_at or services.clock.now()
    try:
        grade = await _graded(attempt)
    except ReturnedError as error:
        issue = Issue(Severity.ERROR, Phase.RUN, Cause.AGENT, "agent_error", str(error))
        decision = services.retry.decide(str(error), job.retries)
        return _retry(attempt, job, issue, decision)
    except PhaseFailed as failure:
        decision = services.retry.decide(
            failure.issue.message,
            job.retries,
            permanent=failure.permanent,
            retry_after_s=failure.retry_after_s,
        )
        if decision.retry:
            return _retry(attempt, job, failure.issue, decision)
        attempt.log.issues.append(failure.issue)
        _explain(attempt, failure, decision, services.retry.max_retries)
        return _finish(services, attempt, job, None, failure.issue)
    fault = _evaluation_failed(services, grade)
    if fault is not None:
        decision = services.retry.decide(fault.message, job.retries)
        if decision.retry:
            return _retry(attempt, job, fault, decision)
    attempt.log.issues.extend(grade.issues)
    return _finish(services, attempt, job, grade, None)


async def _graded(attempt: Try) -> Grade:
    """The grade of a try. A defect of ours, or of a plug-in where nobody expected it, is that
    attempt's fatal issue: it never reaches the other tasks."""
    try:
        return await attempt.grade()
    except (ReturnedError, PhaseFailed, StorageError):
        raise
    except asyncio.CancelledError as error:
        if too_late():
            raise
        raise _unexpected(attempt, error) from error
    except Exception as error:
        raise _unexpected(attempt, error) from error


def _unexpected(attempt: Try, error: BaseException) -> PhaseFailed:
    found = blame(attempt.log.last, error).issue
    issue = replace(found, severity=Severity.FATAL, cause=Cause.RUNTIME, code="internal_error")
    return PhaseFailed(issue, permanent=True, retry_after_s=None)


def _evaluation_failed(services: AttemptServices, grade: Grade) -> Issue | None:
    """The issue of an evaluation that ended without the primary observation by its own fault."""
    if services.contract.primary in grade.observations:
        return None
    for issue in grade.issues:
        ours = issue.code in ("invalid_observation", "no_observation")
        if issue.severity is not Severity.WARNING and issue.cause in _EVALUATOR_CAUSES and not ours:
            return issue
    return None


def _explain(attempt: Try, failure: PhaseFailed, decision: RetryDecision, max_retries: int) -> None:
    if max_retries and failure.permanent and failure.issue.code != "invalid_task":
        attempt.log.note(
            Severity.WARNING,
            failure.issue.phase,
            failure.issue.cause,
            "not_retried",
            f"{failure.issue.code}: {decision.reason}",
        )


def _retry(attempt: Try, job: AttemptJob, issue: Issue, decision: RetryDecision) -> RetryLater:
    scope = "evaluation" if job.result is not None else "attempt"
    details: dict[str, Any] = {
        "task_id": job.task.id,
        "attempt": job.index,
        "try": job.retries + 1,
        "phase": issue.phase.value,
        "scope": scope,
        "matched_pattern": decision.matched,
        "delay_s": round(decision.delay_s, 3),
        "issue": issue.to_json(),
        "issues": [i.to_json() for i in attempt.log.issues],
        "usage": attempt.usage.to_json(),
        "plan": job.plan.to_json() if job.plan is not None else None,
        "result": result_json(attempt.result) if attempt.result is not None else None,
    }
    return RetryLater(issue, issue.phase, scope, decision.matched, decision.delay_s, details)


def _finish(
    services: AttemptServices,
    attempt: Try,
    job: AttemptJob,
    grade: Grade | None,
    failure: Issue | None,
) -> Finished:
    issues = tuple(attempt.log.issues)
    severity = highest(issues)
    fatal = severity is Severity.FATAL
    result = attempt.result
    artifacts = attempt.artifacts or (result.artifacts if result is not None else ())
    record = attempt_record(
        job,
        Left(result, issues, artifacts, attempt.usage),
        grade,
        failure,
        job.digests or services.digests.of_task(job.task),
        services.clock.now(),
    )
    observations = {} if grade is None or fatal else dict(grade.observations)
    return Finished(record, observations, severity, attempt.usage, issues)
