"""Benchmark `table`: a JSONL or CSV file of questions, answers and a scorer."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from proctor.benchmarks.table.columns import TaskRows
from proctor.benchmarks.table.options import TableOptions
from proctor.benchmarks.table.problems import Problems
from proctor.benchmarks.table.reading import rows
from proctor.benchmarks.table.scorers import Verdict, make_scorer
from proctor.benchmarks.table.scorers.contract import EMPTY
from proctor.benchmarks.table.source import find_source
from proctor.environments.contract import EnvironmentSession
from proctor.evals.contracts.benchmark import Benchmark
from proctor.evals.contracts.result import Evaluation, RunResult
from proctor.evals.contracts.task import PreparedTask, TaskSpec
from proctor.evals.metrics.contract import Kind, MetricContract, MetricSpec, observe
from proctor.kernel.errors import DataError
from proctor.kernel.jsontext import JsonValue


class Table(Benchmark):
    """Your own data: rows of a JSONL or CSV file, graded by a scorer.

    Metric `correct` (binary), or `score` (scalar) with a `python:` scorer and
    `metric_kind=scalar`. Answers are values, not files, so they are graded after the environment
    is closed (mode `none`); `reuse` only keeps it open until then.
    """

    id = "table"
    Options = TableOptions
    evaluation_modes = ("none", "reuse")

    def __init__(self, options: TableOptions | None = None, data: Path | None = None) -> None:
        super().__init__(options or TableOptions(), data)
        self.options: TableOptions
        self._scorer = make_scorer(self.options)
        self._metric = _metric(self.options)

    def load_tasks(self) -> list[TaskSpec]:
        """One task a row, in file order. Raises DataError listing every problem."""
        file = find_source(self.data, self.id)
        problems = Problems(file)
        builder = TaskRows(file, self.options.columns, self._scorer, problems)
        tasks = builder.tasks(rows(file, problems))
        problems.check()
        if not tasks:
            raise DataError(f"{file} has no rows", hint="give a file with at least one task")
        return tasks

    def metrics(self) -> MetricContract:
        """One metric, `correct` or `score`."""
        return MetricContract((self._metric,), self._metric.id)

    def grading_settings(self) -> dict[str, Any]:
        """The scorer with its options, and the digest of its code."""
        return self._scorer.settings()

    async def evaluate(
        self, prepared: PreparedTask, result: RunResult, session: EnvironmentSession | None
    ) -> Evaluation:
        """Grade the final answer."""
        answer = result.final_answer
        if answer is None:
            return Evaluation(unavailable={self._metric.id: "there is no answer"})
        if _is_blank(answer) and not isinstance(observe(self._metric, 0), str):
            return self._evaluation(EMPTY)
        return self._evaluation(await self._scorer.score(answer, prepared.task))

    async def close(self) -> None:
        """End the scorer's worker processes. Idempotent; they also end with the object."""
        await self._scorer.close()

    def _evaluation(self, verdict: Verdict) -> Evaluation:
        metrics: Mapping[str, Any] = {self._metric.id: verdict.value}
        unavailable: Mapping[str, str] = {}
        if verdict.unavailable is not None:
            metrics, unavailable = {}, {self._metric.id: verdict.unavailable}
        return Evaluation(
            metrics=metrics,
            unavailable=unavailable,
            evidence=verdict.evidence,
            issues=verdict.issues,
        )


def _is_blank(answer: JsonValue) -> bool:
    return isinstance(answer, str) and not answer.strip()


def _metric(options: TableOptions) -> MetricSpec:
    if options.metric_kind == "scalar":
        return MetricSpec("score", Kind.SCALAR, options.low, options.high)
    return MetricSpec("correct")
