"""A read-only view of a run directory for Python, `show` and reports."""

import importlib
import importlib.util
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from typing import Any, TypeVar

from proctor.evals.metrics.report import MetricReport
from proctor.evals.report import Counts
from proctor.evals.results.layout import STATES, RunLayout, attempt_dir_name
from proctor.evals.results.stored import (
    StoredTask,
    load_run_info,
    load_summary,
    stored_task,
    stored_tasks,
)
from proctor.kernel import jsontext
from proctor.kernel.errors import RunDirectoryError, UsageError
from proctor.store.exclusive import Owner, live_owner, read_owner
from proctor.store.files import read_json

T = TypeVar("T")

DEAD = "dead"


@dataclass(frozen=True, slots=True)
class Attempt:
    """A finished attempt: its record, and where its files are."""

    record: Mapping[str, Any]
    path: str

    @property
    def task_id(self) -> str:
        return str(self.record["task_id"])

    @property
    def index(self) -> int:
        return int(self.record["attempt"])

    @property
    def status(self) -> str:
        return str(self.record["status"])

    @property
    def metrics(self) -> Mapping[str, Any]:
        return dict(self.record["metrics"])

    @property
    def final_answer(self) -> Any:
        return self.record["final_answer"]


@dataclass(frozen=True, slots=True)
class Task:
    """A task of a run with the attempts that have a record."""

    id: str
    state: str
    category: str | None
    path: str

    def attempts(self) -> Iterator[Attempt]:
        """The finished attempts, in index order. Read on use."""
        stored = StoredTask(self.id, self.state, self.path, self.category)
        for index in stored.attempts():
            record = stored.result(index)
            if record is not None:
                yield Attempt(record, os.path.join(self.path, attempt_dir_name(index)))

    @property
    def shared(self) -> Mapping[str, Any]:
        """`task.json`: category, ground truth, attempt plan. Empty where a crash has torn it."""
        try:
            record = read_json(os.path.join(self.path, "task.json"))
        except (FileNotFoundError, jsontext.JsonError):
            return {}
        return record if isinstance(record, dict) else {}


class Run:
    """A run directory, read on use. Raises RunDirectoryError where it is damaged."""

    def __init__(self, run_dir: str) -> None:
        self.layout = RunLayout(run_dir)
        if not os.path.isdir(self.layout.root):
            raise RunDirectoryError(f"no such run directory: {run_dir}")
        self.info = load_run_info(self.layout)

    @property
    def path(self) -> str:
        """The run directory."""
        return self.layout.root

    @property
    def status(self) -> str:
        """The status on disk; `dead` for a run that says running but whose owner is gone."""
        status = str(self.info["status"])
        if status == "running" and self.live_owner is None:
            return DEAD
        return status

    @property
    def owner(self) -> Owner | None:
        """Who wrote here last."""
        return read_owner(self.layout.root)

    @property
    def live_owner(self) -> Owner | None:
        """Who is at work here now."""
        return live_owner(self.layout.root, datetime.now(UTC))

    @cached_property
    def summary(self) -> Mapping[str, Any] | None:
        """`summary.json`, None while the run has not ended. Raises RunDirectoryError."""
        try:
            return load_summary(self.layout)
        except FileNotFoundError:
            return None

    @property
    def metrics(self) -> MetricReport | None:
        """The metric report of the summary, None while the run has not ended."""
        summary = self.summary
        return None if summary is None else self._read(lambda: MetricReport.from_json(summary))

    @property
    def counts(self) -> Counts | None:
        """The counts of the summary, None while the run has not ended."""
        summary = self.summary
        return None if summary is None else self._read(lambda: Counts(**summary["counts"]))

    def _read(self, read: Callable[[], T]) -> T:
        try:
            return read()
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise RunDirectoryError(
                f"{self.layout.summary} is damaged: {type(error).__name__}: {error}",
                hint="`proctor resume` writes it anew from the records",
            ) from None

    def tasks(self, states: Iterable[str] = STATES) -> Iterator[Task]:
        """Every task that has a directory, of the given states in the given order."""
        for stored in stored_tasks(self.layout, states):
            yield Task(stored.task_id, stored.state, stored.category, stored.path)

    def task(self, task_id: str) -> Task:
        """One task by its exact id. Raises RunDirectoryError."""
        for state in STATES:
            stored = stored_task(self.layout.task(state, task_id), state)
            if stored is not None:
                return Task(stored.task_id, stored.state, stored.category, stored.path)
        raise RunDirectoryError(f"{self.path} has no task {task_id!r}")

    def attempts(self) -> Iterator[Attempt]:
        """Every finished attempt."""
        for task in self.tasks():
            yield from task.attempts()

    def rows(self) -> Iterator[dict[str, Any]]:
        """One flat row an attempt: id, index, status, state, metrics, answer, usage."""
        for task in self.tasks():
            for attempt in task.attempts():
                usage = attempt.record["usage"]
                yield {
                    "task_id": task.id,
                    "attempt": attempt.index,
                    "category": task.category,
                    "state": task.state,
                    "status": attempt.status,
                    **{f"metric.{name}": value for name, value in attempt.metrics.items()},
                    "final_answer": attempt.final_answer,
                    "retry_count": attempt.record["retry_count"],
                    "wall_s": usage["wall_s"],
                    "input_tokens": usage["input_tokens"],
                    "output_tokens": usage["output_tokens"],
                    "cost_usd": usage["cost_usd"],
                }

    def to_dataframe(self) -> Any:
        """The rows as a pandas or polars data frame, whichever is installed."""
        rows = list(self.rows())
        if importlib.util.find_spec("pandas") is not None:
            return importlib.import_module("pandas").DataFrame(rows)
        if importlib.util.find_spec("polars") is not None:
            return importlib.import_module("polars").DataFrame(rows)
        raise UsageError("to_dataframe needs pandas or polars", hint="pip install pandas")
