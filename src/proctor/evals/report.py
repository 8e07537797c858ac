"""What a run returns: counts, metrics, usage, and where the evidence is."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from proctor.evals.contracts.plan import AttemptPlan
from proctor.evals.metrics.report import MetricReport, Primary
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
            "primary": self.metrics.primary.to_json() if self.metrics.series else None,
            "metrics": self.metrics.to_json(),
            "usage": {**self.usage.to_json(), "wall_s": round(self.wall_s, 3)},
        }
        if self.error is not None:
            out["error"] = self.error
        if self.abandoned_threads:
            out["abandoned_threads"] = self.abandoned_threads
        return out


def unprepared(
    name: str, run_dir: str, status: str, error: str | None, signum: int | None = None
) -> RunReport:
    """The report of a request that never had its tasks."""
    metrics = MetricReport(AttemptPlan(), Primary("", "", None), False, {}, {})
    counts = Counts(0, 0, 0, 0, 0, 0, 0)
    return RunReport(name, run_dir, status, counts, metrics, Usage(), 0.0, error, {}, signum)


def document(runs: Sequence[RunReport]) -> dict[str, Any]:
    """The `--json` document of run, resume and launch."""
    return {"status": joint_status([r.status for r in runs]), "runs": [r.to_json() for r in runs]}


def joint_status(statuses: Sequence[str]) -> str:
    """The status of a launch: interrupted and timed out win; one request that failed leaves it
    completed unless all did."""
    for status in ("interrupted", "timed_out"):
        if status in statuses:
            return status
    return COMPLETED if COMPLETED in statuses else "failed"


def exit_code(runs: Sequence[RunReport]) -> int:
    """The exit code of a launch (see RunReport.exit_code for one run)."""
    status = joint_status([run.status for run in runs])
    if status == COMPLETED:
        return 0 if all(run.exit_code == 0 for run in runs) else 1
    if status == "interrupted":
        return max(run.exit_code for run in runs if run.status == "interrupted")
    return 3
