"""Launches whose every step the test directs: gates to pass, and a trace of what happened."""

import asyncio
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar

from tests.scenarios.runtime.plugins import Agent, Answers, register

import proctor
from proctor.environments.local import LocalEnvironment
from proctor.evals.contracts import TaskSpec
from proctor.evals.report import RunReport
from proctor.kernel.errors import AgentFault
from proctor.testing.clock import FakeClock

PATIENCE_S = 60.0
"""Only says that nothing hangs; no test waits for it."""


class Stage:
    """`trace` lists what happened, in order. A name in `closed` holds back the step of that name
    until `open` is called; a name in `failing` makes that many tries of the step fail."""

    def __init__(self, place: Path, *, closed: tuple[str, ...] = ()) -> None:
        self.place = place
        self.trace: list[str] = []
        self.failing: dict[str, int] = {}
        self.clock = FakeClock()
        self._gates = {name: threading.Event() for name in closed}
        self._changed = threading.Condition()

    def note(self, line: str) -> None:
        with self._changed:
            self.trace.append(line)
            self._changed.notify_all()

    def close(self, *names: str) -> None:
        """Hold these steps back from now on."""
        self._gates |= {name: threading.Event() for name in names}

    def open(self, *names: str) -> None:
        """Let these steps go on."""
        for name in names:
            self._gates[name].set()

    def pass_gate(self, name: str) -> None:
        """What a step does in a thread."""
        if name in self._gates:
            assert self._gates[name].wait(PATIENCE_S), f"{name} was never opened"

    async def until(self, *lines: str) -> None:
        """Wait until all these lines are in the trace."""

        def wait() -> bool:
            with self._changed:
                return self._changed.wait_for(
                    lambda: set(lines) <= set(self.trace), timeout=PATIENCE_S
                )

        assert await asyncio.to_thread(wait), f"{lines} never came: {self.trace}"

    async def quiet(self) -> None:
        """Let what can happen without us happen: many turns of the loop and of its threads."""
        for _ in range(30):
            await asyncio.to_thread(int)

    def request(
        self, name: str, tasks: int, environment: type[Any] = LocalEnvironment, **execution: Any
    ) -> dict[str, Any]:
        """A request with tasks `<name>1`, `<name>2`, …"""
        stage = self

        class Played(Answers):
            id = f"played-{name}"
            given: ClassVar = [TaskSpec(f"{name}{n}", "?", "yes") for n in range(1, tasks + 1)]

            def load_tasks(self) -> list[TaskSpec]:
                stage.note(f"load {name}")
                stage.pass_gate(f"load {name}")
                stage.fail(f"load {name}")
                stage.note(f"loaded {name}")
                return super().load_tasks()

            async def evaluate(self, prepared: Any, result: Any, session: Any) -> Any:
                stage.note(f"grade {prepared.task.id}")
                return await super().evaluate(prepared, result, session)

            async def close(self) -> None:
                stage.note(f"end {name}")

        class Player(Agent):
            id = f"player-{name}"

            async def act(self, session: Any, task: Any, context: Any) -> Any:
                step = f"run {context.task_id}"
                stage.note(step)
                await asyncio.to_thread(stage.pass_gate, step)
                stage.fail(step)
                stage.note(f"ran {context.task_id}")
                return "yes"

        return {
            "name": name,
            "benchmark": register(Played),
            "harness": register(Player),
            "environment": register(environment),
            "execution": execution,
        }

    def fail(self, step: str) -> None:
        if self.failing.get(step, 0) > 0:
            self.failing[step] -= 1
            self.note(f"failed {step}")
            raise AgentFault(f"{step} was made to fail")

    async def launch(
        self,
        requests: list[dict[str, Any]],
        *,
        concurrency: int,
        director: Callable[[], Any] | None = None,
        **runtime: Any,
    ) -> dict[str, RunReport]:
        """Launch, with `director` at work beside it; the reports by name."""
        spec = launch_spec(self.place, requests, concurrency=concurrency, **runtime)
        async with asyncio.timeout(PATIENCE_S):
            running = asyncio.ensure_future(proctor.alaunch(spec, clock=self.clock))
            if director is not None:
                await director()
            return {report.name: report for report in await running}


def launch_spec(
    place: Path, requests: list[dict[str, Any]], *, concurrency: int, **runtime: Any
) -> Mapping[str, Any]:
    return {
        "name": "staged",
        "task_concurrency": concurrency,
        "requests": requests,
        "runtime": {"results_dir": str(place / "results"), **runtime},
    }


def provider(name: str) -> type[LocalEnvironment]:
    """`local` under an id of its own, so that its limits are its own."""
    return type("Provider", (LocalEnvironment,), {"id": name})
