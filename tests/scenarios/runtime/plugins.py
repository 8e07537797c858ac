"""Real plug-ins that a test makes up: benchmark, harness and environment, with one journal."""

import itertools
import sys
from collections.abc import Mapping
from types import ModuleType
from typing import Any, ClassVar

from proctor.environments.contract import EnvironmentSession, EnvironmentSpec
from proctor.environments.local import LocalEnvironment, LocalSession
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

_MODULE = "proctor_scenario_plugins"
_numbers = itertools.count(1)


def register(component: type[Any]) -> str:
    """A reference `module:Class` under which a request finds this class."""
    module = sys.modules.setdefault(_MODULE, ModuleType(_MODULE))
    name = f"{component.__name__}_{next(_numbers)}"
    setattr(module, name, component)
    return f"{_MODULE}:{name}"


def tasks(*answers: str, **fields: Any) -> list[TaskSpec]:
    """Tasks t1, t2, … with these targets."""
    return [
        TaskSpec(f"t{number}", f"question {number}", answer, **fields)
        for number, answer in enumerate(answers, start=1)
    ]


class Answers(Benchmark):
    """Right when the final answer is the target. Subclass it and set `given`."""

    id = "answers"
    data_required = False
    evaluation_modes: ClassVar[tuple[str, ...]] = ("none", "reuse", "fresh")
    given: ClassVar[list[TaskSpec]] = tasks("a")

    def load_tasks(self) -> list[TaskSpec]:
        return list(self.given)

    def metrics(self) -> MetricContract:
        return MetricContract((MetricSpec("right"),), "right")

    async def evaluate(
        self, prepared: PreparedTask, result: RunResult, session: EnvironmentSession | None
    ) -> Evaluation:
        return Evaluation(metrics={"right": result.final_answer == prepared.task.target})


class Ten(Answers):
    """Ten tasks t1 to t10, all with the target `a`."""

    given: ClassVar[list[TaskSpec]] = tasks(*["a"] * 10)


class Agent(Harness):
    """Answers the target. Override `act` and `leave`."""

    id = "agent"

    async def start(
        self, session: EnvironmentSession, task: PreparedTask, context: AttemptContext
    ) -> HarnessSession:
        return AgentSession(self, session, task, context)

    async def act(
        self, session: EnvironmentSession, task: PreparedTask, context: AttemptContext
    ) -> Any:
        return task.task.target

    async def leave(self) -> None:
        """What `close` of the session does."""


class AgentSession(HarnessSession):
    def __init__(
        self,
        agent: Agent,
        session: EnvironmentSession,
        task: PreparedTask,
        context: AttemptContext,
    ) -> None:
        self._agent = agent
        self._arguments = (session, task, context)

    async def run(self) -> RunResult:
        answer = await self._agent.act(*self._arguments)
        return answer if isinstance(answer, RunResult) else RunResult(final_answer=answer)

    async def close(self) -> None:
        await self._agent.leave()


class RecordingEnvironment(LocalEnvironment):
    """`local` that notes what is done with its sessions, s1, s2, … in the order of opening.

    It claims to switch networks and notes the switches, so that the runtime's order can be seen.
    """

    id = "recording"
    journal: ClassVar[list[str]]

    def __init__(self, options: Any = None) -> None:
        super().__init__(options)
        self._opened = itertools.count(1)

    def problems(self, spec: EnvironmentSpec) -> list[str]:
        return []

    async def open_session(
        self, spec: EnvironmentSpec, labels: Mapping[str, str]
    ) -> EnvironmentSession:
        name = f"s{next(self._opened)}"
        self.journal.append(f"open {name}")
        session = RecordingSession(spec, labels, self._settings)
        session.name, session.journal = name, self.journal
        return session


class RecordingSession(LocalSession):
    name: str
    journal: list[str]

    async def set_network(self, policy: Any) -> None:
        self.journal.append(f"network {self.name} {policy.mode.value}")

    async def end_driver_access(self) -> None:
        self.journal.append(f"no driver {self.name}")

    async def close(self) -> None:
        self.journal.append(f"close {self.name}")
        await super().close()


def recording() -> type[RecordingEnvironment]:
    """A fresh class with a journal of its own."""
    return type("Recording", (RecordingEnvironment,), {"journal": []})


def name_of(session: EnvironmentSession | None) -> str:
    """The name of a recorded session, `none` where there is none."""
    return session.name if isinstance(session, RecordingSession) else "none"
