"""One number with everything that says how far to trust it."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, TypeAlias

from proctor.evals.metrics.contract import Kind, MetricSpec
from proctor.evals.metrics.reducers import Reducer, Sample, Value
from proctor.evals.metrics.statistics import (
    MIN_BOOTSTRAP_TASKS,
    Interval,
    Number,
    bootstrap,
    exact_mean,
    wilson,
)
from proctor.evals.metrics.tally import Cell

Vectors: TypeAlias = Sequence[tuple[tuple[Value, ...], int]]
"""The values of one sample by reducer position, with the number of tasks that have them."""

COUNTS = ("evaluated", "unavailable", "invalidated", "total", "error")


@dataclass(frozen=True, slots=True)
class Series:
    """A reducer of a metric over the tasks of a run or a category.

    `value` is the official mean over the evaluated tasks; None when none is evaluated or the
    evaluation failed. `reference_value` is the mean over the same tasks whether or not the
    evaluation failed. `ci95` is the 95 % interval of `reference_value`. The counts are tasks:
    evaluated + unavailable + invalidated = total; `error` overlaps them.
    """

    value: float | None
    reference_value: float | None
    evaluated: int
    unavailable: int
    invalidated: int
    total: int
    error: int
    ci95: Interval | None

    @property
    def partial(self) -> bool:
        """Whether some task of the denominator is not evaluated."""
        return self.evaluated < self.total

    def to_json(self) -> dict[str, Any]:
        return {
            "value": self.value,
            "reference_value": self.reference_value,
            "evaluated": self.evaluated,
            "unavailable": self.unavailable,
            "invalidated": self.invalidated,
            "total": self.total,
            "error": self.error,
            "partial": self.partial,
            "ci95": None if self.ci95 is None else list(self.ci95),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "Series":
        """Raises ValueError (or KeyError, TypeError) for what `to_json` does not write."""
        counts = {name: _count(data[name], name) for name in COUNTS}
        if counts["evaluated"] + counts["unavailable"] + counts["invalidated"] != counts["total"]:
            raise ValueError(f"evaluated + unavailable + invalidated is not total in {counts}")
        if counts["error"] > counts["total"]:
            raise ValueError(f"more tasks with errors than tasks in {counts}")
        value, reference = _number(data["value"]), _number(data["reference_value"])
        if (reference is None) != (counts["evaluated"] == 0) or value not in (None, reference):
            raise ValueError(f"value {value} and reference {reference} do not fit {counts}")
        ci95 = None if data["ci95"] is None else tuple(_number(end) for end in data["ci95"])
        if ci95 is None:
            return cls(value, reference, **counts, ci95=None)
        low, high = ci95
        if low is None or high is None:
            raise ValueError(f"not an interval: {data['ci95']!r}")
        return cls(value, reference, **counts, ci95=(low, high))


def _count(value: Any, name: str) -> int:
    if type(value) is not int or value < 0:
        raise ValueError(f"{name} is {value!r}, expected a count")
    return value


def _number(value: Any) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError(f"got {value!r}, expected a finite number or null")
    return float(value)


class MetricReduction:
    """Reduces the samples of one metric; every distinct sample only once."""

    def __init__(self, spec: MetricSpec, position: int, reducers: Sequence[Reducer]) -> None:
        self.spec = spec
        self.position = position
        self.reducers = reducers
        self._known: dict[Sample, tuple[Value, ...]] = {}

    def series(self, cell: Cell, official: bool, seed: bytes, draws: int) -> dict[str, Series]:
        """The series of a cell by reducer name, in report order."""
        vectors = [(self._reduce(s), count) for s, count in cell.samples[self.position].items()]
        columns = [_present(vectors, r) for r in range(len(self.reducers))]
        means = [exact_mean(column) if column else None for column in columns]
        ends = self._intervals(vectors, columns, means, seed, draws)
        found = {}
        for r, reducer in enumerate(self.reducers):
            evaluated = sum(count for _, count in columns[r])
            found[reducer.name] = Series(
                value=means[r] if official else None,
                reference_value=means[r],
                evaluated=evaluated,
                unavailable=cell.total - cell.invalidated - evaluated,
                invalidated=cell.invalidated,
                total=cell.total,
                error=cell.error,
                ci95=ends.get(r),
            )
        return found

    def _reduce(self, sample: Sample) -> tuple[Value, ...]:
        known = self._known.get(sample)
        if known is None:
            known = tuple(reducer.reduce(sample) for reducer in self.reducers)
            self._known[sample] = known
        return known

    def _intervals(
        self,
        vectors: Vectors,
        columns: Sequence[Sequence[tuple[Number, int]]],
        means: Sequence[float | None],
        seed: bytes,
        draws: int,
    ) -> dict[int, Interval]:
        """The intervals by reducer position, where there is one.

        A rate (each task 0 or 1) has Wilson's. Few tasks, or tasks that are all equal, give the
        bootstrap nothing to work with: Wilson's, stretched to the range, is then conservative,
        and without a range there is none.
        """
        ends: dict[int, Interval] = {}
        waiting = []
        scalar = self.spec.kind is Kind.SCALAR
        low, high = (self.spec.low, self.spec.high) if scalar else (0.0, 1.0)
        for r, (column, mean) in enumerate(zip(columns, means, strict=True)):
            if mean is None:
                continue
            tasks = sum(count for _, count in column)
            distinct = {value for value, _ in column}
            rate = not scalar and distinct <= {0, 1}
            if not rate and len(distinct) > 1 and tasks >= MIN_BOOTSTRAP_TASKS:
                waiting.append(r)
            elif math.isfinite(high - low):
                ends[r] = _stretched(mean, tasks, low, high)
        for together in _same_tasks(vectors, waiting):
            ends.update(_bootstrap(vectors, together, seed, draws))
        return ends


def _stretched(mean: float, tasks: int, low: float, high: float) -> Interval:
    span = high - low
    below, above = wilson((mean - low) / span, tasks)
    return max(low + span * below, low), min(low + span * above, high)


def _present(vectors: Vectors, r: int) -> list[tuple[Number, int]]:
    return [(value, count) for vector, count in vectors if (value := vector[r]) is not None]


def _same_tasks(vectors: Vectors, positions: Sequence[int]) -> Iterator[list[int]]:
    """Reducers that are evaluated on the same tasks, so that they can share resamples."""
    groups: dict[tuple[bool, ...], list[int]] = {}
    for r in positions:
        groups.setdefault(tuple(vector[r] is None for vector, _ in vectors), []).append(r)
    yield from groups.values()


def _bootstrap(
    vectors: Vectors, together: Sequence[int], seed: bytes, draws: int
) -> Iterator[tuple[int, Interval]]:
    groups: dict[tuple[float, ...], int] = {}
    for vector, count in vectors:
        values = tuple(float(v) for r in together if (v := vector[r]) is not None)
        if values:
            groups[values] = groups.get(values, 0) + count
    ordered = sorted(groups)
    columns = list(zip(*ordered, strict=True))
    counts = [groups[values] for values in ordered]
    return zip(together, bootstrap(columns, counts, Random(seed), draws), strict=True)
