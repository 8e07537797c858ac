"""What holds for every report, whatever was observed."""

import itertools
from fractions import Fraction
from random import Random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from proctor.evals.contracts.plan import AttemptPlan
from proctor.evals.metrics.contract import Kind, MetricContract, MetricSpec
from proctor.evals.metrics.observations import TaskObservations, check_observations
from proctor.evals.metrics.reducers import Sample, pass_at, pass_hat, resolve
from proctor.evals.metrics.report import MetricReport, build_report
from proctor.evals.metrics.series import Series
from proctor.evals.metrics.statistics import binomial, exact_mean, wilson
from proctor.kernel import jsontext

CONTRACT = MetricContract(
    (
        MetricSpec("passed"),
        MetricSpec("score", Kind.SCALAR, low=-1.0, high=3.0),
        MetricSpec("cost", Kind.SCALAR, low=0.0, high=float("inf")),
    ),
    "passed",
)

RAW = st.one_of(
    st.sampled_from([0, 1, True, False, 0.5, 2, None, "1", float("nan"), float("inf")]),
    st.floats(min_value=-2, max_value=4),
    st.floats(),
)
ATTEMPT = st.dictionaries(st.sampled_from(["passed", "score", "cost", "other"]), RAW)
STATES = st.sampled_from(["normal", "normal", "normal", "error", "missing", "fatal"])


@st.composite
def runs(draw: Any) -> tuple[AttemptPlan, list[TaskObservations]]:
    plan = AttemptPlan(draw(st.integers(1, 4)), draw(st.sampled_from(["avg", "pass"])))
    tasks = []
    for number in range(draw(st.integers(0, 14))):
        made = draw(st.lists(ATTEMPT, max_size=plan.k))
        attempts = {i: check_observations(CONTRACT, raw)[0] for i, raw in enumerate(made, 1)}
        category = draw(st.sampled_from([None, "a", "b"]))
        tasks.append(
            TaskObservations(f"t{number}", category, draw(STATES), attempts, draw(st.booleans()))
        )
    return plan, tasks


def every(report: MetricReport) -> list[tuple[str, Series]]:
    tables = [report.series, *report.categories.values()]
    return [(metric, s) for table in tables for metric, by in table.items() for s in by.values()]


fixed = settings(max_examples=60)


@fixed
@given(runs())
def test_counts_add_up_and_nothing_missing_becomes_a_number(
    run: tuple[AttemptPlan, list[TaskObservations]],
) -> None:
    plan, tasks = run
    report = build_report(CONTRACT, plan, tasks)
    fatal = sum(task.state == "fatal" for task in tasks)
    assert report.evaluation_failed == (fatal > 0)
    for series in (s for by in report.series.values() for s in by.values()):
        assert series.total == len(tasks)
        assert series.invalidated == fatal
        assert series.error == sum(task.state == "error" for task in tasks)
    for _, series in every(report):
        assert series.evaluated + series.unavailable + series.invalidated == series.total
        assert min(series.evaluated, series.unavailable, series.invalidated, series.error) >= 0
        assert (series.reference_value is None) == (series.evaluated == 0)
        assert series.value == (None if fatal else series.reference_value)
        assert series.partial == (series.evaluated < series.total)


@fixed
@given(runs())
def test_categories_partition_their_tasks(
    run: tuple[AttemptPlan, list[TaskObservations]],
) -> None:
    plan, tasks = run
    report = build_report(CONTRACT, plan, [t for t in tasks if t.category is not None])
    for metric, by_reducer in report.series.items():
        for reducer, overall in by_reducer.items():
            parts = [table[metric][reducer] for table in report.categories.values()]
            for count in ("evaluated", "unavailable", "invalidated", "total", "error"):
                assert getattr(overall, count) == sum(getattr(part, count) for part in parts)


@fixed
@given(runs(), st.randoms(use_true_random=False), st.integers(0, 5))
def test_the_order_of_tasks_and_attempts_changes_nothing(
    run: tuple[AttemptPlan, list[TaskObservations]], shuffler: Random, seed: int
) -> None:
    plan, tasks = run
    first = build_report(CONTRACT, plan, tasks, seed=seed)
    shuffled = [
        TaskObservations(
            t.task_id, t.category, t.state, dict(reversed(t.attempts.items())), t.ended_early
        )
        for t in shuffler.sample(tasks, len(tasks))
    ]
    assert build_report(CONTRACT, plan, shuffled, seed=seed) == first


