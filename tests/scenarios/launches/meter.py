"""A model that costs what it is told to. Used in this process, and by proctor in one of its own.

The message says `<worst case> <real cost>` in US dollars; ten tokens a cent.
"""

import asyncio
import os
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any, ClassVar

from proctor.evals.contracts import (
    Benchmark,
    Evaluation,
    Harness,
    HarnessSession,
    MetricContract,
    MetricSpec,
    RunResult,
    TaskSpec,
)
from proctor.kernel.errors import ModelFault
from proctor.models.contract import CallContext, Model, ModelReply, Usage


def usage(usd: str) -> Usage:
    cost = Decimal(usd)
    return Usage(int(cost * 1000), 0, requests=1, cost_usd=cost)


class Meter(Model):
    """`gates`: events by task id that a call waits for. `called`: the tasks that were sent."""

    id = "meter"
    gates: ClassVar[dict[str, asyncio.Event]] = {}
    called: ClassVar[list[str]] = []

    def worst_case(
        self, messages: Sequence[Mapping[str, Any]], parameters: Mapping[str, Any]
    ) -> Usage | None:
        return usage(messages[0]["content"].split()[0]) if messages else usage("0.05")

    async def complete(
        self, messages: Sequence[Mapping[str, Any]], *, context: CallContext, **parameters: Any
    ) -> ModelReply:
        self.called.append(context.task_id)
        if pipe := os.environ.get("ROOMS_EVENTS"):
            with open(pipe, "w", encoding="utf-8") as events:  # noqa: ASYNC230
                events.write(f"call {context.task_id}\n")
        if os.environ.get("ROOMS_HOLD") == f"call {context.task_id}":
            await asyncio.sleep(3_600)
        if context.task_id in self.gates:
            await self.gates[context.task_id].wait()
        cost = messages[0]["content"].split()[1]
        if cost == "unknown":
            raise ModelFault("the connection was cut", code="connection")
        if cost == "refused":
            raise ModelFault("too many requests", code="rate_limited")
        if cost == "silent":
            return ModelReply("yes", Usage(requests=1))
        return ModelReply("yes", usage(cost))


class Bill(Benchmark):
    """Tasks whose question is `<worst case> <real cost>`, from `costs`."""

    id = "bill"
    data_required = False

    def __init__(self, options: Any = None, data: Any = None) -> None:
        super().__init__(options, data)
        self.costs = [line.split(maxsplit=1) for line in os.environ["BILL"].split("\n")]

    def load_tasks(self) -> list[TaskSpec]:
        return [TaskSpec(name, question, "yes") for name, question in self.costs]

    def metrics(self) -> MetricContract:
        return MetricContract((MetricSpec("right"),), "right")

    async def evaluate(self, prepared: Any, result: RunResult, session: Any) -> Evaluation:
        return Evaluation(metrics={"right": result.final_answer == "yes"})


class Caller(Harness):
    """One call a task. `together`: so many agents meet before they call. `before`: events by task
    id that an agent waits for before it calls."""

    id = "caller"
    needs_model = True
    together: ClassVar[int] = 0
    arrived: ClassVar[int] = 0
    all_there: ClassVar[asyncio.Event | None] = None
    before: ClassVar[dict[str, asyncio.Event]] = {}

    async def start(self, session: Any, task: Any, context: Any) -> HarnessSession:
        return Call(task, context)


class Call(HarnessSession):
    def __init__(self, task: Any, context: Any) -> None:
        self._task, self._context = task, context

    async def run(self) -> RunResult:
        if (turn := Caller.before.get(self._context.task_id)) is not None:
            await turn.wait()
        if Caller.all_there is not None:
            Caller.arrived += 1
            if Caller.arrived >= Caller.together:
                Caller.all_there.set()
            await Caller.all_there.wait()
        question = {"role": "user", "content": self._task.input}
        reply = await self._context.model.complete([question])
        return RunResult(final_answer=reply.text)
