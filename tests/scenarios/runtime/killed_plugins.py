"""The plug-ins of the runs that get killed: whatever they do is told in a log outside the run."""

import os
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict

from proctor.environments.contract import EnvironmentSession
from proctor.evals.contracts import (
    AttemptContext,
    Benchmark,
    Evaluation,
    Harness,
    HarnessSession,
    MetricContract,
    MetricSpec,
    PreparedTask,
    RunResult,
    TaskSpec,
)


def tell(log: str, what: str, task_id: str, attempt: object) -> None:
    """One line in one write: what, task, attempt, and the process that did it."""
    line = f"{what} {task_id} {attempt} {os.getpid()}\n"
    fd = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    try:
        os.write(fd, line.encode())
    finally:
        os.close(fd)


def keep(context: AttemptContext, text: str) -> None:
    context.artifact_path("try.txt").write_text(text, "utf-8")


class QuestionOptions(BaseModel):
    model_config = ConfigDict(extra="forbid")
    tasks: int
    log: str


class Questions(Benchmark):
    """Grades with a command where it has an environment; keeps one artifact an attempt."""

    id = "questions"
    Options = QuestionOptions
    data_required = False
    evaluation_modes: ClassVar[tuple[str, ...]] = ("none", "reuse", "fresh")

    def load_tasks(self) -> list[TaskSpec]:
        return [TaskSpec(f"t{n}", f"q{n}", str(n)) for n in range(1, self.options.tasks + 1)]

    def metrics(self) -> MetricContract:
        return MetricContract((MetricSpec("right"),), "right")

    async def prepare_task(
        self, task: TaskSpec, session: EnvironmentSession | None, plan: Any
    ) -> PreparedTask:
        return PreparedTask(task, task.input, {"prepared": True})

    async def collect_artifacts(
        self,
        prepared: PreparedTask,
        result: RunResult,
        session: EnvironmentSession,
        context: AttemptContext,
    ) -> RunResult:
        context.artifact_path("kept.txt").write_text(f"{context.task_id} {context.attempt}\n")
        return result

    async def evaluate(
        self, prepared: PreparedTask, result: RunResult, session: EnvironmentSession | None
    ) -> Evaluation:
        tell(self.options.log, "evaluate", prepared.id, result.telemetry["attempt"])
        right = result.final_answer == prepared.task.target and prepared.state["prepared"]
        if session is not None:
            done = await session.exec(
                ["test", str(result.final_answer), "-eq", prepared.task.target]
            )
            right = right and done.ok
        return Evaluation(metrics={"right": right}, artifacts={"graded.txt": b"graded\n"})


class AgentOptions(BaseModel):
    model_config = ConfigDict(extra="forbid")
    log: str
    fails_first: int = 0
    works_s: float = 0.0


class Worker(Harness):
    """Answers right, after `fails_first` tries of each attempt that end with an error."""

    id = "worker"
    Options = AgentOptions

    def __init__(self, options: AgentOptions) -> None:
        super().__init__(options)
        self.tries: dict[tuple[str, int], int] = {}

    async def start(
        self, session: EnvironmentSession, task: PreparedTask, context: AttemptContext
    ) -> HarnessSession:
        return WorkerSession(self, session, task, context)


class WorkerSession(HarnessSession):
    def __init__(
        self,
        worker: Worker,
        session: EnvironmentSession,
        task: PreparedTask,
        context: AttemptContext,
    ) -> None:
        self.worker, self.session, self.task, self.context = worker, session, task, context

    async def run(self) -> RunResult:
        context, options = self.context, self.worker.options
        tell(options.log, "run", context.task_id, context.attempt)
        key = context.task_id, context.attempt
        number = self.worker.tries[key] = self.worker.tries.get(key, 0) + 1
        keep(context, f"try {number}\n")
        await self.session.exec(f"sleep {options.works_s}")
        if number <= options.fails_first:
            return RunResult(error=f"try {number} went wrong")
        return RunResult(final_answer=self.task.task.target, telemetry={"attempt": context.attempt})
