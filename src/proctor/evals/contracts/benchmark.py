"""A benchmark loads tasks, prepares them, grades attempts and declares what it measures."""

import fnmatch
import random
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from proctor.environments.contract import EnvironmentSession
from proctor.evals.contracts.harness import AttemptContext
from proctor.evals.contracts.result import Evaluation, RunResult
from proctor.evals.contracts.task import PreparedTask, TaskSpec
from proctor.evals.metrics.contract import MetricContract


@dataclass(frozen=True, slots=True)
class Selection:
    """Which tasks of a benchmark run: filter by globs, then shuffle by seed, then limit."""

    patterns: tuple[str, ...] = ()
    shuffle_seed: int | None = None
    limit: int | None = None


class Benchmark(ABC):
    """Methods marked *sync or async* may be plain functions: those run in a thread with the
    phase's time limit, off the event loop.

    `evaluation_modes` are the allowed ones, the first is the default: `none` grades in the
    driver after the environment is closed, `reuse` in the task's environment, `fresh` in a new
    one.
    """

    id: ClassVar[str]
    version: ClassVar[str] = "1"
    Options: ClassVar[type[Any] | None] = None
    evaluation_modes: ClassVar[tuple[str, ...]] = ("none",)
    data_required: ClassVar[bool] = True

    def __init__(self, options: Any = None, data: Path | None = None) -> None:
        self.options = options
        self.data = data

    def requirements(self) -> list[str]:
        """What is missing on this machine; empty when ready."""
        return []

    @abstractmethod
    def load_tasks(self) -> Iterable[TaskSpec]:
        """All tasks, in a stable order. Raises DataError listing every problem. Sync."""

    def select_tasks(self, tasks: Sequence[TaskSpec], selection: Selection) -> list[TaskSpec]:
        """Filter, then shuffle, then limit. Sync."""
        chosen = list(tasks)
        if selection.patterns:
            chosen = [
                t for t in chosen if any(fnmatch.fnmatchcase(t.id, p) for p in selection.patterns)
            ]
        if selection.shuffle_seed is not None:
            random.Random(selection.shuffle_seed).shuffle(chosen)
        return chosen if selection.limit is None else chosen[: selection.limit]

    @abstractmethod
    def metrics(self) -> MetricContract:
        """What is measured; exactly one metric is primary."""

    def grading_settings(self) -> dict[str, Any]:
        """What grades besides the task's target: scorer, its options and code. For reuse."""
        return {}

    def prepare_task(
        self, task: TaskSpec, session: EnvironmentSession | None, plan: Mapping[str, Any]
    ) -> PreparedTask | Awaitable[PreparedTask]:
        """Set the task up in its open environment (files are already there). Sync or async."""
        return PreparedTask(task, task.input)

    def collect_artifacts(
        self, prepared: PreparedTask, result: RunResult, session: EnvironmentSession,
        context: AttemptContext,
    ) -> RunResult | Awaitable[RunResult]:  # fmt: skip
        """Keep evidence while the environment is alive; may attach or normalise. Sync or async."""
        return result

    def prepare_step(
        self, prepared: PreparedTask, session: EnvironmentSession
    ) -> PreparedTask | Awaitable[PreparedTask]:
        """Set up the step that `Evaluation.next_step` named, under the baseline policy. Sync or
        async."""
        return prepared

    @abstractmethod
    def evaluate(
        self, prepared: PreparedTask, result: RunResult, session: EnvironmentSession | None
    ) -> Evaluation | Awaitable[Evaluation]:
        """Grade one attempt. `session` is None in mode `none`. Sync or async."""

    async def close(self) -> None:
        """Release what grading acquired, once per request. Idempotent."""


class HarnessFreeBenchmark(Benchmark):
    """A benchmark that can run a task itself, without a harness (harness id `none`)."""

    @abstractmethod
    def run_task(
        self, prepared: PreparedTask, session: EnvironmentSession, context: AttemptContext
    ) -> RunResult | Awaitable[RunResult]:
        """Do the task, usually by one model call. Sync or async."""
