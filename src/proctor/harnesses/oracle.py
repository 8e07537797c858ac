"""The agent that knows the reference solution: what it fails is a broken task."""

from dataclasses import dataclass

from proctor.environments.contract import EnvironmentSession
from proctor.evals.contracts import (
    AttemptContext,
    Harness,
    HarnessSession,
    PreparedTask,
    Reference,
    RunResult,
)
from proctor.kernel.errors import AgentFault

OUTPUT_KEPT_CHARS = 4_000


class Oracle(Harness):
    """Answers the task's reference, or runs its solution script in the environment."""

    id = "oracle"
    needs_reference = True

    async def start(
        self, session: EnvironmentSession, task: PreparedTask, context: AttemptContext
    ) -> HarnessSession:
        reference = task.reference
        if reference is None:
            raise AgentFault("the task has no reference solution", permanent=True)
        if reference.script is None:
            return _Answer(reference)
        return _Script(session, reference, context.deadline_s)


@dataclass(slots=True)
class _Answer(HarnessSession):
    reference: Reference

    async def run(self) -> RunResult:
        return RunResult(final_answer=self.reference.answer)


@dataclass(slots=True)
class _Script(HarnessSession):
    keeps_time = True
    session: EnvironmentSession
    reference: Reference
    deadline_s: float | None

    async def run(self) -> RunResult:
        """Upload the solution folder and run its script from the working directory."""
        folder, script = self.reference.folder, self.reference.script
        if folder is None or script is None:
            raise AgentFault("the reference names no solution folder", permanent=True)
        target = self.session.paths.solution
        await self.session.upload(folder, target)
        done = await self.session.exec(
            ["bash", f"{target}/{script}"],
            env={**self.session.script_env(), **self.reference.env},
            timeout_s=self.deadline_s,
        )
        return RunResult(
            final_answer="",
            exit_code=done.exit_code,
            timed_out=done.timed_out,
            telemetry={
                "stdout": done.stdout[-OUTPUT_KEPT_CHARS:],
                "stderr": done.stderr[-OUTPUT_KEPT_CHARS:],
                **({"out_of_memory": True} if done.out_of_memory else {}),
                **({"out_of_storage": True} if done.out_of_storage else {}),
            },
        )
