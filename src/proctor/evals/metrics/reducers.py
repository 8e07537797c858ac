"""Reducers: from the observations of one task to one number, or to none.

A family (`avg`, `pass_at`, `pass_hat`, `solved`) is the unit of registration and of what a
metric allows; for an attempt plan it becomes reducers of certain sizes, such as `pass@2`.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import comb, isfinite
from typing import ClassVar, TypeAlias

from proctor.evals.contracts.plan import AttemptPlan
from proctor.evals.metrics.contract import Kind, MetricSpec
from proctor.evals.metrics.statistics import Number, exact_sum
from proctor.kernel.errors import EvaluatorFault

Value: TypeAlias = Number | None
"""A task's value, exact where the observations are counts; None is unavailable."""


@dataclass(frozen=True, slots=True)
class Sample:
    """The valid observations of one metric of one task, out of `k` planned attempts.

    Attempts are exchangeable here: `values` are in ascending order, not in attempt order.
    """

    values: tuple[float, ...]
    k: int
    ended_early: bool = False

    @property
    def n(self) -> int:
        """How many valid observations there are."""
        return len(self.values)

    @property
    def successes(self) -> int:
        """How many of them are 1 (for a binary metric)."""
        return self.values.count(1.0)

    @property
    def full(self) -> bool:
        """Whether all k attempts were made and validly observed: an unbiased sample."""
        return len(self.values) == self.k and not self.ended_early


def pass_at(n: int, c: int, size: int) -> Fraction | None:
    """Chance that at least one of `size` attempts succeeds, from `c` successes in `n`.

    1 − C(n−c, size) / C(n, size): the unbiased estimator of Chen et al., "Evaluating Large
    Language Models Trained on Code" (2021), equation 1, in exact arithmetic. None when n < size:
    nothing is extrapolated.
    """
    _check_counts(n, c, size)
    return None if n < size else 1 - Fraction(comb(n - c, size), comb(n, size))


def pass_hat(n: int, c: int, size: int) -> Fraction | None:
    """Chance that `size` attempts all succeed, from `c` successes in `n`.

    C(c, size) / C(n, size): the unbiased estimator of Yao et al., "τ-bench" (2024), section 4,
    in exact arithmetic. None when n < size.
    """
    _check_counts(n, c, size)
    return None if n < size else Fraction(comb(c, size), comb(n, size))


def _check_counts(n: int, c: int, size: int) -> None:
    if not 0 <= c <= n or size < 1:
        raise ValueError(f"need 0 <= c <= n and size >= 1, got n={n}, c={c}, size={size}")


def sizes(k: int) -> tuple[int, ...]:
    """The sample sizes k' that are reported for k attempts.

    All from 1 to k for k ≤ 10; beyond, 1, 2, 5, 10, 20, 50, … below k, and k.
    """
    if k <= 10:
        return tuple(range(1, k + 1))
    found = [m * 10**e for e in range(len(str(k))) for m in (1, 2, 5)]
    return (*(s for s in found if s < k), k)


class ReducerFamily(ABC):
    """One way to reduce a sample. Values stay within the metric's range.

    `kinds` are the metric kinds it fits. `unbiased` families are estimators over a fixed number
    of attempts: they are not offered where a strategy cuts samples of this metric short.
    """

    id: ClassVar[str]
    kinds: ClassVar[frozenset[Kind]] = frozenset({Kind.BINARY})
    unbiased: ClassVar[bool] = True

    @abstractmethod
    def sizes(self, k: int) -> Sequence[int]:
        """For which k' a plan of k attempts reports this family, in order."""

    @abstractmethod
    def name(self, size: int) -> str:
        """The reducer's name for that k', unique over all families."""

    @abstractmethod
    def reduce(self, sample: Sample, size: int) -> Value:
        """The task's value, or None when this sample does not have one."""

    def needs(self, k: int) -> str:
        """What a sample must have, to say so where it lacks it."""
        return f"all {k} observations" if k > 1 else "its observation"