@fixed
@given(runs())
def test_values_and_intervals_stay_in_the_range_of_the_metric(
    run: tuple[AttemptPlan, list[TaskObservations]],
) -> None:
    plan, tasks = run
    for metric, series in every(build_report(CONTRACT, plan, tasks)):
        spec = CONTRACT.spec(metric)
        if series.reference_value is not None:
            assert spec.low <= series.reference_value <= spec.high
        if series.ci95 is not None:
            assert spec.low <= series.ci95[0] <= series.ci95[1] <= spec.high


@fixed
@given(runs())
def test_a_report_survives_json(run: tuple[AttemptPlan, list[TaskObservations]]) -> None:
    report = build_report(CONTRACT, *run)
    text = jsontext.dumps(report.summary_json())
    assert MetricReport.from_json(jsontext.loads(text)) == report


@fixed
@given(st.lists(st.booleans(), min_size=1, max_size=9), st.data())
def test_estimators_equal_the_mean_over_all_subsets(outcomes: list[bool], data: Any) -> None:
    n, c = len(outcomes), sum(outcomes)
    size = data.draw(st.integers(1, n))
    subsets = list(itertools.combinations(outcomes, size))
    assert pass_at(n, c, size) == Fraction(sum(map(any, subsets)), len(subsets))
    assert pass_hat(n, c, size) == Fraction(sum(map(all, subsets)), len(subsets))


@fixed
@given(st.integers(1, 60), st.data())
def test_pass_at_grows_and_pass_hat_falls_with_the_size(n: int, data: Any) -> None:
    c = data.draw(st.integers(0, n))
    at = [pass_at(n, c, size) for size in range(1, n + 1)]
    hat = [pass_hat(n, c, size) for size in range(1, n + 1)]
    assert at[0] == hat[0] == Fraction(c, n)
    assert at == sorted(at)
    assert hat == sorted(hat, reverse=True)
    assert at[-1] == (c > 0)
    assert hat[-1] == (c == n)


@fixed
@given(st.lists(st.lists(st.booleans(), min_size=3, max_size=3), min_size=1, max_size=12))
def test_full_samples_agree_where_definitions_coincide(table: list[list[bool]]) -> None:
    tasks = [
        TaskObservations(str(i), attempts={a: {"m": float(v)} for a, v in enumerate(row, 1)})
        for i, row in enumerate(table)
    ]
    contract = MetricContract((MetricSpec("m"),), "m")
    series = build_report(contract, AttemptPlan(3), tasks).series["m"]
    attempts = [v for row in table for v in row]
    assert series["avg@3"].value == sum(attempts) / len(attempts) == series["pass@1"].value
    assert series["pass@3"].value == sum(map(any, table)) / len(table) == series["solved@3"].value
    assert series["pass^3"].value == sum(map(all, table)) / len(table)


@fixed
@given(st.integers(1, 5), st.lists(st.sampled_from([0.0, 1.0]), max_size=5), st.booleans())
def test_a_value_or_a_reason(k: int, values: list[float], ended_early: bool) -> None:
    sample = Sample(tuple(sorted(values[:k])), k, ended_early)
    for reducer in resolve(MetricSpec("m"), AttemptPlan(k)):
        assert (reducer.reduce(sample) is None) == (reducer.why_unavailable(sample) is not None)


@fixed
@given(
    st.lists(
        st.tuples(st.floats(allow_nan=False, allow_infinity=False), st.integers(1, 5)), min_size=1
    )
)
def test_means_equal_the_rounded_exact_mean(values: list[tuple[float, int]]) -> None:
    exact = sum(Fraction(v) * count for v, count in values) / sum(count for _, count in values)
    assert exact_mean(values) == float(exact)


@fixed
@given(st.integers(1, 10_000), st.data())
def test_wilson_holds_the_mean(n: int, data: Any) -> None:
    mean = data.draw(st.integers(0, n)) / n
    low, high = wilson(mean, n)
    assert 0 <= low <= mean <= high <= 1


@fixed
@given(st.integers(0, 500), st.integers(1, 50), st.data())
def test_a_binomial_draw_is_repeatable_and_in_range(n: int, bottom: int, data: Any) -> None:
    top = data.draw(st.integers(0, bottom))
    drawn = binomial(Random(n), n, top, bottom)
    assert drawn == binomial(Random(n), n, top, bottom)
    assert (0 if top < bottom else n) <= drawn <= (n if top else 0)
