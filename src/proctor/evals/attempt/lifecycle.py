"""One try of an attempt, from its plan to its evaluation.

    plan → open → prepare → start → run → close session → collect
      mode reuse:        evaluate in the task's session (→ next step: start …) → close
      modes none, fresh: run record durable → close → evaluate without, or in a new session

Ownership nests and is released from the inside out on every path. Faults become issues where
they are raised; `CancelledError`, `KeyboardInterrupt` and `SystemExit` always propagate.
"""

import asyncio
from collections.abc import Mapping
from pathlib import Path

from proctor.environments.contract import EnvironmentSession
from proctor.environments.gates import current_permit
from proctor.evals.attempt.blame import PhaseFailed, failed
from proctor.evals.attempt.calls import DeadlineReached
from proctor.evals.attempt.checking import checked_evaluation, checked_prepared
from proctor.evals.attempt.grading import Grade, grade
from proctor.evals.attempt.handover import hand_over
from proctor.evals.attempt.inference import Inference, switch_network, timed_step, too_late
from proctor.evals.attempt.job import AttemptJob
from proctor.evals.attempt.ownership import Ownership
from proctor.evals.attempt.phases import PhaseLog
from proctor.evals.attempt.record import run_record
from proctor.evals.attempt.services import AttemptServices
from proctor.evals.attempt.spoiled import Spoiled, after_agent, judged
from proctor.evals.contracts.benchmark import Benchmark
from proctor.evals.contracts.result import Artifact, Evaluation, RunResult
from proctor.evals.contracts.task import PreparedTask
from proctor.evals.planner import ExecutionPlan
from proctor.evals.results.artifacts import keep_all
from proctor.evals.selection import task_problems
from proctor.kernel.errors import EnvironmentFault, EvaluatorFault
from proctor.kernel.issues import Cause, Issue, Phase, Severity
from proctor.models.contract import Usage

TASK_ENVIRONMENT = "environment"
EVALUATION_ENVIRONMENT = "evaluation environment"


class ReturnedError(Exception):
    """Inference returned an error that the retry policy wants to try again."""

    def __init__(self, error: str) -> None:
        super().__init__(error)


