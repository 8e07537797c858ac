"""Which raw scores are observations, and what is said of those that are not."""

import sys
import tracemalloc
from decimal import Decimal
from fractions import Fraction

import pytest

from proctor.evals.metrics.contract import Kind, MetricContract, MetricSpec, observe
from proctor.evals.metrics.observations import TaskObservations, check_observations
from proctor.kernel.errors import BrokenComponent

BINARY = MetricSpec("passed")
SCALAR = MetricSpec("score", Kind.SCALAR, low=-1.0, high=1.0)
UNBOUNDED = MetricSpec("cost", Kind.SCALAR, low=0.0, high=float("inf"))
CONTRACT = MetricContract((BINARY, SCALAR), "passed")


@pytest.mark.parametrize(
    ("spec", "raw", "expected"),
    [
        (BINARY, True, 1.0),
        (BINARY, False, 0.0),
        (BINARY, 1, 1.0),
        (BINARY, 0.0, 0.0),
        (SCALAR, -1, -1.0),
        (SCALAR, 0.25, 0.25),
        (SCALAR, 1, 1.0),
        (UNBOUNDED, 1.7e308, 1.7e308),
    ],
)
def test_observations_become_floats(spec: MetricSpec, raw: object, expected: float) -> None:
    found = observe(spec, raw)
    assert found == expected
    assert type(found) is float


def test_negative_zero_is_zero() -> None:
    assert str(observe(SCALAR, -0.0)) == "0.0"


@pytest.mark.parametrize(
    ("spec", "raw", "says"),
    [
        (BINARY, 0.5, "got 0.5, expected true/false or 0/1"),
        (BINARY, 0.9999999999999999, "got 0.9999999999999999"),
        (BINARY, 2, "got 2.0"),
        (BINARY, "yes", "got 'yes' (str), expected true/false or 0/1"),
        (BINARY, None, "NoneType"),
        (BINARY, [1], "list"),
        (BINARY, Decimal(1), "Decimal"),
        (BINARY, float("nan"), "got nan, expected a finite number"),
        (SCALAR, float("inf"), "got inf, expected a finite number"),
        (UNBOUNDED, float("inf"), "got inf, expected a finite number"),
        (SCALAR, float("-inf"), "finite"),
        (SCALAR, 10**400, "too large"),
        (SCALAR, 1.5, "got 1.5, expected a number from -1 to 1"),
        (SCALAR, True, "bool"),
        (SCALAR, Fraction(1, 2), "Fraction"),
        (SCALAR, 1j, "complex"),
    ],
)
def test_anything_else_has_a_reason(spec: MetricSpec, raw: object, says: str) -> None:
    found = observe(spec, raw)
    assert isinstance(found, str)
    assert says in found


def test_a_value_that_cannot_be_shown_has_a_reason_too() -> None:
    class Hostile:
        def __repr__(self) -> str:
            raise RuntimeError("no")

    found = observe(BINARY, Hostile())
    assert isinstance(found, str)
    assert "cannot be shown (RuntimeError)" in found


def test_a_long_value_is_cut() -> None:
    found = observe(BINARY, "x" * 100_000)
    assert isinstance(found, str)
    assert len(found) < 200


def test_raw_scores_are_split_into_observations_and_reasons() -> None:
    valid, reasons = check_observations(CONTRACT, {"passed": True, "score": "high", "extra": 1})
    assert valid == {"passed": 1.0}
    assert reasons == {
        "score": "got 'high' (str), expected a number from -1 to 1",
        "extra": "not declared by the metric contract (declared: passed, score)",
    }


def test_what_is_left_out_has_a_reason() -> None:
    valid, reasons = check_observations(CONTRACT, {}, {"passed": "the judge's reply was cut"})
    assert valid == {}
    assert reasons == {
        "passed": "the judge's reply was cut",
        "score": "the evaluation gave no value",
    }


def test_a_stated_reason_wins_over_a_value() -> None:
    valid, reasons = check_observations(CONTRACT, {"passed": 1, "score": 0}, {"passed": ""})
    assert valid == {"score": 0.0}
    assert reasons == {"passed": "no reason was given"}


@pytest.mark.parametrize("raw", [None, [("passed", 1)], "passed", 3])
def test_scores_that_are_no_mapping_are_all_unavailable(raw: object) -> None:
    valid, reasons = check_observations(CONTRACT, raw)
    assert valid == {}
    assert set(reasons) == {"passed", "score"}
    assert type(raw).__name__ in reasons["passed"]


def test_a_kind_given_as_text_is_refused() -> None:
    contract = MetricContract((MetricSpec("m", kind="binary"),), "m")  # type: ignore[arg-type]
    with pytest.raises(BrokenComponent, match=r"kind 'binary' is not Kind\.BINARY"):
        contract.check()


def test_a_trivial_task_is_small() -> None:
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        tasks = [
            TaskObservations(f"task-{i:05}", attempts={1: {"passed": float(i % 2)}})
            for i in range(2_000)
        ]
        size = tracemalloc.get_traced_memory()[0] - before - sys.getsizeof(tasks)
    finally:
        tracemalloc.stop()
    assert size / len(tasks) <= 600
