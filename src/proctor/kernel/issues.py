"""Recorded faults: what happened, where, and who is to blame."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class Severity(StrEnum):
    """How much of the attempt an issue takes away."""

    FATAL = "fatal"
    """Invalidates every metric of the task."""
    ERROR = "error"
    """The attempt is imperfect; observations it has stay valid."""
    WARNING = "warning"
    """Worth knowing; the task is still normal."""


class Phase(StrEnum):
    """Where in an attempt's life something happened."""

    PLAN = "plan"
    OPEN = "open"
    PREPARE = "prepare"
    RUN = "run"
    COLLECT = "collect"
    EVALUATE = "evaluate"
    ANALYSE = "analyse"
    CLEANUP = "cleanup"


class Cause(StrEnum):
    """Who is responsible, taken from where the fault was raised."""

    MODEL_PROVIDER = "model_provider"
    AGENT = "agent"
    ENVIRONMENT = "environment"
    BENCHMARK = "benchmark"
    EVALUATOR = "evaluator"
    JUDGE = "judge"
    RUNTIME = "runtime"
    CANCELLED = "cancelled"
    BUDGET = "budget"


_RANK = {Severity.WARNING: 0, Severity.ERROR: 1, Severity.FATAL: 2}


@dataclass(frozen=True, slots=True)
class Issue:
    """One recorded fault of an attempt. `code` is a stable snake_case word for machines."""

    severity: Severity
    phase: Phase
    cause: Cause
    code: str
    message: str
    traceback: str | None = None

    def to_json(self) -> dict[str, Any]:
        out: dict[str, Any] = {
            "severity": self.severity.value,
            "phase": self.phase.value,
            "cause": self.cause.value,
            "code": self.code,
            "message": self.message,
        }
        if self.traceback is not None:
            out["traceback"] = self.traceback
        return out

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "Issue":
        return cls(
            Severity(data["severity"]),
            Phase(data["phase"]),
            Cause(data["cause"]),
            str(data["code"]),
            str(data["message"]),
            data.get("traceback"),
        )


def highest(issues: Iterable[Issue]) -> Severity | None:
    """The highest severity among `issues`, or None when there are none."""
    return max((i.severity for i in issues), key=_RANK.__getitem__, default=None)
