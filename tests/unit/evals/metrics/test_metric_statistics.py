"""Means without rounding error, and intervals against independent figures."""

import sys
from collections.abc import Iterator, Sequence
from fractions import Fraction
from math import comb, sqrt
from random import Random

import pytest

from proctor.evals.metrics.statistics import (
    MAX_RESAMPLES,
    MIN_RESAMPLES,
    Z95,
    binomial,
    bootstrap,
    exact_mean,
    resample_cost,
    resamples,
    wilson,
)


def test_means_are_correctly_rounded() -> None:
    third = Fraction(1, 3)
    assert exact_mean([(third, 1), (2 * third, 1), (Fraction(1), 8)]) == 0.9
    assert exact_mean([(0.1, 10)]) == 0.1
    assert exact_mean([(1e16, 1), (1.0, 1), (-1e16, 1)]) == 1 / 3
    assert exact_mean([(1.0, 2), (0.0, 1)]) == 2 / 3


def test_means_of_the_largest_numbers_do_not_overflow() -> None:
    assert exact_mean([(1.7e308, 20)]) == 1.7e308
    assert exact_mean([(5e-324, 3), (1.7e308, 1)]) == 1.7e308 / 4


@pytest.mark.parametrize(
    ("successes", "n", "low", "high"),
    [  # Newcombe, Statistics in Medicine 17 (1998), table I, the score method
        (81, 263, 0.2553, 0.3662),
        (15, 148, 0.0624, 0.1605),
        (0, 20, 0.0, 0.1611),
        (1, 29, 0.0061, 0.1718),
    ],
)
def test_wilson_against_published_intervals(
    successes: int, n: int, low: float, high: float
) -> None:
    found = wilson(successes / n, n)
    assert found == (pytest.approx(low, abs=5e-5), pytest.approx(high, abs=5e-5))


def test_wilson_solves_the_score_equation() -> None:
    for n in (1, 7, 1_000):
        for c in range(n + 1) if n < 10 else (3, 500, 999):
            for end in wilson(c / n, n):
                if 0 < end < 1:
                    assert abs(end - c / n) == pytest.approx(Z95 * sqrt(end * (1 - end) / n))


def test_wilson_ends_exactly_at_the_edges() -> None:
    for n in (1, 3, 50, 20_000):
        assert wilson(0.0, n)[0] == 0.0
        assert wilson(1.0, n)[1] == 1.0


# --- the binomial sampler, over every outcome of its coins


class _NeedsCoins(Exception):
    def __init__(self, count: int) -> None:
        self.count = count


class _Scripted(Random):
    """Gives prepared bits, then says how many more it would need."""

    def __new__(cls, script: Sequence[int]) -> "_Scripted":
        return super().__new__(cls)

    def __init__(self, script: Sequence[int]) -> None:
        self.script = list(script)

    def getrandbits(self, k: int) -> int:
        if not self.script:
            raise _NeedsCoins(k)
        return self.script.pop(0)


def _outcomes(n: int, top: int, bottom: int) -> Iterator[tuple[int, Fraction]]:
    waiting: list[tuple[list[int], Fraction]] = [([], Fraction(1))]
    while waiting:
        script, chance = waiting.pop()
        try:
            yield binomial(_Scripted(script), n, top, bottom), chance
        except _NeedsCoins as more:
            share = chance / 2**more.count
            waiting += [([*script, bits], share) for bits in range(2**more.count)]


@pytest.mark.parametrize("n", [0, 1, 2, 3])
@pytest.mark.parametrize("top", [0, 1, 3, 4, 7, 8])
def test_the_binomial_sampler_is_exact(n: int, top: int) -> None:
    found = [Fraction(0)] * (n + 1)
    for drawn, chance in _outcomes(n, top, 8):
        found[drawn] += chance
    p = Fraction(top, 8)
    assert found == [comb(n, c) * p**c * (1 - p) ** (n - c) for c in range(n + 1)]


def test_the_binomial_sampler_with_a_chance_that_has_no_end_in_binary() -> None:
    rng, n, draws = Random(5), 6, 20_000
    counts = [0] * (n + 1)
    for _ in range(draws):
        counts[binomial(rng, n, 2, 7)] += 1
    for c, seen in enumerate(counts):
        chance = comb(n, c) * (2 / 7) ** c * (5 / 7) ** (n - c)
        assert abs(seen - draws * chance) < 4.5 * sqrt(draws * chance * (1 - chance))


# --- the bootstrap against its exact distribution


def _distribution(values: Sequence[Fraction], counts: Sequence[int]) -> dict[Fraction, Fraction]:
    """Every resampled mean with its chance, by adding one pick after the other."""
    n = sum(counts)
    sums = {Fraction(0): Fraction(1)}
    for _ in range(n):
        after: dict[Fraction, Fraction] = {}
        for total, chance in sums.items():
            for value, count in zip(values, counts, strict=True):
                grown = total + value
                after[grown] = after.get(grown, Fraction(0)) + chance * Fraction(count, n)
        sums = after
    return {total / n: chance for total, chance in sums.items()}


