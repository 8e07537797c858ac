"""Benchmark `harbor`: task folders of the Harbor format."""

import os
from collections.abc import Iterable, Mapping
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from proctor.benchmarks.harbor.dataset import load_dataset
from proctor.benchmarks.harbor.evidence import keep_evidence
from proctor.benchmarks.harbor.folder import LoadSettings
from proctor.benchmarks.harbor.grading import Verdict, evaluated, verdict_of
from proctor.benchmarks.harbor.health import healthy
from proctor.benchmarks.harbor.jobs import StepJob, VerifierJob
from proctor.benchmarks.harbor.stepping import (
    clear_verifier,
    current,
    first_step,
    goes_on,
    noted,
    set_up,
    step_of,
    total,
)
from proctor.benchmarks.harbor.templates import HostVariables
from proctor.benchmarks.harbor.tree import Limits
from proctor.environments.contract import EnvironmentSession, EnvironmentSpec
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
    """Runs Harbor task folders and grades them with their own tests, in the agent's environment
    (mode `reuse`) or, where the task's verifier is a separate one, in its own (mode `fresh`).

    Metrics: `passed` (primary; every reward is at least 1) and `reward` (the key `reward`, else
    the mean of all keys; any finite number).
    """

    id = "harbor"
    version = "1"
    Options = HarborOptions
    evaluation_modes = ("reuse", "fresh")

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

    async def prepare_task(
        self, task: TaskSpec, session: EnvironmentSession | None, plan: Mapping[str, Any]
    ) -> PreparedTask:
        """Wait until the environment is healthy, and set the first step up where there are steps.

        Raises EnvironmentFault `unhealthy`.
        """
        prepared = PreparedTask(task, task.input)
        job = _job(prepared)
        if session is not None:
            await healthy(job.healthcheck, session)
        if job.steps:
            prepared = first_step(task, job.steps)
            if session is not None:
                await set_up(job.steps[0], session, _workdir(task.environment, session))
        return prepared

    async def prepare_step(
        self, prepared: PreparedTask, session: EnvironmentSession
    ) -> PreparedTask:
        """Set the next step up."""
        step = current(_job(prepared), prepared)
        if step is not None:
            await set_up(step, session, _workdir(prepared.task.environment, session))
        return prepared

    async def collect_artifacts(
        self,
        prepared: PreparedTask,
        result: RunResult,
        session: EnvironmentSession,
        context: AttemptContext,
    ) -> RunResult:
        """Run the task's collect commands and keep its artifacts; never changes the answer."""
        job = _job(prepared)
        step = current(job, prepared)
        if step is None:
            return await keep_evidence(job, result, session, context)
        below = f"steps/{step.name}"
        return await keep_evidence(step.verifier, result, session, context, below=below)

    async def evaluate(
        self, prepared: PreparedTask, result: RunResult, session: EnvironmentSession | None
    ) -> Evaluation:
        """Run the task's tests where the agent worked, or where its verifier is, and read their
        reward. After a step that is not the last, say what the next one is."""
        if session is None:
            raise EvaluatorFault("harbor grades in an environment: use mode reuse or fresh")
        job = _job(prepared)
        if (step := current(job, prepared)) is not None:
            return await self._grade_step(job, step, prepared, session)
        verdict = await self._verdict(job, prepared.task, session)
        return evaluated(
            verdict.reward,
            {"verifier": verdict.verifier},
            verdict.artifacts(),
            warnings=verdict.warnings,
        )

    async def _grade_step(
        self, job: VerifierJob, step: StepJob, prepared: PreparedTask, session: EnvironmentSession
    ) -> Evaluation:
        verdict = await self._verdict(step.verifier, prepared.task, session)
        done = [*prepared.state["done"], noted(step, verdict.reward, verdict.verifier)]
        artifacts = verdict.artifacts(f"steps/{step.name}")
        if len(done) < len(job.steps) and goes_on(step, verdict.reward):
            await clear_verifier(session)
            following = step_of(prepared.task, job.steps, len(done), done)
            return Evaluation(artifacts=artifacts, next_step=following, issues=verdict.warnings)
        return evaluated(
            total(done, final=job.final),
            {"steps": done, "dropped_steps": [s.name for s in job.steps[len(done) :]]},
            artifacts,
            complete=len(done) == len(job.steps),
            warnings=verdict.warnings,
        )

    async def _verdict(
        self, job: VerifierJob, task: TaskSpec, session: EnvironmentSession
    ) -> Verdict:
        spec = (task.evaluation_environment if job.separate else None) or task.environment
        return await verdict_of(
            job,
            session,
            workdir=_workdir(spec, session),
            memory_mb=job.memory_mb or self._options().grading_memory_mb,
        )

    def _options(self) -> HarborOptions:
        return self.options if isinstance(self.options, HarborOptions) else HarborOptions()


def _workdir(spec: EnvironmentSpec, session: EnvironmentSession) -> str:
    return session.resolve(spec.workdir or ".")


def _job(prepared: PreparedTask) -> VerifierJob:
    job: Any = prepared.task.data
    if not isinstance(job, VerifierJob):
        raise EvaluatorFault(f"task {prepared.id!r} was not loaded by the harbor benchmark")
    return job
