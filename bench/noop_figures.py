"""What the no-op benchmark measures, as values."""

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from bench.measured import Ended, Tree, circumstances


class Case(NamedTuple):
    """One cell of the matrix."""

    mode: str
    tasks: int
    concurrency: int


class Sample(NamedTuple):
    """One run of a case."""

    ended: Ended
    left: Tree


@dataclass(slots=True)
class Figures:
    """Everything that was measured, by case."""

    samples: dict[Case, list[Sample]] = field(default_factory=lambda: defaultdict(list))
    loops: dict[Case, list[dict[str, Any]]] = field(default_factory=lambda: defaultdict(list))
    bare: list[Ended] = field(default_factory=list)
    syncs: dict[str, float] = field(default_factory=dict)
    counted_by: str = ""
    circumstances: dict[str, Any] = field(default_factory=circumstances)
