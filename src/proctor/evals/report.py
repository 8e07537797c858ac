"""What a run returns: counts, metrics, usage, and where the evidence is."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from proctor.evals.metrics.report import MetricReport
from proctor.models.contract import Usage

COMPLETED = "completed"


@dataclass(frozen=True, slots=True)
class Counts:
    """Numbers of tasks, except the last two, which are of attempts.

    `unfinished` tasks were selected and have no final state: interrupted, or never started.
    """

    tasks: int
    normal: int
    error: int
    fatal: int
    interrupted: int
    attempts: int
    reused_attempts: int

    def to_json(self) -> dict[str, int]:
        return {name: getattr(self, name) for name in self.__dataclass_fields__}


@dataclass(frozen=True, slots=True)
class RunReport:
    """The result of a whole request. `status`: completed, failed, interrupted, timed_out."""

    name: str
    run_dir: str
    status: str
    counts: Counts
    metrics: MetricReport
    usage: Usage
    wall_s: float
    error: str | None = None
    issue_codes: Mapping[str, int] = field(default_factory=dict)
    signal: int | None = None
    abandoned_threads: int = 0
    """Blocking calls that overran their limit and still ran at the end."""

    @property
    def exit_code(self) -> int:
        """0 every selected task has a valid primary observation; 1 finished without; 3 the run
        timed out or could not go on; 130 SIGINT; 143 SIGTERM."""
        if self.status == COMPLETED:
            return 0 if self.metrics.complete and not self.metrics.evaluation_failed else 1
        if self.status == "interrupted":
            return 128 + (self.signal or 2)
        return 3

    def to_json(self) -> dict[str, Any]:
        """This run's entry of `runs` in the `--json` document."""
        out: dict[str, Any] = {
            "name": self.name,
            "run_dir": self.run_dir,
            "status": self.status,
            "counts": self.counts.to_json(),
            "primary": self.metrics.primary.to_json(),
            "metrics": self.metrics.to_json(),
            "usage": {**self.usage.to_json(), "wall_s": round(self.wall_s, 3)},
        }
        if self.error is not None:
            out["error"] = self.error
        if self.abandoned_threads:
            out["abandoned_threads"] = self.abandoned_threads
        return out


def document(runs: list[RunReport]) -> dict[str, Any]:
    """The `--json` document of run, resume and launch."""
    statuses = [run.status for run in runs]
    status = statuses[0] if len(statuses) == 1 else _joint(statuses)
    return {"status": status, "runs": [run.to_json() for run in runs]}


def _joint(statuses: list[str]) -> str:
    for status in ("interrupted", "timed_out"):
        if status in statuses:
            return status
    return COMPLETED if COMPLETED in statuses else "failed"
