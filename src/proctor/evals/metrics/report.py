"""The metric report of a run: all series, overall and per category.

`evaluation_failed` belongs to the run: a task that ended fatal makes every official value empty,
in all categories, because a run with a broken task is not a measurement of its benchmark. What
the other tasks say stays readable as `reference_value`, with its coverage beside it.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

from proctor.evals.contracts.plan import AttemptPlan
from proctor.evals.metrics.contract import MetricContract
from proctor.evals.metrics.observations import TaskObservations
from proctor.evals.metrics.reducers import BUILT_IN, ReducerFamily, resolve
from proctor.evals.metrics.series import MetricReduction, Series
from proctor.evals.metrics.statistics import MIN_BOOTSTRAP_TASKS, resample_cost, resamples
from proctor.evals.metrics.tally import Cell, tally
from proctor.kernel.errors import UsageError
from proctor.kernel.jsontext import dumps

SeriesTable: TypeAlias = Mapping[str, Mapping[str, Series]]
"""Metric id → reducer name → series, in report order."""

_Name = TypeVar("_Name", str, None)


@dataclass(frozen=True, slots=True)
class Primary:
    """The run's one number: the main reducer of the primary metric and its official value."""

    metric: str
    reducer: str
    value: float | None

    def to_json(self) -> dict[str, Any]:
        return {"metric": self.metric, "reducer": self.reducer, "value": self.value}


@dataclass(frozen=True, slots=True)
class MetricReport:
    """Every number of a run. `series` has the primary metric first, then by id."""

    plan: AttemptPlan
    primary: Primary
    evaluation_failed: bool
    series: SeriesTable
    categories: Mapping[str, SeriesTable]

    @property
    def primary_series(self) -> Series:
        """The series behind `primary`."""
        return self.series[self.primary.metric][self.primary.reducer]

    @property
    def complete(self) -> bool:
        """Whether there are tasks and each is evaluated for the primary (score 0 included)."""
        return self.primary_series.total > 0 and not self.primary_series.partial

    def category(self, name: str) -> SeriesTable:
        """The series over the tasks of one category. Raises KeyError."""
        return self.categories[name]

    def to_json(self) -> dict[str, Any]:
        """The overall series as commands print them: `{metric: {reducer: {...}}}`."""
        return _table_json(self.series)

    def categories_json(self) -> dict[str, Any]:
        """The same shape per category: `{category: {metric: {reducer: {...}}}}`."""
        return {name: _table_json(table) for name, table in self.categories.items()}

    def summary_json(self) -> dict[str, Any]:
        """The whole report, for files; `from_json` reads it back."""
        return {
            "attempts": self.plan.to_json(),
            "primary": self.primary.to_json(),
            "evaluation_failed": self.evaluation_failed,
            "metrics": self.to_json(),
            "categories": self.categories_json(),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "MetricReport":
        """Read what `summary_json` wrote; unknown keys are left aside. Raises ValueError."""
        try:
            series = _table_from_json(data["metrics"])
            categories = {name: _table_from_json(t) for name, t in data["categories"].items()}
            named = data["primary"]
            behind = series[named["metric"]][named["reducer"]]
            if named["value"] != behind.value:
                raise ValueError(f"the primary value {named['value']!r} is not its series' value")
            if not isinstance(data["evaluation_failed"], bool):
                raise ValueError("evaluation_failed is not true or false")
            primary = Primary(named["metric"], named["reducer"], behind.value)
            plan = AttemptPlan.from_json(data["attempts"])
            return cls(plan, primary, data["evaluation_failed"], series, categories)
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise ValueError(f"not a metric report: {type(error).__name__}: {error}") from error


def _table_json(table: SeriesTable) -> dict[str, Any]:
    return {
        metric: {reducer: series.to_json() for reducer, series in by_reducer.items()}
        for metric, by_reducer in table.items()
    }


def _table_from_json(data: Mapping[str, Any]) -> SeriesTable:
    return {
        str(metric): {str(name): Series.from_json(series) for name, series in by_reducer.items()}
        for metric, by_reducer in data.items()
    }


def attempt_problems(
    contract: MetricContract,
    plan: AttemptPlan,
    *,
    truncates: bool | None = None,
    families: Iterable[ReducerFamily] = BUILT_IN,
) -> list[str]:
    """Why this contract cannot be reported under this plan; empty when it can. For preflight."""
    if plan.k < 1:
        return [f"k={plan.k}: a task needs at least one attempt; use -k 1 or more"]
    families = tuple(families)
    names = [family.name(size) for family in families for size in family.sizes(plan.k)]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        return [f"two reducers are named {', '.join(map(repr, twice))} under k={plan.k}"]
    primary = contract.spec(contract.primary)
    if not resolve(primary, plan, truncates=truncates, families=families):
        allowed = ", ".join(primary.reducers or ())
        return [
            f"the primary metric {primary.id!r} allows only {allowed}, which k={plan.k} with "
            f"strategy {plan.strategy!r} cannot give; use another -k or --strategy"
        ]
    return []


def build_report(
    contract: MetricContract,
    plan: AttemptPlan,
    tasks: Iterable[TaskObservations],
    *,
    seed: int = 0,
    truncates: bool | None = None,
    families: Iterable[ReducerFamily] = BUILT_IN,
) -> MetricReport:
    """Reduce the selected tasks, every one of them given once, to a report.

    The result does not depend on the order of tasks; `seed` only moves bootstrap intervals.
    `truncates` says whether the plan's strategy may stop a task early; by default only `pass`
    does. Raises UsageError for a wrong contract or plan (see `attempt_problems`), ValueError for
    a task that is given twice.
    """
    families = tuple(families)
    contract.check({family.id: family.kinds for family in families})
    if problems := attempt_problems(contract, plan, truncates=truncates, families=families):
        raise UsageError("; ".join(problems))
    ordered = sorted(contract.metrics, key=lambda m: (m.id != contract.primary, m.id))
    metrics = [
        MetricReduction(spec, at, resolve(spec, plan, truncates=truncates, families=families))
        for at, spec in enumerate(ordered)
    ]
    cells = tally(ordered, plan.k, tasks)
    everything = Cell(len(metrics))
    for cell in cells.values():
        everything.add(cell)
    official = not everything.invalidated
    named = {name: cells[name] for name in sorted(c for c in cells if c is not None)}
    series = _tables(metrics, {None: everything}, official, seed)[None]
    reducer = metrics[0].reducers[0].name
    primary = Primary(contract.primary, reducer, series[contract.primary][reducer].value)
    categories = _tables(metrics, named, official, seed)
    return MetricReport(plan, primary, not official, series, categories)


def _tables(
    metrics: Sequence[MetricReduction], cells: Mapping[_Name, Cell], official: bool, seed: int
) -> dict[_Name, SeriesTable]:
    """The series of every cell of one level; all of them together share the resampling budget."""
    draws = resamples(sum(_work(cell) for cell in cells.values()))
    return {
        name: {
            metric.spec.id: metric.series(cell, official, _seed(seed, name, metric.spec.id), draws)
            for metric in metrics
        }
        for name, cell in cells.items()
    }


def _work(cell: Cell) -> int:
    tasks = cell.total - cell.invalidated
    if tasks < MIN_BOOTSTRAP_TASKS:
        return 0
    return sum(resample_cost(tasks, len(samples)) for samples in cell.samples)


def _seed(seed: int, category: str | None, metric: str) -> bytes:
    """Every series draws its own numbers, whatever is reduced before it."""
    return dumps([seed, category, metric]).encode()
