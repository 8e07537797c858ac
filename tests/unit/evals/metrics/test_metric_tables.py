"""The Markdown of a report."""

from proctor.evals.contracts.plan import AttemptPlan
from proctor.evals.metrics.contract import MetricContract, MetricSpec
from proctor.evals.metrics.observations import TaskObservations
from proctor.evals.metrics.report import build_report
from proctor.evals.metrics.table import metric_tables

CONTRACT = MetricContract((MetricSpec("passed"),), "passed")


def one(name: str, value: float | None, **rest: str) -> TaskObservations:
    attempts = {} if value is None else {1: {"passed": value}}
    return TaskObservations(name, attempts=attempts, **rest)  # type: ignore[arg-type]


def tables(*tasks: TaskObservations) -> list[str]:
    text = metric_tables(build_report(CONTRACT, AttemptPlan(), tasks))
    assert text.endswith("|\n")
    return text.splitlines()


def test_a_whole_report() -> None:
    assert tables(one("a", 1.0), one("b", 0.0), one("c", 0.0)) == [
        "| metric | reducer | value | reference | 95 % interval | tasks | evaluated | unavailable "
        "| invalidated | errors |",
        "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
        "| passed | avg@1 | 0.333333 | 0.333333 | 0.0614919 to 0.79234 | 3 | 3 | 0 | 0 | 0 |",
        "| passed | pass@1 | 0.333333 | 0.333333 | 0.0614919 to 0.79234 | 3 | 3 | 0 | 0 | 0 |",
        "| passed | solved@1 | 0.333333 | 0.333333 | 0.0614919 to 0.79234 | 3 | 3 | 0 | 0 | 0 |",
    ]


def test_a_partial_value_is_never_without_its_coverage() -> None:
    lines = tables(one("a", 1.0), one("b", None))
    assert lines[0] == "**Partial**: 1 of 2 tasks are evaluated for passed avg@1."
    assert "| passed | avg@1 | 1 (partial) | 1 | 0.206549 to 1 | 2 | 1 | 1 | 0 | 0 |" in lines


def test_a_failed_evaluation_shows_no_official_value() -> None:
    lines = tables(one("a", 1.0), one("b", None, state="fatal"))
    assert lines[0].startswith("**Evaluation failed**: 1 of 2 tasks ended fatal")
    assert "| passed | avg@1 | – | 1 | 0.206549 to 1 | 2 | 1 | 0 | 1 | 0 |" in lines


def test_nothing_evaluated() -> None:
    assert "| passed | avg@1 | – | – | – | 1 | 0 | 1 | 0 | 0 |" in tables(one("a", None))


def test_names_stay_in_their_cell() -> None:
    lines = tables(one("a", 1.0, category="x | y\n# **z** <script>"))
    assert "Per category, passed · avg@1:" in lines
    assert lines[-1].startswith("| x \\| y \\# \\*\\*z\\*\\* \\<script\\> | 1 | 1 |")
