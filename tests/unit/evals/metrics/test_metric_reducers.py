"""Estimators of one task, and which of them a plan reports."""

from fractions import Fraction

import pytest

from proctor.evals.contracts.plan import AttemptPlan
from proctor.evals.metrics.contract import Kind, MetricSpec
from proctor.evals.metrics.reducers import (
    ReducerFamily,
    Sample,
    Value,
    pass_at,
    pass_hat,
    resolve,
    sizes,
)

BINARY = MetricSpec("passed")
SCALAR = MetricSpec("score", Kind.SCALAR)


def reduced(spec: MetricSpec, plan: AttemptPlan, sample: Sample) -> dict[str, Value]:
    return {r.name: r.reduce(sample) for r in resolve(spec, plan)}


def names(spec: MetricSpec, k: int, strategy: str = "avg", **options: bool) -> list[str]:
    return [r.name for r in resolve(spec, AttemptPlan(k, strategy), **options)]


# --- B08: pass@k exists only for n >= k


@pytest.mark.parametrize(("n", "c", "size"), [(2, 0, 5), (2, 1, 5), (2, 2, 5), (0, 0, 1)])
def test_b08_fewer_observations_than_the_size_are_unavailable(n: int, c: int, size: int) -> None:
    assert pass_at(n, c, size) is None
    assert pass_hat(n, c, size) is None


def test_b08_known_values() -> None:
    assert pass_at(5, 2, 3) == Fraction(9, 10)
    assert float(pass_at(5, 2, 3) or 0) == 0.9
    assert pass_at(10, 0, 5) == 0
    assert pass_at(10, 10, 1) == 1
    assert pass_hat(5, 2, 2) == Fraction(1, 10)
    assert pass_hat(5, 2, 3) == 0


def test_b08_n_is_the_attempts_of_the_task_never_the_number_of_tasks() -> None:
    sample = Sample((0.0, 0.0, 0.0, 0.0, 1.0), 5)
    assert reduced(BINARY, AttemptPlan(5), sample)["pass@1"] == Fraction(1, 5)


@pytest.mark.parametrize("values", [(), (0.0, 0.0), (0.0, 1.0)])
def test_b08_a_short_sample_feeds_no_estimator_and_says_its_n(values: tuple[float, ...]) -> None:
    sample = Sample(values, 5)
    for reducer in resolve(BINARY, AttemptPlan(5)):
        if reducer.family.id != "solved":
            assert reducer.reduce(sample) is None
            assert f"n={len(values)} of 5" in (reducer.why_unavailable(sample) or "")


def test_b08_an_early_stop_is_solved_and_feeds_no_unbiased_estimator() -> None:
    sample = Sample((1.0,), 3, ended_early=True)
    assert reduced(BINARY, AttemptPlan(3, "pass"), sample) == {"solved@3": 1}
    everything = reduced(BINARY, AttemptPlan(3), sample)
    assert everything.pop("solved@3") == 1
    assert set(everything.values()) == {None}


def test_an_early_stop_is_no_full_sample_whatever_its_size() -> None:
    sample = Sample((0.0, 1.0), 2, ended_early=True)
    avg = resolve(BINARY, AttemptPlan(2))[0]
    assert avg.why_unavailable(sample) == "avg@2 needs all 2 observations; n=2 of 2, ended early"


@pytest.mark.parametrize(("n", "c", "size"), [(2, 3, 1), (2, -1, 1), (2, 1, 0)])
def test_impossible_counts_are_refused(n: int, c: int, size: int) -> None:
    for estimate in (pass_at, pass_hat):
        with pytest.raises(ValueError, match="0 <= c <= n"):
            estimate(n, c, size)


def test_large_samples_are_exact() -> None:
    # 1 - (1 - 1/1000) for one success in a thousand: floating products lose digits here.
    assert pass_at(1000, 1, 500) == Fraction(1, 2)
    assert pass_hat(1000, 999, 500) == Fraction(1, 2)


# --- values of full and incomplete samples


