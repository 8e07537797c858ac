"""What a benchmark measures, and whether an observation is one."""

import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from proctor.kernel.errors import BrokenComponent


class Kind(StrEnum):
    """`binary` is success or not (0 or 1); `scalar` is a finite number in a range."""

    BINARY = "binary"
    SCALAR = "scalar"


@dataclass(frozen=True, slots=True)
class MetricSpec:
    """One metric. `low`/`high` bound a scalar (inclusive; infinite = unbounded).

    `reducers` are the allowed families: `avg`, `pass_at` (pass@k), `pass_hat` (pass^k),
    `solved`, or registered ones; None means all built-in ones that fit the kind (a scalar has
    only `avg`).
    `higher_is_better` is for comparing, not for scoring.
    """

    id: str
    kind: Kind = Kind.BINARY
    low: float = 0.0
    high: float = 1.0
    reducers: tuple[str, ...] | None = None
    higher_is_better: bool = True


Families = Mapping[str, Collection[Kind]]
"""Ids of reducer families with the kinds of metrics that each fits."""

_BINARY = (Kind.BINARY,)
FAMILIES: Families = {
    "avg": tuple(Kind), "pass_at": _BINARY, "pass_hat": _BINARY, "solved": _BINARY,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class MetricContract:
    """All metrics of a benchmark and which one is primary."""

    metrics: tuple[MetricSpec, ...]
    primary: str

    def problems(self, families: Families = FAMILIES) -> list[str]:
        """Why this is not a contract where there are these `families`; empty when it is."""
        found = []
        ids = [m.id for m in self.metrics]
        if not ids:
            found.append("no metric is declared")
        found += [
            f"metric {i!r} is declared twice" for i in sorted({i for i in ids if ids.count(i) > 1})
        ]
        if self.primary not in ids:
            found.append(f"the primary metric {self.primary!r} is not declared (declared: {ids})")
        for m in self.metrics:
            if not isinstance(m.id, str) or not m.id.strip():
                found.append(f"metric id {m.id!r} is not a name")
            if type(m.kind) is not Kind:
                found.append(f"metric {m.id!r}: kind {m.kind!r} is not Kind.BINARY or Kind.SCALAR")
            if m.kind is Kind.SCALAR and not m.low < m.high:
                found.append(f"metric {m.id!r}: the range {m.low} to {m.high} is empty")
            if m.reducers is not None and type(m.kind) is Kind:
                found += _wrong_reducers(m, m.reducers, families)
        return found

    def check(self, families: Families = FAMILIES) -> None:
        """Raise BrokenComponent when this is not a contract."""
        if found := self.problems(families):
            raise BrokenComponent("the metric contract is wrong: " + "; ".join(found))

    def spec(self, metric_id: str) -> MetricSpec:
        """The metric with this id. Raises KeyError."""
        return next(m for m in self.metrics if m.id == metric_id)


def _wrong_reducers(
    metric: MetricSpec, reducers: tuple[str, ...], families: Families
) -> Iterator[str]:
    for name in reducers:
        if name not in families:
            yield f"metric {metric.id!r}: unknown reducer {name!r}"
    fitting = [name for name, kinds in families.items() if metric.kind in kinds]
    if set(reducers).intersection(families).difference(fitting):
        allowed = " or ".join(map(repr, fitting))
        yield f"metric {metric.id!r} is {metric.kind}: only {allowed} is allowed"
    if not set(reducers).intersection(fitting):
        yield f"metric {metric.id!r} has no reducer"


def observe(spec: MetricSpec, value: Any) -> float | str:
    """The observation as a float, or the reason (text) why it is not one."""
    if isinstance(value, bool):
        return (
            float(value) if spec.kind is Kind.BINARY else f"got {value!r} (bool), expected a number"
        )
    if not isinstance(value, int | float):
        return f"got {_shown(value)} ({type(value).__name__}), expected {_expected(spec)}"
    try:
        number = float(value)
    except OverflowError:
        return f"got an integer too large for a number, expected {_expected(spec)}"
    if not math.isfinite(number):
        return f"got {number}, expected a finite number"
    if spec.kind is Kind.BINARY and number not in (0.0, 1.0):
        return f"got {number!r}, expected {_expected(spec)}"
    if spec.kind is Kind.SCALAR and not spec.low <= number <= spec.high:
        return f"got {number!r}, expected {_expected(spec)}"
    return number + 0.0  # never the negative zero


def _shown(value: object) -> str:
    """At most 80 characters of a value that a plug-in returned, whatever its class does."""
    try:
        return f"{value!r:.80}"
    except Exception as error:  # noqa: BLE001 - somebody else's __repr__
        return f"a value that cannot be shown ({type(error).__name__})"


def _expected(spec: MetricSpec) -> str:
    if spec.kind is Kind.BINARY:
        return "true/false or 0/1"
    return f"a number from {spec.low:g} to {spec.high:g}"
