"""A benchmark and a harness that stay in one phase for as long as the file `stay` exists.

They make the file `reached` when they get there. Everything happens in the working directory.
"""

import asyncio
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict

from proctor.environments.contract import EnvironmentSession, EnvironmentSpec
from proctor.environments.local import LocalEnvironment
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

REACHED, STAY = Path("reached"), Path("stay")


class StayOptions(BaseModel):
    """`stay`: in which phase; `plain`: in code that blocks its thread."""

    model_config = ConfigDict(extra="forbid")
    stay: str = ""
    plain: bool = False


def stays(mark: Path = STAY) -> bool:
    """Whether to stay here."""
    return mark.exists()


def block() -> None:
    """Block this thread."""
    if stays():
        REACHED.touch()
        time.sleep(3600)


async def wait() -> None:
    """Wait in the event loop."""
    if stays():
        REACHED.touch()  # noqa: ASYNC240 - what is tested is slower
        await asyncio.sleep(3600)


class Questions(Benchmark):
    id = "questions"
    Options = StayOptions
    data_required = False
    evaluation_modes: ClassVar[tuple[str, ...]] = ("none",)

    def load_tasks(self) -> list[TaskSpec]:
        if self.options.stay == "prepare":
            block()
        return [TaskSpec("t1", "q", "a"), TaskSpec("t2", "q", "a")]

    def metrics(self) -> MetricContract:
        return MetricContract((MetricSpec("right"),), "right")

    def evaluate(
        self, prepared: PreparedTask, result: RunResult, session: EnvironmentSession | None
    ) -> Any:
        if prepared.id == "t2" and self.options.stay == "evaluate":
            if self.options.plain:
                block()
            else:
                return self._later()
        return Evaluation(metrics={"right": True})

    async def _later(self) -> Evaluation:
        await wait()
        return Evaluation(metrics={"right": True})


class Place(LocalEnvironment):
    id = "place"

    async def open_session(
        self, spec: EnvironmentSpec, labels: Mapping[str, str]
    ) -> EnvironmentSession:
        if labels["task"] == "t2" and stays(Path("stay-in-open")):
            await wait()
        return await super().open_session(spec, labels)


class Agent(Harness):
    id = "agent"
    Options = StayOptions

    async def start(
        self, session: EnvironmentSession, task: PreparedTask, context: AttemptContext
    ) -> HarnessSession:
        return AgentSession(self.options, session, task)


class AgentSession(HarnessSession):
    def __init__(
        self, options: StayOptions, session: EnvironmentSession, task: PreparedTask
    ) -> None:
        self.options, self.session, self.task = options, session, task

    async def run(self) -> RunResult:
        if self.options.stay == "both" and stays():
            await self._both()
        if self.task.id == "t2" and self.options.stay == "run":
            if self.options.plain:
                block()  # holds the whole event loop
            await self._command()
        return RunResult(final_answer="a")

    async def _command(self) -> None:
        """A real agent process, with a helper in the background."""
        if stays():
            reached = f"{os.getcwd()}/{REACHED}"
            await self.session.exec(f"sleep 3600 & touch '{reached}'; sleep 3600")

    async def _both(self) -> None:
        """One task has a process running when the other one blocks the loop."""
        runs = Path("agent-runs")
        if self.task.id == "t1":
            await self.session.exec(f"touch '{os.getcwd()}/{runs}'; sleep 3600 & sleep 3600")
        while not stays(runs):  # noqa: ASYNC110 - another process makes it
            await asyncio.sleep(0.01)
        block()
