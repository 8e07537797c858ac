"""What a run of one attempt yields, and what grading it yields."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from proctor.evals.contracts.task import PreparedTask
from proctor.kernel.issues import Issue
from proctor.kernel.jsontext import JsonValue
from proctor.models.contract import Usage


@dataclass(frozen=True, slots=True)
class Artifact:
    """A file kept as evidence: path relative to the attempt's `artifacts/`, size, digest."""

    path: str
    size_bytes: int
    sha256: str

    def to_json(self) -> dict[str, Any]:
        return {"path": self.path, "size": self.size_bytes, "sha256": self.sha256}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "Artifact":
        return cls(str(data["path"]), int(data["size"]), str(data["sha256"]))


@dataclass(frozen=True, slots=True)
class RunResult:
    """The raw outcome of one execution; never scored during inference.

    `final_answer` None means there is no answer (unavailable); the empty text is an answer.
    `error` is a non-empty text when the agent itself reports failure (it may be retried by
    pattern). `exit_code` is the agent program's. `telemetry` is harness diagnostics.
    """

    final_answer: JsonValue = None
    error: str | None = None
    exit_code: int | None = None
    timed_out: bool = False
    usage: Usage = Usage()
    telemetry: Mapping[str, Any] = field(default_factory=dict)
    issues: tuple[Issue, ...] = ()
    artifacts: tuple[Artifact, ...] = ()
    trajectory: str | None = None

    def to_json(self) -> dict[str, Any]:
        return {
            "final_answer": self.final_answer,
            "error": self.error,
            "exit_code": self.exit_code,
            "timed_out": self.timed_out,
            "usage": self.usage.to_json(),
            "telemetry": dict(self.telemetry),
            "issues": [i.to_json() for i in self.issues],
            "artifacts": [a.to_json() for a in self.artifacts],
            "trajectory": self.trajectory,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "RunResult":
        return cls(
            final_answer=data["final_answer"],
            error=data["error"],
            exit_code=data["exit_code"],
            timed_out=bool(data["timed_out"]),
            usage=Usage.from_json(data["usage"]),
            telemetry=data["telemetry"],
            issues=tuple(Issue.from_json(i) for i in data["issues"]),
            artifacts=tuple(Artifact.from_json(a) for a in data["artifacts"]),
            trajectory=data["trajectory"],
        )


@dataclass(frozen=True, slots=True)
class Evaluation:
    """The authoritative score of one attempt.

    `metrics` holds raw observations by metric id; the runtime checks them against the contract.
    A metric that could not be measured is left out, with its reason under `unavailable`.
    `evidence` goes to `meta.benchmark`. `next_step` (mode `reuse` only) says that the agent goes
    on with another step in the same environment: then this is no score yet, only its `issues` and
    `artifacts` are kept, and what grading the last step gives counts.
    """

    metrics: Mapping[str, Any] = field(default_factory=dict)
    unavailable: Mapping[str, str] = field(default_factory=dict)
    evidence: Mapping[str, Any] = field(default_factory=dict)
    issues: tuple[Issue, ...] = ()
    artifacts: Mapping[str, Path | bytes] = field(default_factory=dict)
    next_step: PreparedTask | None = None
