"""What the comparison with peers measures, as values."""

import statistics
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from bench.measured import Ended, Tree, circumstances
from bench.peers.installed import Peer, Size

FIGURES: dict[str, Callable[[Ended, Tree], float]] = {
    "cpu_s": lambda ended, _: ended.cpu_s,
    "rss_mib": lambda ended, _: ended.own["rss_kib"] / 1024,
    "written_bytes": lambda ended, _: ended.own["written_bytes"],
    "size_bytes": lambda _, tree: tree.size_bytes,
    "files": lambda _, tree: tree.files,
}


@dataclass(slots=True)
class Side:
    """What was measured of one system in one mode, by number of tasks."""

    name: str
    runs: dict[int, list[tuple[Ended, Tree]]] = field(default_factory=lambda: defaultdict(list))
    syncs: float | None = None
    size: Size | None = None
    import_s: float | None = None

    def median(self, tasks: int, figure: str) -> float:
        """Median of a figure over the repeats of a case."""
        return statistics.median(FIGURES[figure](*pair) for pair in self.runs[tasks])

    def further(self, figure: str) -> float | None:
        """What each further task costs, between the smallest and the largest case."""
        few, many = min(self.runs), max(self.runs)
        if few == many:
            return None
        return (self.median(many, figure) - self.median(few, figure)) / (many - few)


@dataclass(slots=True)
class Comparison:
    """All sides: ours by mode, theirs by title, and who could not be measured."""

    ours: dict[str, Side] = field(default_factory=dict)
    theirs: dict[str, tuple[Peer, Side]] = field(default_factory=dict)
    missing: list[str] = field(default_factory=list)
    concurrency: int = 16
    circumstances: dict[str, Any] = field(default_factory=circumstances)
