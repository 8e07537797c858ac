"""The agent's part of a try: start the harness, run it within its time, collect what it left."""

import asyncio
import os
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

from proctor.environments.contract import EnvironmentSession, EnvironmentSpec
from proctor.evals.attempt.calls import Calls, DeadlineReached
from proctor.evals.attempt.checking import checked_result
from proctor.evals.attempt.job import AttemptJob
from proctor.evals.attempt.ownership import Ownership
from proctor.evals.attempt.phases import PhaseLog
from proctor.evals.attempt.services import AttemptServices
from proctor.evals.contracts.benchmark import Benchmark, HarnessFreeBenchmark
from proctor.evals.contracts.harness import AttemptContext, Harness, HarnessSession
from proctor.evals.contracts.model import AttemptModel
from proctor.evals.contracts.result import RunResult
from proctor.evals.contracts.task import PreparedTask
from proctor.evals.planner import ExecutionPlan
from proctor.evals.results.artifacts import inventory
from proctor.kernel import jsontext
from proctor.kernel.issues import Cause, Phase, Severity
from proctor.models.contract import CallContext, Usage

OWN_TIME_MARGIN_S = 2.0
"""How much later than its deadline a harness that keeps time itself is cut off."""


class Inference:
    """Yields the raw RunResult of one try; never scores it."""

    def __init__(self, services: AttemptServices, job: AttemptJob, log: PhaseLog) -> None:
        self._s = services
        self._job = job
        self._log = log
        self._model: AttemptModel | None = None
        self._over = False
        self.acted = False
        """Whether the agent has begun: what comes before is set-up that is trusted."""

    async def run(
        self, plan: ExecutionPlan, session: EnvironmentSession, prepared: PreparedTask
    ) -> RunResult:
        """Run the agent in its session and collect its artifacts. Raises PhaseFailed."""
        try:
            return await self._run(plan, session, prepared)
        finally:
            self._over = True

    async def _run(
        self, plan: ExecutionPlan, session: EnvironmentSession, prepared: PreparedTask
    ) -> RunResult:
        context = self._context(plan, prepared)
        owned = Ownership()
        try:
            async with owned:
                with self._log.phase(Phase.RUN):
                    result = await self._agent(plan, session, prepared, context, owned)
        finally:
            self._log.issues.extend(owned.warnings)
        self._note(plan, result)
        with self._log.phase(Phase.COLLECT):
            collected = await self._collect(plan, session, prepared, result, context)
        noted = set(map(id, result.issues))
        self._log.issues.extend(issue for issue in collected.issues if id(issue) not in noted)
        return collected

    @property
    def usage(self) -> Usage:
        """What was spent on the model so far, also when the run failed."""
        return self._model.usage if self._model is not None else Usage()

    async def _agent(
        self,
        plan: ExecutionPlan,
        session: EnvironmentSession,
        prepared: PreparedTask,
        context: AttemptContext,
        owned: Ownership,
    ) -> RunResult:
        harness, calls = self._s.components.harness, self._s.calls
        _end_access(owned, plan, session)  # also where the harness does not start
        if harness is None:
            return await self._harness_free(plan, session, prepared, context)
        starting = self._start(harness, session, prepared, context, owned)
        agent = await calls.bounded("starting the harness", starting, plan.open_timeout_s)
        _end_access(owned, plan, session)  # before the harness closes, and its service with it
        await switch_network(session, plan.environment, "run", plan, calls)
        limit = plan.agent_timeout_s
        if limit is not None and agent.keeps_time:
            limit += OWN_TIME_MARGIN_S
        self.acted = True
        return await self._within(calls.bounded("the agent", agent.run(), limit), agent.partial)

    @staticmethod
    async def _start(
        harness: Harness,
        session: EnvironmentSession,
        prepared: PreparedTask,
        context: AttemptContext,
        owned: Ownership,
    ) -> HarnessSession:
        """Start an agent and own it in the same step; one that comes too late is closed."""
        agent = await harness.start(session, prepared, context)
        closes = type(agent).close is not HarnessSession.close
        if too_late():
            if closes:
                await agent.close()
            raise asyncio.CancelledError
        if closes:
            owned.add("harness session", agent.close)
        return agent

    async def _harness_free(
        self,
        plan: ExecutionPlan,
        session: EnvironmentSession,
        prepared: PreparedTask,
        context: AttemptContext,
    ) -> RunResult:
        benchmark = self._s.components.benchmark
        assert isinstance(benchmark, HarnessFreeBenchmark)  # checked in preflight
        await switch_network(session, plan.environment, "run", plan, self._s.calls)
        self.acted = True
        call = self._s.calls.plugin(
            "the agent",
            benchmark.run_task,
            prepared,
            session,
            context,
            limit_s=plan.agent_timeout_s,
        )
        return await self._within(call, RunResult)

    async def _within(self, call: Awaitable[Any], partial: Callable[[], RunResult]) -> RunResult:
        """The agent's result; at its time limit, what is known."""
        try:
            return self._checked(await call)
        except DeadlineReached:
            return replace(self._checked(partial()), timed_out=True)

    def _checked(self, result: Any) -> RunResult:
        checked = checked_result(result)
        if checked.usage == Usage():
            return replace(checked, usage=self.usage)
        return checked

    def _note(self, plan: ExecutionPlan, result: RunResult) -> None:
        self._log.issues.extend(result.issues)
        if result.timed_out:
            limit = "" if plan.agent_timeout_s is None else f" of {plan.agent_timeout_s:g} s"
            message = f"the agent reached its time limit{limit}"
            self._log.note(Severity.ERROR, Phase.RUN, Cause.AGENT, "agent_timeout", message)
        if result.telemetry.get("out_of_memory") is True:
            message = "the agent ran out of the memory that its environment allows"
            self._log.note(Severity.ERROR, Phase.RUN, Cause.AGENT, "agent_out_of_memory", message)
        if result.telemetry.get("out_of_storage") is True:
            message = "the agent filled more disk than its environment allows"
            self._log.note(Severity.ERROR, Phase.RUN, Cause.AGENT, "agent_out_of_storage", message)
        if result.exit_code not in (None, 0):
            message = f"the agent exited with code {result.exit_code}"
            self._log.note(Severity.WARNING, Phase.RUN, Cause.AGENT, "agent_exit", message)
        if result.error and not result.timed_out:
            self._log.note(Severity.ERROR, Phase.RUN, Cause.AGENT, "agent_error", result.error)

    async def _collect(
        self,
        plan: ExecutionPlan,
        session: EnvironmentSession,
        prepared: PreparedTask,
        result: RunResult,
        context: AttemptContext,
    ) -> RunResult:
        benchmark = self._s.components.benchmark
        if type(benchmark).collect_artifacts is not Benchmark.collect_artifacts:
            result = self._checked(
                await self._s.calls.plugin(
                    "collecting artifacts",
                    benchmark.collect_artifacts,
                    prepared,
                    result,
                    session,
                    context,
                    limit_s=plan.evaluation_timeout_s,
                )
            )
        if not self._job.artifacts_asked:  # nobody knew where to put any
            return result
        folder = os.fspath(context.artifacts_place)
        if not os.path.isdir(folder):  # noqa: ASYNC240 - one stat
            return result
        missed: list[OSError] = []
        found = await self._s.calls.threads.call("inventory", inventory, folder, missed)
        if missed:
            message = f"{len(missed)} artifacts or folders cannot be read: {missed[0]!s:.300}"
            self._log.note(
                Severity.WARNING, Phase.COLLECT, Cause.AGENT, "artifacts_unreadable", message
            )
        return replace(result, artifacts=found)

    def _context(self, plan: ExecutionPlan, prepared: PreparedTask) -> AttemptContext:
        model = self._s.components.model
        if model is not None:
            call = CallContext(self._job.task.id, self._job.index, _reference_text(prepared))
            self._model = AttemptModel(model, call, self._s.budget)
        return AttemptContext(
            task_id=self._job.task.id,
            attempt=self._job.index,
            deadline_s=plan.agent_timeout_s,
            model=self._model,
            artifacts_place=self._s.store.artifacts_dir(self._job.task, self._job.index),
            below="" if prepared.step is None else f"steps/{prepared.step}",
            still_open=lambda: not self._over,
            asked=self._note_artifacts,
        )

    def _note_artifacts(self) -> None:
        self._job.artifacts_asked = True


