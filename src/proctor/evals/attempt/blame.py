"""From an exception to an issue: severity by phase, cause by where it was raised."""

import traceback
from dataclasses import dataclass

from proctor.evals.attempt.calls import DeadlineReached
from proctor.kernel.errors import Fault, ProctorError
from proctor.kernel.issues import Cause, Issue, Phase, Severity

_DEFAULT_CAUSE = {
    Phase.PLAN: Cause.RUNTIME,
    Phase.OPEN: Cause.ENVIRONMENT,
    Phase.PREPARE: Cause.BENCHMARK,
    Phase.RUN: Cause.AGENT,
    Phase.COLLECT: Cause.BENCHMARK,
    Phase.EVALUATE: Cause.EVALUATOR,
    Phase.ANALYSE: Cause.RUNTIME,
    Phase.CLEANUP: Cause.ENVIRONMENT,
}
"""Who raised it when the exception does not say so itself."""

TRACEBACK_LIMIT_CHARS = 8_000


class PhaseFailed(Exception):
    """An attempt's try ended in `phase`; the issue is what the record keeps."""

    def __init__(self, issue: Issue, *, permanent: bool, retry_after_s: float | None) -> None:
        super().__init__(issue.message)
        self.issue = issue
        self.permanent = permanent
        self.retry_after_s = retry_after_s


@dataclass(frozen=True, slots=True)
class Blame:
    """How an exception is recorded."""

    issue: Issue
    permanent: bool
    retry_after_s: float | None


def blame(phase: Phase, error: BaseException) -> Blame:
    """The issue for an exception that ended `phase`."""
    if isinstance(error, DeadlineReached):
        code = f"{phase.value}_timeout"
        issue = Issue(_severity(phase, None), phase, _DEFAULT_CAUSE[phase], code, str(error))
        return Blame(issue, False, None)
    cause, code, permanent, retry_after = (
        _DEFAULT_CAUSE[phase],
        f"{phase.value}_failed",
        False,
        None,
    )
    if isinstance(error, Fault):
        cause, code = type(error).cause, error.fault_code
        permanent, retry_after = error.permanent, error.retry_after_s
    message = str(error) if isinstance(error, ProctorError) else _describe(error)
    severity = _severity(phase, error)
    issue = Issue(severity, phase, cause, code, message, _traceback(error))
    return Blame(issue, permanent, retry_after)


def failed(phase: Phase, error: BaseException) -> PhaseFailed:
    """A PhaseFailed for an exception."""
    found = blame(phase, error)
    return PhaseFailed(found.issue, permanent=found.permanent, retry_after_s=found.retry_after_s)


def _severity(phase: Phase, error: BaseException | None) -> Severity:
    if phase is Phase.CLEANUP or phase is Phase.ANALYSE:
        return Severity.WARNING
    if phase is Phase.EVALUATE:
        lost = isinstance(error, Fault) and type(error).cause is Cause.ENVIRONMENT
        return Severity.FATAL if lost else Severity.ERROR
    spent = isinstance(error, Fault) and type(error).cause is Cause.BUDGET
    return Severity.ERROR if spent else Severity.FATAL


def _describe(error: BaseException) -> str:
    text = str(error)
    name = type(error).__name__
    return f"{name}: {text}" if text else name


def _traceback(error: BaseException) -> str:
    text = "".join(traceback.format_exception(error))
    if len(text) > TRACEBACK_LIMIT_CHARS:
        half = TRACEBACK_LIMIT_CHARS // 2
        text = f"{text[:half]}\n… cut …\n{text[-half:]}"
    return text
