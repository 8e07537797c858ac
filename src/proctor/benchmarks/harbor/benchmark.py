"""Benchmark `harbor`: task folders of the Harbor format."""

import os
from collections.abc import Iterable
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from proctor.benchmarks.harbor.dataset import load_dataset
from proctor.benchmarks.harbor.evidence import keep_evidence
from proctor.benchmarks.harbor.folder import LoadSettings, VerifierJob
from proctor.benchmarks.harbor.grading import grade
from proctor.benchmarks.harbor.templates import HostVariables
from proctor.benchmarks.harbor.tree import Limits
from proctor.environments.contract import EnvironmentSession
from proctor.evals.contracts.benchmark import Benchmark
from proctor.evals.contracts.harness import AttemptContext
from proctor.evals.contracts.result import Evaluation, RunResult
from proctor.evals.contracts.task import PreparedTask, TaskSpec
from proctor.evals.metrics.contract import Kind, MetricContract, MetricSpec
from proctor.kernel.errors import DataError, EvaluatorFault


class HarborOptions(BaseModel):
    """`-p benchmark.*` of `harbor`.

    `host_env`: names of host variables that look secret (such as `JUDGE_API_KEY`) and that the
    `${…}` templates of task.toml may read all the same; default none. `max_files`, `max_mb`: the
    most one task folder may hold; default 5,000 files and 2,048 MB. `grading_memory_mb`: memory
    limit of each process of the tests where the task states none; default 2,048 MB.
    """

    model_config = ConfigDict(extra="forbid")

    host_env: list[str] = Field(default_factory=list)
    max_files: Annotated[int, Field(gt=0)] = 5_000
    max_mb: Annotated[int, Field(gt=0)] = 2_048
    grading_memory_mb: Annotated[int, Field(gt=0)] = 2_048


class Harbor(Benchmark):
    """Runs Harbor task folders and grades them with their own tests, in the agent's environment.

    Metrics: `passed` (primary; every reward is at least 1) and `reward` (the key `reward`, else
    the mean of all keys; any finite number).
    """

    id = "harbor"
    version = "1"
    Options = HarborOptions
    evaluation_modes = ("reuse",)

    def load_tasks(self) -> Iterable[TaskSpec]:
        """The tasks of `--data`. Raises DataError; see `load_dataset`."""
        if self.data is None:
            raise DataError(
                "harbor needs task folders",
                hint="give a task folder, or a folder of task folders, with --data",
            )
        options = self._options()
        settings = LoadSettings(
            Limits(options.max_files, options.max_mb),
            HostVariables(os.environ, frozenset(options.host_env)),
        )
        return load_dataset(self.data, settings)

    def metrics(self) -> MetricContract:
        """`passed` and `reward`."""
        return MetricContract(
            (
                MetricSpec("passed"),
                MetricSpec("reward", Kind.SCALAR, low=float("-inf"), high=float("inf")),
            ),
            primary="passed",
        )

    async def collect_artifacts(
        self,
        prepared: PreparedTask,
        result: RunResult,
        session: EnvironmentSession,
        context: AttemptContext,
    ) -> RunResult:
        """Run the task's collect commands and keep its artifacts; never changes the answer."""
        return await keep_evidence(_job(prepared), result, session, context)

    async def evaluate(
        self, prepared: PreparedTask, result: RunResult, session: EnvironmentSession | None
    ) -> Evaluation:
        """Run the task's tests where the agent worked and read their reward."""
        if session is None:
            raise EvaluatorFault("harbor grades in the agent's environment: use mode reuse")
        job = _job(prepared)
        return await grade(
            job,
            session,
            workdir=session.resolve(prepared.task.environment.workdir or "."),
            memory_mb=job.memory_mb or self._options().grading_memory_mb,
        )

    def _options(self) -> HarborOptions:
        return self.options if isinstance(self.options, HarborOptions) else HarborOptions()


def _job(prepared: PreparedTask) -> VerifierJob:
    job: Any = prepared.task.data
    if not isinstance(job, VerifierJob):
        raise EvaluatorFault(f"task {prepared.id!r} was not loaded by the harbor benchmark")
    return job