class Try:
    """One execution of an attempt. After `grade`, `result` and `artifacts` hold what it left."""

    def __init__(self, services: AttemptServices, job: AttemptJob) -> None:
        self._s = services
        self._job = job
        self.log = PhaseLog(services.clock, job)
        self.result: RunResult | None = None
        self.artifacts: tuple[Artifact, ...] = ()
        self._inference = Inference(services, job, self.log)
        self._earlier = Usage()
        """Of the steps before the current one."""

    @property
    def usage(self) -> Usage:
        """What this try spent on the model, also when it failed."""
        now = self.result.usage if self.result is not None else self._inference.usage
        return self._earlier + now

    async def grade(self) -> Grade:
        """Do what is left of the attempt. Raises PhaseFailed or ReturnedError."""
        job = self._job
        if job.result is None:
            job.phases_s.clear()
        plan = await self._plan()
        if job.result is not None and job.prepared is not None:
            self.result = job.result
            self.log.issues.extend(job.result_issues)
            return await self._evaluate_detached(plan, job.prepared, job.result)
        owned = Ownership()
        try:
            async with owned:
                session = await self._open(plan, owned, TASK_ENVIRONMENT)
                prepared = await self._prepare(plan, session)
                async with after_agent(session, acted=lambda: self._inference.acted):
                    result = self.result = await self._inference.run(plan, session, prepared)
                self._refuse_error(result)
                if plan.evaluation_mode == "reuse":
                    return await self._in_place(plan, session, prepared, result)
                await self._keep_run(prepared, result)
        except Spoiled as spoiled:
            raise await judged(spoiled, self._s, plan, self._labels(), self.log.issues) from None
        finally:
            self.log.issues.extend(owned.warnings)
        permit = current_permit.get()
        if permit is not None and plan.evaluation_mode == "none":
            permit.release()  # no environment of this try is open any more
        return await self._evaluate_detached(plan, prepared, result)

    async def _in_place(
        self,
        plan: ExecutionPlan,
        session: EnvironmentSession,
        prepared: PreparedTask,
        result: RunResult,
    ) -> Grade:
        """Grade in the task's session, step after step where the task has several."""
        while True:
            async with after_agent(session):
                await self._end_agent(session, plan)
            await self._enter_evaluation(session, plan)
            async with after_agent(session):
                evaluation = await self._evaluated(plan, prepared, result, session)
            if evaluation.next_step is None:
                return grade(self._s.contract, evaluation)
            self.log.issues.extend(evaluation.issues)
            prepared = await self._prepare_step(plan, session, evaluation.next_step)
            self._earlier, self.result = self.usage, None
            self._inference = Inference(self._s, self._job, self.log)
            timed = timed_step(plan, prepared)
            async with after_agent(session):
                result = self.result = await self._inference.run(timed, session, prepared)
            self._refuse_error(result)

    async def _prepare_step(
        self, plan: ExecutionPlan, session: EnvironmentSession, prepared: PreparedTask
    ) -> PreparedTask:
        with self.log.phase(Phase.PREPARE):
            await switch_network(session, plan.environment, "baseline", plan, self._s.calls)
        async with after_agent(session):
            with self.log.phase(Phase.PREPARE):
                ready = await self._s.calls.plugin(
                    "preparing the step",
                    self._s.components.benchmark.prepare_step,
                    prepared,
                    session,
                    limit_s=plan.open_timeout_s,
                )
                return checked_prepared(ready, self._job.task)

    async def _plan(self) -> ExecutionPlan:
        job, environment = self._job, self._s.components.environment
        if job.task.invalid is not None:
            # Nothing of it can run, yet nothing was measured wrongly: unavailable, not fatal.
            issue = Issue(
                Severity.ERROR, Phase.PREPARE, Cause.BENCHMARK, "invalid_task", job.task.invalid
            )
            raise PhaseFailed(issue, permanent=True, retry_after_s=None)
        if job.plan is None:  # a retry reuses the attempt's plan
            with self.log.phase(Phase.PLAN):
                plan, digest = self._s.planner.plan(job.task)
                if problems := task_problems(self._s.components, job.task):
                    raise EnvironmentFault(
                        "; ".join(problems), code="task_unsuitable", permanent=True
                    )
                job.digests = self._s.digests.of_task(job.task)
                await self._s.store.begin(job.task, job.index, plan, digest)
                job.plan, job.plan_digest = plan, digest
        assert job.plan is not None
        with self.log.phase(Phase.PLAN):
            for code, message in environment.notices(job.plan.environment):
                self.log.note(Severity.WARNING, Phase.PLAN, Cause.ENVIRONMENT, code, message)
        return job.plan

    async def _open(self, plan: ExecutionPlan, owned: Ownership, name: str) -> EnvironmentSession:
        """The task's environment, or the one that grades it."""
        with self.log.phase(Phase.OPEN):
            session: EnvironmentSession = await self._s.calls.bounded(
                "opening the environment", self._opened(plan, owned, name), plan.open_timeout_s
            )
        return session

    async def _opened(self, plan: ExecutionPlan, owned: Ownership, name: str) -> EnvironmentSession:
        """Open a session and own it in the same step; one that comes too late is closed."""
        labels = self._labels()
        if plan.keep_environment:
            labels["kept"] = "true"  # spared when what this process leaves is cleaned up
        spec = plan.environment if name == TASK_ENVIRONMENT else plan.grading
        session = await self._s.components.environment.open(spec, labels)
        if too_late():
            await session.close()
            raise asyncio.CancelledError
        if not plan.keep_environment:
            owned.add(name, session.close)
        if spec.network.switches:
            baseline = spec.network.baseline
            owned.add(f"network of the {name}", lambda: session.set_network(baseline))
        return session

    def _labels(self) -> dict[str, str]:
        return {**self._s.labels, "task": self._job.task.id, "attempt": str(self._job.index)}

    async def _prepare(self, plan: ExecutionPlan, session: EnvironmentSession) -> PreparedTask:
        task, benchmark = self._job.task, self._s.components.benchmark
        with self.log.phase(Phase.PREPARE):
            if task.files:
                placing = _place(session, task.files)
                await self._s.calls.bounded("placing files", placing, plan.open_timeout_s)
            if type(benchmark).prepare_task is Benchmark.prepare_task:
                return PreparedTask(task, task.input)
            prepared = await self._s.calls.plugin(
                "preparing the task",
                benchmark.prepare_task,
                task,
                session,
                plan.benchmark_plan,
                limit_s=plan.open_timeout_s,
            )
            return checked_prepared(prepared, task)

    def _refuse_error(self, result: RunResult) -> None:
        """An error that inference returned is tried again when a pattern wants it."""
        if result.error and self._s.retry.decide(result.error, self._job.retries).retry:
            raise ReturnedError(result.error)

    async def _keep_run(self, prepared: PreparedTask, result: RunResult) -> None:
        job = self._job
        job.result_issues = tuple(self.log.issues)
        record = run_record(job, prepared, result)
        await self._s.store.store_run(job.task, job.index, record)
        job.prepared, job.result = prepared, result

    async def _evaluate_detached(
        self, plan: ExecutionPlan, prepared: PreparedTask, result: RunResult
    ) -> Grade:
        if plan.evaluation_mode == "none":
            return await self._evaluate(plan, prepared, result, None)
        owned = Ownership()
        try:
            async with owned:
                session = await self._open(plan, owned, EVALUATION_ENVIRONMENT)
                await self._hand_over(session, plan, result)
                with self.log.phase(Phase.EVALUATE):
                    await switch_network(session, plan.grading, "evaluation", plan, self._s.calls)
                return await self._evaluate(plan, prepared, result, session)
        finally:
            self.log.issues.extend(owned.warnings)

    async def _hand_over(
        self, session: EnvironmentSession, plan: ExecutionPlan, result: RunResult
    ) -> None:
        folder = self._s.store.artifacts_dir(self._job.task, self._job.index)
        with self.log.phase(Phase.EVALUATE):
            handing = hand_over(session, folder, result.artifacts, self._s.calls.threads)
            await self._s.calls.bounded("handing artifacts over", handing, plan.open_timeout_s)

    async def _end_agent(self, session: EnvironmentSession, plan: ExecutionPlan) -> None:
        """Nothing that the agent left running runs beside the grading, or there is none."""
        with self.log.phase(Phase.EVALUATE):
            if plan.environment.driver_access:
                await session.end_driver_access()
            killing = session.kill_processes()
            try:
                await self._s.calls.bounded(
                    "ending the agent's processes", killing, plan.open_timeout_s
                )
            except DeadlineReached as reached:
                raise EnvironmentFault(str(reached), code="unkillable") from None

    async def _enter_evaluation(self, session: EnvironmentSession, plan: ExecutionPlan) -> None:
        with self.log.phase(Phase.EVALUATE):
            await switch_network(session, plan.environment, "evaluation", plan, self._s.calls)

    async def _evaluate(
        self,
        plan: ExecutionPlan,
        prepared: PreparedTask,
        result: RunResult,
        session: EnvironmentSession | None,
    ) -> Grade:
        evaluation = await self._evaluated(plan, prepared, result, session)
        if evaluation.next_step is not None:
            message = f"a next step needs evaluation mode reuse, not {plan.evaluation_mode}"
            fault = EvaluatorFault(message, permanent=True)
            raise failed(Phase.EVALUATE, fault) from fault
        return grade(self._s.contract, evaluation)

    async def _evaluated(
        self,
        plan: ExecutionPlan,
        prepared: PreparedTask,
        result: RunResult,
        session: EnvironmentSession | None,
    ) -> Evaluation:
        with self.log.phase(Phase.EVALUATE):
            evaluation = await self._s.calls.plugin(
                "the evaluation",
                self._s.components.benchmark.evaluate,
                prepared,
                result,
                session,
                limit_s=plan.evaluation_timeout_s,
            )
            evaluation = checked_evaluation(evaluation)
            self.artifacts = result.artifacts
            if evaluation.artifacts:
                folder = self._s.store.artifacts_dir(self._job.task, self._job.index)
                self.artifacts += await self._s.calls.threads.call(
                    "keeping artifacts", keep_all, folder, evaluation.artifacts
                )
            return evaluation


async def _place(session: EnvironmentSession, files: Mapping[str, Path]) -> None:
    for target, source in files.items():
        await session.upload(source, target)
