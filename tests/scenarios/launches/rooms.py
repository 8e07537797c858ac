"""Plug-ins for launches in processes of their own. They tell what they do through a named pipe, and
stay in a phase for ever when an environment variable says so: it is no part of the request.

Loaded by proctor as `rooms.py:Class`; imports nothing of the tests.
"""

import asyncio
import json
import os
import secrets
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from proctor.environments.contract import EnvironmentSession, EnvironmentSpec
from proctor.environments.local import LocalEnvironment, LocalOptions, LocalSession
from proctor.evals.contracts import (
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
from proctor.kernel.errors import AgentFault

FOREVER_S = 3_600.0


def tell(what: str) -> None:
    """One line into the pipe that ROOMS_EVENTS names; lines this short are never mixed."""
    if pipe := os.environ.get("ROOMS_EVENTS"):
        fd = os.open(pipe, os.O_WRONLY)
        try:
            os.write(fd, f"{what}\n".encode())
        finally:
            os.close(fd)


def held(phase: str, task_id: str) -> bool:
    """Whether ROOMS_HOLD says to stay here: `<phase>`, or `<phase> <task id>`."""
    return os.environ.get("ROOMS_HOLD") in (phase, f"{phase} {task_id}")


def block(phase: str, what: str) -> None:
    tell(f"{phase} {what}")
    if held(phase, what):
        threading.Event().wait(FOREVER_S)


async def wait(phase: str, what: str) -> None:
    tell(f"{phase} {what}")
    if held(phase, what):
        await asyncio.sleep(FOREVER_S)


class StepsOptions(BaseModel):
    tasks: int = 3
    target: str = "yes"


class Steps(Benchmark):
    """Right when the answer is the target."""

    id = "steps"
    data_required = False
    evaluation_modes = ("none", "fresh", "reuse")
    Options = StepsOptions
    options: StepsOptions

    def load_tasks(self) -> list[TaskSpec]:
        block("prepare", str(os.getpid()))
        return [
            TaskSpec(f"t{n}", f"question {n}", self.options.target)
            for n in range(1, self.options.tasks + 1)
        ]

    def metrics(self) -> MetricContract:
        return MetricContract((MetricSpec("right"),), "right")

    def evaluate(
        self, prepared: PreparedTask, result: RunResult, session: EnvironmentSession | None
    ) -> Evaluation:
        block("evaluate", prepared.task.id)
        return Evaluation(metrics={"right": result.final_answer == prepared.task.target})

    async def close(self) -> None:
        await wait("finalise", str(os.getpid()))


class WorkerOptions(BaseModel):
    """`deaf`: the agent's process ignores SIGTERM. `loop`: it blocks the event loop instead.
    `fail_first`: the first try of every attempt fails."""

    deaf: bool = False
    loop: bool = False
    fail_first: bool = False
    answer: str = "yes"


class Worker(Harness):
    """Runs a real child in its session."""

    id = "worker"
    Options = WorkerOptions
    options: WorkerOptions

    def __init__(self, options: WorkerOptions) -> None:
        super().__init__(options)
        self.tries: dict[tuple[str, int], int] = {}

    async def start(
        self, session: EnvironmentSession, task: PreparedTask, context: Any
    ) -> HarnessSession:
        return WorkerSession(self, session, context)


class WorkerSession(HarnessSession):
    def __init__(self, worker: Worker, session: EnvironmentSession, context: Any) -> None:
        self._worker, self._session, self._context = worker, session, context

    async def run(self) -> RunResult:
        options, key = self._worker.options, (self._context.task_id, self._context.attempt)
        tries = self._worker.tries[key] = self._worker.tries.get(key, 0) + 1
        if held("run", key[0]):
            if options.loop:
                block("run", key[0])
            trap = "trap '' TERM; " if options.deaf else ""
            pipe = os.environ["ROOMS_EVENTS"]
            # The agent ends with its driver, so that a killed one leaves nothing for ever.
            stay = "while kill -0 $PPID 2>/dev/null; do sleep 0.2; done"
            await self._session.exec(f"{trap}echo run {key[0]} >{pipe}; {stay}")
        tell(f"run {key[0]} {key[1]} {tries}")
        if options.fail_first and tries == 1:
            raise AgentFault(f"the first try of {key[0]} attempt {key[1]} fails")
        done = await self._session.exec(["echo", options.answer])
        return RunResult(final_answer=done.stdout.strip())


class RoomsOptions(LocalOptions):
    """`registry`: the folder that stands for the provider's own list of resources."""

    registry: str


class Rooms(LocalEnvironment):
    """`local` with a list of its rooms outside of the driver, as a provider of machines has one.

    A room is listed, under its labels and a name of its own, before `open` returns.
    """

    id = "rooms"
    Options = RoomsOptions
    options: RoomsOptions

    async def open_session(
        self, spec: EnvironmentSpec, labels: Mapping[str, str]
    ) -> EnvironmentSession:
        name = f"{labels['run']}-{labels['task']}-{labels['attempt']}-{secrets.token_hex(4)}"
        place = Path(self.options.registry, f"{name}.json")
        self.list(place, labels)
        try:
            await wait("open", labels["task"])
        except BaseException:
            self.strike(place)
            raise
        room = Room(spec, labels, self._settings)
        room.place = place
        return room

    @staticmethod
    def list(place: Path, labels: Mapping[str, str]) -> None:
        with place.open("x", encoding="utf-8") as file:
            json.dump(dict(labels), file)

    @staticmethod
    def strike(place: Path) -> None:
        place.unlink(missing_ok=True)


class Room(LocalSession):
    place: Path

    async def close(self) -> None:
        await super().close()
        Rooms.strike(self.place)