async def switch_network(
    session: EnvironmentSession,
    spec: EnvironmentSpec,
    phase: str,
    plan: ExecutionPlan,
    calls: Calls,
) -> None:
    """Put the phase's policy of `spec` in force, where its phases differ."""
    if spec.network.switches:
        switching = session.set_network(getattr(spec.network, phase))
        await calls.bounded("switching the network", switching, plan.open_timeout_s)


def _end_access(owned: Ownership, plan: ExecutionPlan, session: EnvironmentSession) -> None:
    """The way to the driver ends with the agent's run, in every evaluation mode."""
    if plan.environment.driver_access:
        owned.add("access to the driver", session.end_driver_access)


def timed_step(plan: ExecutionPlan, prepared: PreparedTask) -> ExecutionPlan:
    """The plan with the step's own time limit, unless the request sets one for all."""
    own = prepared.agent_timeout_s
    if own is None or plan.agent_timeout_s != prepared.task.agent_timeout_s:
        return plan
    return replace(plan, agent_timeout_s=own)


def too_late() -> bool:
    """Whether the code that asks has been cancelled: nobody takes what it acquired."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _reference_text(prepared: PreparedTask) -> str | None:
    answer = prepared.reference.answer if prepared.reference is not None else None
    return answer if answer is None or isinstance(answer, str) else jsontext.dumps(answer)
