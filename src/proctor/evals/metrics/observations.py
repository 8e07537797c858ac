"""What was observed of one task, and turning raw scores into observations."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from proctor.evals.metrics.contract import MetricContract, observe

TaskState: TypeAlias = Literal["normal", "error", "fatal", "missing"]
"""`normal`, `error` and `fatal` are the task's highest severity (a warning is normal);
`missing` is a selected task that did not end: it has no record, or only some."""


@dataclass(frozen=True, slots=True)
class TaskObservations:
    """The valid observations of one selected task, by attempt index (from 1) and metric id.

    An attempt without a valid observation of a metric lacks that metric; nothing stands for it.
    Observations of a `missing` task count as far as they go, those of a `fatal` one never do.
    `ended_early` says that the strategy stopped the task before its last attempt; such a sample
    feeds no unbiased estimator. A success at the last attempt does not end a task early.
    """

    task_id: str
    category: str | None = None
    state: TaskState = "normal"
    attempts: Mapping[int, Mapping[str, float]] = field(default_factory=dict)
    ended_early: bool = False


def check_observations(
    contract: MetricContract, raw: Any, unavailable: Mapping[str, str] | None = None
) -> tuple[dict[str, float], dict[str, str]]:
    """Split the raw scores of one attempt into valid observations and reasons, by metric id.

    Every declared metric is in exactly one of the two. A metric named in `unavailable` (metric
    id → reason, as the benchmark gave them) is not observed, whatever `raw` says. An undeclared
    metric gets a reason. Never raises, whatever a plug-in returned.
    """
    given: Mapping[Any, Any] = raw if isinstance(raw, Mapping) else {}
    absent = (
        "the evaluation gave no value"
        if given is raw
        else f"the evaluation's metrics are a {type(raw).__name__}, expected a mapping"
    )
    stated = unavailable or {}
    valid: dict[str, float] = {}
    reasons: dict[str, str] = {}
    for spec in contract.metrics:
        if spec.id in stated:
            reasons[spec.id] = str(stated[spec.id]) or "no reason was given"
        elif spec.id not in given:
            reasons[spec.id] = absent
        elif isinstance(found := observe(spec, given[spec.id]), str):
            reasons[spec.id] = found
        else:
            valid[spec.id] = found
    for name in given:
        if name not in valid and name not in reasons:
            declared = ", ".join(spec.id for spec in contract.metrics)
            reasons[str(name)] = f"not declared by the metric contract (declared: {declared})"
    return valid, reasons
