"""Ours: see bench/durable/work.py. VARIANT is the effect class."""

import asyncio
import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from bench.durable import work
from proctor.agent.api import Agents
from proctor.agent.core.locks import Access
from proctor.agent.policy import Proposal, ScriptedPolicy
from proctor.agent.setup import Setup
from proctor.agent.tools import Answer, Effect, QueryAnswer, Tool, Toolbox, ToolContext, ToolResult
from proctor.models.contract import ToolCall
from proctor.store.journal.opening import open_journal

Arguments = Mapping[str, Any]


class Step(Tool):
    """Yields a result of the size that all systems yield."""

    name = "step"

    def __init__(self, effect: Effect) -> None:
        self.effect = effect  # type: ignore[misc]  # one class for all effect classes

    def resources(self, arguments: Arguments) -> list[Access]:
        return []

    async def execute(self, op_key: str, arguments: Arguments, context: ToolContext) -> ToolResult:
        return ToolResult(work.result(arguments["number"]))

    async def query(self, op_key: str, arguments: Arguments) -> QueryAnswer:
        return QueryAnswer(Answer.DID_NOT_HAPPEN)


class Outside(Step):
    """Has an effect outside, and dies after it the first time."""

    def __init__(self, effect: Effect, socket: str) -> None:
        super().__init__(effect)
        self._socket = socket

    async def execute(self, op_key: str, arguments: Arguments, context: ToolContext) -> ToolResult:
        count = work.effect(self._socket, op_key, once=self.effect is Effect.IDEMPOTENT)
        work.die_once()
        return ToolResult(f"effect {count}")

    async def query(self, op_key: str, arguments: Arguments) -> QueryAnswer:
        count = work.effects(self._socket, op_key)
        if not count:
            return QueryAnswer(Answer.DID_NOT_HAPPEN)
        return QueryAnswer(Answer.HAPPENED, ToolResult(f"effect {count}"))


@asynccontextmanager
async def agents(place: str, tool: Tool, count: int) -> AsyncIterator[Agents]:
    """Agents whose script calls `tool` `count` times, one after the other."""
    script = [Proposal("", (ToolCall(f"c{n}", tool.name, {"number": n}),)) for n in range(count)]
    async with open_journal("journal.sqlite" if place == "sqlite" else place) as journal:
        yield Agents(Setup(journal, lambda task: ScriptedPolicy(script), Toolbox([tool])))


def steps(place: str, variant: str, runs: int, count: int) -> dict[str, Any]:
    """All runs at once."""

    async def one(found: Agents, number: int) -> None:
        run_id = await found.submit("do the steps", run_id=f"{os.getpid()}-{number}")
        view = await found.drive(run_id)
        if view.state != "done":
            raise SystemExit(f"the run is {view.state}")

    async def whole() -> dict[str, Any]:
        async with agents(place, Step(Effect(variant)), count) as found:
            measured = work.Measured(runs, count)
            await asyncio.gather(*(one(found, number) for number in range(runs)))
            return measured.end()

    return asyncio.run(whole())


def one_effect(place: str, variant: str, socket: str) -> str:
    """Submit (again) and drive: a run that is there goes on."""

    async def whole() -> str:
        async with agents(place, Outside(Effect(variant), socket), 1) as found:
            run_id = await found.submit("have one effect", run_id=f"effect-{variant}")
            view = await found.drive(run_id)
            moves = (await found.show(run_id)).next_moves
            asked = [f"{move['who']} {move['does']}" for move in moves]
            return view.state if not asked else f"{view.state}: {', '.join(asked)}"

    return asyncio.run(whole())


if __name__ == "__main__":
    work.main(steps, one_effect)