class Average(ReducerFamily):
    """Mean over the k attempts."""

    id = "avg"
    kinds = frozenset(Kind)

    def sizes(self, k: int) -> Sequence[int]:
        return (k,)

    def name(self, size: int) -> str:
        return f"avg@{size}"

    def reduce(self, sample: Sample, size: int) -> Value:
        if not sample.full:
            return None
        if size == 1:
            return sample.values[0]
        top, bottom = exact_sum((value, 1) for value in sample.values)
        return Fraction(top, bottom * size)


class PassAt(ReducerFamily):
    """At least one of k' attempts succeeds."""

    id = "pass_at"

    def sizes(self, k: int) -> Sequence[int]:
        return sizes(k)

    def name(self, size: int) -> str:
        return f"pass@{size}"

    def reduce(self, sample: Sample, size: int) -> Value:
        return pass_at(sample.n, sample.successes, size) if sample.full else None


class PassHat(ReducerFamily):
    """All of k' attempts succeed; from k' = 2, since one attempt makes it avg."""

    id = "pass_hat"

    def sizes(self, k: int) -> Sequence[int]:
        return tuple(size for size in sizes(k) if size > 1)

    def name(self, size: int) -> str:
        return f"pass^{size}"

    def reduce(self, sample: Sample, size: int) -> Value:
        return pass_hat(sample.n, sample.successes, size) if sample.full else None


class Solved(ReducerFamily):
    """1 with any valid success, 0 only when all k attempts are valid failures."""

    id = "solved"
    unbiased = False

    def sizes(self, k: int) -> Sequence[int]:
        return (k,)

    def name(self, size: int) -> str:
        return f"solved@{size}"

    def reduce(self, sample: Sample, size: int) -> Value:
        if sample.successes:
            return Fraction(1)
        return Fraction(0) if sample.n == size else None

    def needs(self, k: int) -> str:
        return f"one valid success or {k} valid failures"


BUILT_IN: tuple[ReducerFamily, ...] = (Average(), PassAt(), PassHat(), Solved())
"""In the order they are reported."""


@dataclass(frozen=True, slots=True)
class Reducer:
    """A family at one size, as in `pass@2`."""

    name: str
    family: ReducerFamily
    size: int

    def reduce(self, sample: Sample) -> Value:
        """The task's value, or None when it is unavailable. Raises EvaluatorFault where a
        plug-in's family raises or gives something else."""
        try:
            value = self.family.reduce(sample, self.size)
        except Exception as error:
            raise _wrong(self.name, f"fails: {type(error).__name__}: {error}") from error
        if value is not None and (
            isinstance(value, bool)
            or not isinstance(value, int | float | Fraction)
            or not isfinite(value)
        ):
            raise _wrong(self.name, f"gave {value!r:.80}, not a number or None")
        return value

    def why_unavailable(self, sample: Sample) -> str | None:
        """Why `sample` has no value, with its n; None when it has one."""
        if self.reduce(sample) is not None:
            return None
        cut = ", ended early" if sample.ended_early else ""
        return f"{self.name} needs {self.family.needs(sample.k)}; n={sample.n} of {sample.k}{cut}"


def _wrong(name: str, what: str) -> EvaluatorFault:
    hint = "every attempt is kept: correct the reducer, then `proctor resume` reports them"
    return EvaluatorFault(f"reducer {name} {what}", hint=hint)


def resolve(
    spec: MetricSpec,
    plan: AttemptPlan,
    *,
    truncates: bool | None = None,
    families: Iterable[ReducerFamily] = BUILT_IN,
) -> tuple[Reducer, ...]:
    """The reducers of a metric under a plan, in report order; the first one is its main one.

    `truncates`: whether the strategy may stop a task before k attempts; by default only the
    strategy `pass` does. Then a binary metric keeps only families that are not unbiased, so that
    `solved@k` comes first; a scalar keeps `avg@k`, which exists where no attempt is missing.
    """
    cut = plan.strategy == "pass" if truncates is None else truncates
    return tuple(
        Reducer(family.name(size), family, size)
        for family in families
        if spec.kind in family.kinds
        and (spec.reducers is None or family.id in spec.reducers)
        and not (cut and family.unbiased and spec.kind is Kind.BINARY)
        for size in family.sizes(plan.k)
    )
