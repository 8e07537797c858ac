"""Counting tasks by category and by what was observed, in one pass."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

from proctor.evals.metrics.contract import MetricSpec, observe
from proctor.evals.metrics.observations import TaskObservations
from proctor.evals.metrics.reducers import Sample

Samples: TypeAlias = dict[Sample, int]
"""Different samples with the number of tasks that have each; few for a binary metric."""


class Cell:
    """The tasks of one denominator: the whole run or one category."""

    __slots__ = ("error", "invalidated", "samples", "total")

    def __init__(self, metrics: int) -> None:
        self.total = 0
        self.error = 0
        self.invalidated = 0
        self.samples: list[Samples] = [{} for _ in range(metrics)]
        """By position in `metrics`; of tasks that are not invalidated."""

    def add(self, other: "Cell") -> None:
        """Count the tasks of `other` too."""
        self.total += other.total
        self.error += other.error
        self.invalidated += other.invalidated
        for mine, theirs in zip(self.samples, other.samples, strict=True):
            for sample, count in theirs.items():
                mine[sample] = mine.get(sample, 0) + count


def tally(
    metrics: Sequence[MetricSpec], k: int, tasks: Iterable[TaskObservations]
) -> dict[str | None, Cell]:
    """The cells by category; None holds the tasks without one. Raises ValueError.

    Only attempts 1 to k count. What is not an observation of its metric counts as absent here
    too, whoever wrote it, so that no file can poison a mean.
    """
    cells: dict[str | None, Cell] = {}
    known: dict[tuple[tuple[float, ...], bool], Sample] = {}
    seen: set[str] = set()
    for task in tasks:
        if task.task_id in seen:
            raise ValueError(f"task {task.task_id!r} is there twice; each task counts once")
        seen.add(task.task_id)
        cell = cells.get(task.category)
        if cell is None:
            cell = cells[task.category] = Cell(len(metrics))
        cell.total += 1
        if task.state == "fatal":
            cell.invalidated += 1
            continue
        cell.error += task.state == "error"
        attempts = [found for index, found in task.attempts.items() if 1 <= index <= k]
        for spec, samples in zip(metrics, cell.samples, strict=True):
            values = _values(spec, attempts)
            sample = known.get((values, task.ended_early))
            if sample is None:
                sample = known[values, task.ended_early] = Sample(values, k, task.ended_early)
            samples[sample] = samples.get(sample, 0) + 1
    return cells


def _values(spec: MetricSpec, attempts: Iterable[Mapping[str, float]]) -> tuple[float, ...]:
    found = []
    for observed in attempts:
        if spec.id in observed:
            value = observe(spec, observed[spec.id])
            if not isinstance(value, str):
                found.append(value)
    return tuple(found) if len(found) < 2 else tuple(sorted(found))
