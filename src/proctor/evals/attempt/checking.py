"""What plug-ins hand back is checked where it arrives, so that no record fails to be written."""

from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any

from proctor.evals.contracts.result import Artifact, Evaluation, RunResult
from proctor.evals.contracts.task import PreparedTask, TaskSpec
from proctor.kernel import jsontext
from proctor.kernel.errors import AgentFault, BenchmarkFault, EvaluatorFault
from proctor.kernel.issues import Cause, Issue, Phase, Severity
from proctor.models.contract import Usage


def checked_prepared(value: Any, task: TaskSpec) -> PreparedTask:
    """A prepared task that a run record can hold. Raises BenchmarkFault."""
    if not isinstance(value, PreparedTask):
        raise BenchmarkFault(f"prepare_task returned {type(value).__name__}, not PreparedTask")
    if value.input is not task.input:
        _storable("the prepared input", value.input, BenchmarkFault)
    if value.state:
        _storable("the prepared state", value.state, BenchmarkFault)
    return value


def checked_result(value: Any) -> RunResult:
    """A run result that a record can hold. Raises AgentFault."""
    if not isinstance(value, RunResult):
        raise AgentFault(f"the harness returned {type(value).__name__}, not RunResult")
    _storable("the final answer", value.final_answer, AgentFault)
    problem = (
        _wrong("error", value.error, str | None)
        or _wrong("exit_code", value.exit_code, int | None)
        or _wrong("trajectory", value.trajectory, str | None)
        or _wrong_usage(value.usage)
        or _wrong("telemetry", value.telemetry, Mapping)
        or _wrong_issues(value.issues)
        or _wrong_items("artifacts", value.artifacts, Artifact)
    )
    if problem:
        raise AgentFault(f"the harness returned a RunResult whose {problem}")
    return value


def checked_evaluation(value: Any) -> Evaluation:
    """An evaluation that a record can hold; its metrics are checked against the contract later.
    Raises EvaluatorFault."""
    if not isinstance(value, Evaluation):
        raise EvaluatorFault(
            f"evaluate returned {type(value).__name__}, not Evaluation", permanent=True
        )
    problem = (
        _wrong("unavailable", value.unavailable, Mapping)
        or _wrong("evidence", value.evidence, Mapping)
        or _wrong("artifacts", value.artifacts, Mapping)
        or _wrong_issues(value.issues)
        or _wrong("next_step", value.next_step, PreparedTask | None)
    )
    if problem:
        raise EvaluatorFault(f"evaluate returned an Evaluation whose {problem}", permanent=True)
    return value


def _storable(what: str, value: Any, fault: type[AgentFault] | type[BenchmarkFault]) -> None:
    if value is None or type(value) is str:
        return
    try:
        jsontext.dumps(value)
    except jsontext.JsonError as error:
        raise fault(f"{what} cannot be stored as JSON: {error}") from None


def _wrong(name: str, value: Any, wanted: Any) -> str | None:
    if isinstance(value, wanted):
        return None
    return f"{name} is {type(value).__name__}, not {getattr(wanted, '__name__', wanted)}"


def _wrong_usage(usage: Any) -> str | None:
    if not isinstance(usage, Usage):
        return _wrong("usage", usage, Usage)
    cost = usage.cost_usd
    if cost is not None and not (isinstance(cost, Decimal) and cost.is_finite()):
        return f"cost is {cost!r}, not a finite Decimal"
    for name, count in usage.to_json().items():
        if name != "cost_usd" and type(count) is not int:
            return f"usage counts {count!r} {name}, not a whole number"
    return None


def _wrong_items(name: str, values: Any, wanted: type[Any]) -> str | None:
    if not isinstance(values, Iterable):
        return f"{name} is {type(values).__name__}, not a tuple of {wanted.__name__}"
    return next((_wrong(f"{name} hold a value that", v, wanted) for v in values
                 if not isinstance(v, wanted)), None)  # fmt: skip


def _wrong_issues(issues: Any) -> str | None:
    if problem := _wrong_items("issues", issues, Issue):
        return problem
    for issue in issues:
        kinds = (issue.severity, Severity), (issue.phase, Phase), (issue.cause, Cause)
        texts = (issue.code, str), (issue.message, str), (issue.traceback, str | None)
        for value, wanted in (*kinds, *texts):
            if problem := _wrong("issues hold a value that", value, wanted):
                return problem
    return None
