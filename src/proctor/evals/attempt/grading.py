"""From an evaluation to checked observations."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from proctor.evals.contracts.result import Evaluation
from proctor.evals.metrics.contract import MetricContract
from proctor.evals.metrics.observations import check_observations
from proctor.kernel import jsontext
from proctor.kernel.issues import Cause, Issue, Phase, Severity


@dataclass(frozen=True, slots=True)
class Grade:
    """What an attempt's evaluation is worth. `values` are as given, for the record."""

    observations: Mapping[str, float]
    values: Mapping[str, Any]
    unavailable: Mapping[str, str]
    evidence: Mapping[str, Any]
    issues: tuple[Issue, ...]


def grade(contract: MetricContract, evaluation: Evaluation) -> Grade:
    """Check an evaluation against the contract. A wrong observation is unavailable, with an
    error issue that says why; it never stops the attempt."""
    observations, unavailable = check_observations(
        contract, evaluation.metrics, evaluation.unavailable
    )
    values = {name: evaluation.metrics[name] for name in observations}
    issues = list(evaluation.issues)
    for name, reason in unavailable.items():
        if name in evaluation.metrics and name not in evaluation.unavailable:
            issues.append(_error("invalid_observation", f"metric {name!r}: {reason}"))
    if contract.primary in unavailable and not _explains(issues):
        reason = unavailable[contract.primary]
        issues.append(_error("no_observation", f"metric {contract.primary!r}: {reason}"))
    evidence = jsontext.sanitized(dict(evaluation.evidence))
    return Grade(observations, values, unavailable, evidence, tuple(issues))


def _explains(issues: list[Issue]) -> bool:
    return any(i.severity is not Severity.WARNING for i in issues)


def _error(code: str, message: str) -> Issue:
    return Issue(Severity.ERROR, Phase.EVALUATE, Cause.EVALUATOR, code, message)