def test_solved_needs_one_valid_success_or_all_valid_failures() -> None:
    solved = resolve(BINARY, AttemptPlan(3, "pass"))[0]
    assert solved.reduce(Sample((1.0,), 3)) == 1
    assert solved.reduce(Sample((0.0, 0.0, 1.0), 3)) == 1
    assert solved.reduce(Sample((0.0, 0.0, 0.0), 3)) == 0
    assert solved.reduce(Sample((0.0, 0.0), 3)) is None
    assert solved.reduce(Sample((), 3)) is None
    said = solved.why_unavailable(Sample((0.0, 0.0), 3))
    assert said == "solved@3 needs one valid success or 3 valid failures; n=2 of 3"
    assert solved.why_unavailable(Sample((1.0,), 3)) is None


def test_average_of_scalars_is_exact() -> None:
    avg = resolve(SCALAR, AttemptPlan(3))[0]
    tenth = Fraction(0.1)
    assert avg.reduce(Sample((0.1, 0.1, 0.1), 3)) == tenth
    assert avg.reduce(Sample((0.1, 0.1), 3)) is None


def test_one_attempt() -> None:
    assert reduced(BINARY, AttemptPlan(1), Sample((1.0,), 1)) == {
        "avg@1": 1, "pass@1": 1, "solved@1": 1,
    }  # fmt: skip
    unavailable = resolve(BINARY, AttemptPlan(1))[0].why_unavailable(Sample((), 1))
    assert unavailable == "avg@1 needs its observation; n=0 of 1"


# --- which reducers a plan reports


def test_reducers_of_the_strategy_that_completes_all() -> None:
    assert names(BINARY, 1) == ["avg@1", "pass@1", "solved@1"]
    assert names(BINARY, 3) == [
        "avg@3", "pass@1", "pass@2", "pass@3", "pass^2", "pass^3", "solved@3",
    ]  # fmt: skip
    assert names(SCALAR, 3) == ["avg@3"]


def test_reducers_of_the_strategy_that_stops_at_success() -> None:
    assert names(BINARY, 3, "pass") == ["solved@3"]
    assert names(BINARY, 1, "pass") == ["solved@1"]
    assert names(SCALAR, 3, "pass") == ["avg@3"]


def test_another_strategy_says_itself_whether_it_truncates() -> None:
    assert names(BINARY, 2, "until-stable")[0] == "avg@2"
    assert names(BINARY, 2, "until-stable", truncates=True) == ["solved@2"]
    assert names(BINARY, 2, "pass", truncates=False)[0] == "avg@2"


def test_a_metric_may_allow_less() -> None:
    assert names(MetricSpec("m", reducers=("pass_at",)), 2) == ["pass@1", "pass@2"]
    assert names(MetricSpec("m", reducers=("solved", "avg")), 2) == ["avg@2", "solved@2"]
    assert names(MetricSpec("m", reducers=("avg",)), 2, "pass") == []


def test_sizes_are_dense_up_to_ten_then_sparse() -> None:
    assert sizes(1) == (1,)
    assert sizes(10) == tuple(range(1, 11))
    assert sizes(11) == (1, 2, 5, 10, 11)
    assert sizes(100) == (1, 2, 5, 10, 20, 50, 100)
    assert sizes(1024) == (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 1024)


def test_a_family_of_ones_own() -> None:
    class Worst(ReducerFamily):
        """The smallest of all observations."""

        id = "worst"

        def sizes(self, k: int) -> tuple[int, ...]:
            return (k,)

        def name(self, size: int) -> str:
            return f"worst@{size}"

        def reduce(self, sample: Sample, size: int) -> Value:
            return sample.values[0] if sample.full else None

    (worst,) = resolve(BINARY, AttemptPlan(2), families=[Worst()])
    assert worst.name == "worst@2"
    assert resolve(BINARY, AttemptPlan(2, "pass"), families=[Worst()]) == ()
    assert resolve(SCALAR, AttemptPlan(2), families=[Worst()]) == ()
    narrow = MetricSpec("m", reducers=("avg",))
    assert resolve(narrow, AttemptPlan(2), families=[Worst()]) == ()
    assert worst.reduce(Sample((0.0, 1.0), 2)) == 0.0
