"""Plug-ins and services for the executor suite: real parts, and a log in a file that any machine
sharing the folder can write.
"""

import asyncio
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

from pydantic import BaseModel

from proctor.environments.contract import EnvironmentSession
from proctor.environments.local import LocalEnvironment
from proctor.evals.attempt.calls import Calls
from proctor.evals.attempt.job import AttemptJob
from proctor.evals.attempt.services import AttemptServices
from proctor.evals.components import Components
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
from proctor.evals.contracts.plan import AttemptPlan
from proctor.evals.digests import RequestDigests
from proctor.evals.options import validate
from proctor.evals.planner import Planner
from proctor.evals.request import RunRequest
from proctor.evals.results.layout import RunLayout
from proctor.evals.results.writer import RunWriter
from proctor.evals.strategy import CompleteAll
from proctor.evals.threads import TrackedThreads
from proctor.kernel.clock import SystemClock
from proctor.kernel.errors import EnvironmentFault
from proctor.kernel.redact import Redactor
from proctor.kernel.retry import RetryPolicy

FOREVER_S = 3_600.0


class Told(BaseModel):
    """`log`: the file. `does`: what this part does, see where it is used."""

    log: str
    does: str = "well"

    def tell(self, what: str) -> int:
        """One line in one write; how many of these lines there are now."""
        fd = os.open(self.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        try:
            os.write(fd, f"{what}\n".encode())
        finally:
            os.close(fd)
        return Path(self.log).read_text("utf-8").splitlines().count(what)


class Probe(Benchmark):
    """Right when the answer is `yes`. `does`: well, crash, or crash once."""

    id = "probe"
    Options = Told
    data_required = False
    evaluation_modes: ClassVar[tuple[str, ...]] = ("none", "fresh", "reuse")
    options: Told

    def load_tasks(self) -> list[TaskSpec]:
        return [TaskSpec("t1", "Is it?", "yes")]

    def metrics(self) -> MetricContract:
        return MetricContract((MetricSpec("right"),), "right")

    async def evaluate(
        self, prepared: PreparedTask, result: RunResult, session: EnvironmentSession | None
    ) -> Evaluation:
        times = self.options.tell("evaluate")
        if self.options.does == "crash" or (self.options.does == "crash once" and times == 1):
            raise RuntimeError("the grader crashed")
        return Evaluation(metrics={"right": result.final_answer == prepared.task.target})


class Agent(Harness):
    """Answers `yes`. `does`: well, crash, crash once, lose (its environment), or hang."""

    id = "probed"
    Options = Told
    options: Told

    async def start(
        self, session: EnvironmentSession, task: PreparedTask, context: AttemptContext
    ) -> HarnessSession:
        return _Run(self.options, session)


class _Run(HarnessSession):
    def __init__(self, options: Told, session: EnvironmentSession) -> None:
        self._options, self._session = options, session

    async def run(self) -> RunResult:
        does, times = self._options.does, self._options.tell("run")
        if does == "hang":
            await asyncio.sleep(FOREVER_S)
        if does == "lose":
            raise EnvironmentFault("the machine is gone", code="environment_gone")
        if does == "crash" or (does == "crash once" and times == 1):
            raise RuntimeError("the agent crashed")
        done = await self._session.exec(["echo", "yes"])
        return RunResult(final_answer=done.stdout.strip())

    async def close(self) -> None:
        self._options.tell("close")


class Bench:
    """The services of one request in a folder, and its jobs."""

    def __init__(self, folder: Path, services: AttemptServices, writer: RunWriter) -> None:
        self.log = folder / "log"
        self.services = services
        self.layout = writer.layout
        self._tasks = services.components.benchmark.load_tasks()

    def job(self, attempt: int = 1) -> AttemptJob:
        """A job for one attempt of the only task."""
        return AttemptJob(next(iter(self._tasks)), attempt)

    def told(self, what: str) -> int:
        """How often something was done."""
        text = self.log.read_text("utf-8") if self.log.exists() else ""
        return text.splitlines().count(what)


@contextmanager
def bench(
    folder: Path, *, agent: str = "well", grader: str = "well", mode: str = "none", retries: int = 0
) -> Iterator[Bench]:
    """A request with these parts, in a folder that every worker of the executor can write."""
    log = str(folder / "log")
    benchmark = Probe(Told(log=log, does=grader))
    components = Components(
        benchmark, Agent(Told(log=log, does=agent)), LocalEnvironment(), None, CompleteAll(),
        AttemptPlan(), mode,
    )  # fmt: skip
    execution = {"evaluation_mode": mode, "max_retries": retries, "retry_backoff_s": 0.0}
    request = validate(RunRequest, {"benchmark": "probe", "execution": execution}, "request")
    run_dir = folder / "run"
    run_dir.mkdir()
    clock = SystemClock()
    writer = RunWriter(RunLayout(run_dir), AttemptPlan(), Redactor(), clock)
    services = AttemptServices(
        components=components,
        contract=benchmark.metrics(),
        planner=Planner(request, components),
        retry=RetryPolicy.build(retries, None, 0.0),
        calls=Calls(TrackedThreads()),
        store=writer,
        clock=clock,
        digests=RequestDigests.of(components),
        labels={"run": "conformance", "run_dir": str(run_dir)},
    )
    try:
        yield Bench(folder, services, writer)
    finally:
        writer.close()


class Refusing:
    """A store whose disk is full from one moment on: `begin` or `store_run`."""

    def __init__(self, store: Any, moment: str, error: Exception) -> None:
        self._store, self._moment, self._error = store, moment, error

    async def begin(self, *arguments: Any) -> None:
        if self._moment == "begin":
            raise self._error
        await self._store.begin(*arguments)

    async def store_run(self, *arguments: Any) -> None:
        if self._moment == "store_run":
            raise self._error
        await self._store.store_run(*arguments)

    def artifacts_dir(self, *arguments: Any) -> str:
        return str(self._store.artifacts_dir(*arguments))
