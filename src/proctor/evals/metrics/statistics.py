"""Exact means and 95 % intervals, with the task as the unit of sampling.

Sources: E. B. Wilson, "Probable inference, the law of succession, and statistical inference",
JASA 22 (1927); B. Efron and R. Tibshirani, "An Introduction to the Bootstrap" (1993), chapter 13
(percentile interval); R. Bhatia and C. Davis, "A better bound on the variance", Amer. Math.
Monthly 107 (2000); L. Devroye, "Non-Uniform Random Variate Generation" (1986), section X.4.
"""

from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from math import fsum, lcm, sqrt
from operator import mul
from random import Random
from typing import TypeAlias

Number: TypeAlias = float | Fraction
Interval: TypeAlias = tuple[float, float]

Z95 = 1.959963984540054
"""The 97.5 % point of the standard normal distribution."""

MIN_BOOTSTRAP_TASKS = 8
"""Below this the percentile interval is much too narrow and is not used."""

MIN_RESAMPLES = 200
MAX_RESAMPLES = 2_000
WORK = 1_000_000
"""How many single picks all resamples of a report level may take, before MIN_RESAMPLES."""


def exact_sum(values: Iterable[tuple[Number, int]]) -> tuple[int, int]:
    """The sum of value × count as a ratio of integers, without any rounding.

    So the order of tasks cannot change a result, and no finite input overflows.
    """
    ratios = [(*value.as_integer_ratio(), count) for value, count in values]
    scale = lcm(*{bottom for _, bottom, _ in ratios})
    return sum(top * (scale // bottom) * count for top, bottom, count in ratios), scale


def exact_mean(values: Sequence[tuple[Number, int]]) -> float:
    """The mean of values with their counts, correctly rounded: 9 of 10 is 0.9, not nearly."""
    top, bottom = exact_sum(values)
    return top / (bottom * sum(count for _, count in values))


def wilson(mean: float, n: int) -> Interval:
    """The Wilson score interval of a mean in [0, 1] over `n` ≥ 1 tasks.

    For a rate (each task 0 or 1) it is Wilson's interval. For other values in [0, 1] it is
    conservative, because no variable on [0, 1] varies more than a 0/1 one with the same mean
    (Bhatia and Davis).
    """
    z2 = Z95 * Z95
    centre = mean + z2 / (2 * n)
    half = Z95 * sqrt(max(mean * (1 - mean), 0.0) / n + z2 / (4 * n * n))
    scale = 1 + z2 / n
    low = 0.0 if mean <= 0 else max((centre - half) / scale, 0.0)
    high = 1.0 if mean >= 1 else min((centre + half) / scale, 1.0)
    return low, high


def resample_cost(tasks: int, groups: int) -> int:
    """What one resample costs, in picks of single tasks: by group counts or task by task."""
    return min(_group_cost(groups, tasks), tasks) + 10


def _group_cost(groups: int, tasks: int) -> int:
    return groups * (20 + tasks // 256)


def resamples(work: int) -> int:
    """How many resamples to draw when one of everything at a level costs `work` picks.

    2,000 up to 500 picks, then 1,000,000 / work, and at least 200 (from 5,000 picks). With 2,000
    an end of the interval moves by about 3 % of half its width from seed to seed, with 200 by
    about 10 %.
    """
    return max(MIN_RESAMPLES, min(MAX_RESAMPLES, WORK // max(work, 1)))


def bootstrap(
    columns: Sequence[Sequence[float]], counts: Sequence[int], rng: Random, draws: int
) -> list[Interval]:
    """Percentile intervals of the means of several columns, from the same `draws` resamples.

    Group g stands for `counts[g]` tasks, whose value is `columns[r][g]` for reducer r. Whole tasks
    are resampled, so that the attempts of a task stay together. The ends are the m-th smallest
    and the m-th largest resampled mean, m = draws / 40 rounded down. The result depends on the
    order of groups: sort them first. Sums are correctly rounded (`fsum`), so that every version of
    Python gives the same interval. Needs draws ≥ 40.
    """
    n = sum(counts)
    shares = [[value / (2 * n) for value in column] for column in columns]  # half: no sum overflows
    by_groups = _group_cost(len(counts), n) < n
    means = _by_groups(shares, counts, rng) if by_groups else _by_tasks(shares, counts, rng)
    halves = [next(means) for _ in range(draws)]
    tail = draws // 40
    found = []
    for column, resampled in zip(columns, zip(*halves, strict=True), strict=True):
        ordered = sorted(resampled)
        low, high = min(column), max(column)  # rounding must not leave the range of the values
        ends = 2 * ordered[tail - 1], 2 * ordered[draws - tail]
        found.append((min(max(ends[0], low), high), min(max(ends[1], low), high)))
    return found


def _by_groups(
    shares: Sequence[Sequence[float]], counts: Sequence[int], rng: Random
) -> Iterator[list[float]]:
    """Few groups: draw how many tasks come from each, whatever the number of tasks."""
    n = sum(counts)
    while True:
        drawn, picks, tasks = [], n, n
        for count in counts:
            got = binomial(rng, picks, count, tasks)
            drawn.append(got)
            picks -= got
            tasks -= count
        yield [fsum(map(mul, column, drawn)) for column in shares]


def _by_tasks(
    shares: Sequence[Sequence[float]], counts: Sequence[int], rng: Random
) -> Iterator[list[float]]:
    """Many groups: pick task by task."""
    groups = [g for g, count in enumerate(counts) for _ in range(count)]
    n = len(groups)
    only = [shares[0][g] for g in groups]
    while True:
        if len(shares) == 1:
            yield [fsum(rng.choices(only, k=n))]
        else:
            picked = rng.choices(groups, k=n)
            yield [fsum(map(column.__getitem__, picked)) for column in shares]


def binomial(rng: Random, n: int, top: int, bottom: int) -> int:
    """How many of `n` trials succeed, each with chance top / bottom (0 ≤ top ≤ bottom).

    Exact: each trial compares a uniform number with the chance, bit by bit, and one round of
    fair coins settles half of the trials that are still open (Devroye, section X.4).
    """
    done = 0
    while n and top:
        if top == bottom:
            return done + n
        below_half = rng.getrandbits(n).bit_count()
        top *= 2
        if top >= bottom:
            done += below_half
            n -= below_half
            top -= bottom
        else:
            n = below_half
    return done