@pytest.mark.parametrize(
    "counts",
    [(3, 2, 4, 3), (40, 10, 20, 50)],
    ids=["picked task by task", "drawn by groups"],
)
def test_bootstrap_ends_are_the_quantiles_of_the_exact_distribution(counts: list[int]) -> None:
    n = sum(counts)
    assert (resample_cost(n, 4) < n) == (n == 120)
    values = [Fraction(c, 3) for c in range(4)]
    exact = _distribution(values, counts)
    column = [float(v) for v in values]
    ((low, high),) = bootstrap([column], counts, Random(1), MAX_RESAMPLES)
    noise = 4 * sqrt(0.025 * 0.975 / MAX_RESAMPLES)
    for end, share in ((low, 0.025), (high, 0.975)):
        below = sum(p for mean, p in exact.items() if float(mean) < end - 1e-12)
        up_to = sum(p for mean, p in exact.items() if float(mean) < end + 1e-12)
        assert below - noise <= share <= up_to + noise


@pytest.mark.parametrize("counts", [(3, 2, 4, 3), (40, 10, 20, 50)])
def test_columns_share_their_resamples(counts: list[int]) -> None:
    column = [0.0, 0.25, 0.5, 1.0]
    mirrored = [1 - v for v in column]
    first, twin, mirror = bootstrap([column, column, mirrored], counts, Random(2), 400)
    assert first == twin
    assert mirror == (pytest.approx(1 - first[1]), pytest.approx(1 - first[0]))


THIRDS = [0.0, 1 / 3, 2 / 3, 1.0]
TENTHS = [i / 10 for i in range(30)]
SQUARES = [v * v for v in TENTHS]


@pytest.mark.parametrize(
    ("columns", "counts", "expected"),
    [
        ([THIRDS], [900, 30, 30, 40], [(0.05533333333333333, 0.08499999999999999)]),
        ([TENTHS], [1] * 30, [(1.11, 1.78)]),
        ([TENTHS, SQUARES], [1] * 30, [(1.11, 1.78), (1.8203333333333334, 3.85)]),
    ],
    ids=["by groups", "by tasks", "by tasks, two columns"],
)
def test_bootstrap_gives_the_same_floats_on_every_python(
    columns: list[list[float]], counts: list[int], expected: list[tuple[float, float]]
) -> None:
    assert bootstrap(columns, counts, Random(5), 400) == expected


@pytest.mark.parametrize("largest", [1.7e308, sys.float_info.max])
@pytest.mark.parametrize("counts", [(10, 10), (3, 6), (400, 600)])
def test_bootstrap_of_the_largest_numbers_stays_finite(largest: float, counts: list[int]) -> None:
    ((low, high),) = bootstrap([[-largest, largest]], counts, Random(3), 200)
    assert -largest <= low < high <= largest
    assert bootstrap([[largest] * 2], counts, Random(3), 200) == [(largest, largest)]


@pytest.mark.parametrize("value", [0.1, 0.7, 1 / 3, 1.0, 4.1])
@pytest.mark.parametrize("counts", [(3, 4, 6), (30, 40, 65)])
def test_rounding_does_not_leave_the_range_of_the_values(value: float, counts: list[int]) -> None:
    assert bootstrap([[value] * 3], counts, Random(4), 200) == [(value, value)]


def test_the_number_of_resamples_falls_with_the_work() -> None:
    assert resamples(0) == resamples(500) == MAX_RESAMPLES == 2_000
    assert resamples(1_000) == 1_000
    assert resamples(5_000) == resamples(10**9) == MIN_RESAMPLES == 200
    assert resample_cost(20_000, 4) < 500 < resample_cost(20_000, 20_000)


def test_intervals_over_tasks_cover_the_truth_about_as_often_as_they_say() -> None:
    """Half of the tasks are easy and half hard, so the attempts of a task resemble each other;
    an interval over 120 independent attempts would hold the truth in fewer than 9 of 10 runs."""
    rng, tasks, k, runs = Random(11), 40, 3, 400
    over_tasks = over_attempts = 0
    for _ in range(runs):
        chances = [rng.choice((0.05, 0.95)) for _ in range(tasks)]
        counts = [0] * (k + 1)
        for p in chances:
            counts[sum(rng.random() < p for _ in range(k))] += 1
        column = [c / k for c in range(k + 1)]
        ((low, high),) = bootstrap([column], counts, rng, 400)
        over_tasks += low <= 0.5 <= high
        successes = sum(c * count for c, count in enumerate(counts))
        low, high = wilson(successes / (tasks * k), tasks * k)
        over_attempts += low <= 0.5 <= high
    assert 0.91 <= over_tasks / runs <= 0.98
    assert over_attempts / runs < 0.85
