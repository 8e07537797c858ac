"""Figures for people: medians with their spread, plain tables, limits that are kept or not."""

import json
import statistics
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class Spread:
    """A median with the smallest and the largest of the values."""

    median: float
    low: float
    high: float
    count: int

    @classmethod
    def of(cls, values: Sequence[float]) -> "Spread":
        return cls(statistics.median(values), min(values), max(values), len(values))

    def text(self, digits: int = 2) -> str:
        """`1.52`, or `1.52 (1.49–1.60)` when there is more than one value."""
        middle = f"{self.median:.{digits}f}"
        if self.count == 1:
            return middle
        return f"{middle} ({self.low:.{digits}f}–{self.high:.{digits}f})"

    def to_json(self) -> dict[str, float]:
        return {"median": self.median, "min": self.low, "max": self.high, "repeats": self.count}


@dataclass(frozen=True, slots=True)
class Limit:
    """A promise: `value` in `unit` is at most `limit` (None: there is no promise)."""

    what: str
    value: float
    limit: float | None
    unit: str
    at_least: bool = False

    @property
    def kept(self) -> bool:
        if self.limit is None:
            return True
        return self.value >= self.limit if self.at_least else self.value <= self.limit

    def row(self) -> list[str]:
        sign = "≥" if self.at_least else "≤"
        bound = "" if self.limit is None else f"{sign} {self.limit:g}"
        verdict = "" if self.limit is None else "kept" if self.kept else "NOT KEPT"
        return [self.what, f"{self.value:.3f}", self.unit, bound, verdict]

    def to_json(self) -> dict[str, object]:
        return {
            "what": self.what, "value": self.value, "unit": self.unit, "limit": self.limit,
            "at_least": self.at_least, "kept": self.kept,
        }  # fmt: skip


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns aligned with blanks: the first to the left, the others to the right."""
    lines = [list(head), *[list(row) for row in rows]]
    widths = [max(len(line[i]) for line in lines) for i in range(len(head))]
    lines.insert(1, ["-" * width for width in widths])
    return "\n".join(
        "  ".join(
            cell.ljust(width) if i == 0 else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    )


def limits_table(limits: Sequence[Limit]) -> str:
    """The promises, and whether this run kept them."""
    return table(["promise", "measured", "unit", "limit", ""], [limit.row() for limit in limits])


def concluded(limits: Sequence[Limit], circumstances: Mapping[str, Any], path: Path | None) -> int:
    """Print the promises and what else was so; also write them to `path`. The benchmark's exit
    code: 1 when one is not kept."""
    sys.stdout.write(limits_table(limits) + "\n\n")
    sys.stdout.write(", ".join(f"{name} {fact}" for name, fact in circumstances.items()) + "\n")
    if path is not None:
        figures = [limit.to_json() for limit in limits]
        document = {"circumstances": dict(circumstances), "figures": figures}
        path.write_text(json.dumps(document, indent=2) + "\n", "utf-8")
    return 0 if all(limit.kept for limit in limits) else 1
