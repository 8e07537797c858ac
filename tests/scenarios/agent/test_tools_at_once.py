"""Tools that wait for nothing: executed without a task, recorded like all others."""

import asyncio

import pytest
from tests.scenarios.agent.places import agents, appended
from tests.scenarios.agent.test_at_once import Steps

from proctor.agent.core.budgets import Limits
from proctor.agent.driving.snapshots import load_snapshot
from proctor.agent.setup import Timing
from proctor.agent.tools import (
    Effect,
    RefusedBeforeEffect,
    Rejected,
    Tool,
    ToolResult,
)
from proctor.models.contract import ToolCall


class Now(Tool):
    """Yields what `found` gives for its own number of the execution."""

    name = "now"
    effect = Effect.IDEMPOTENT

    def __init__(self, found=lambda n: ToolResult(f"result {n}"), effect=Effect.IDEMPOTENT):
        self._found, self.seen, self.awaited = found, [], 0
        self.effect = effect

    def resources(self, arguments):
        return ()

    def at_once(self, op_key, arguments, context):
        self.seen.append((op_key, context.attempt, asyncio.current_task().get_name()))
        return self._found(len(self.seen))

    async def execute(self, op_key, arguments, context):
        self.awaited += 1
        return ToolResult("awaited")


def raising(error):
    def found(number):
        raise error

    return found


def calls(count):
    return [ToolCall(f"c{n}", "now", {"n": n}) for n in range(count)]


async def driven(place, socket, tool, turns=1, count=1, **submission):
    """A run driven as far as it goes by itself: its view, and the events of each append."""
    more = {"policy": lambda task: Steps(turns, calls(count)), "tools": [tool]}
    async with agents(place, socket, **more) as found:
        return await appended(found, await found.submit("g", **submission))


def test_every_attempt_is_in_the_log_before_it_is_executed(place, socket):
    tool = Now()
    view, appends = asyncio.run(driven(place, socket, tool, 10, 2))
    assert (view.state, len(view.actions), tool.awaited) == ("done", 20, 0)
    assert [a.text for a in view.actions] == [f"result {n}" for n in range(1, 21)]
    assert {op_key for op_key, _, _ in tool.seen} == {a.op_key for a in view.actions}
    assert len({name for _, _, name in tool.seen}) == 1  # the driver itself
    starting = [kinds for kinds in appends if "attempt.started" in kinds]
    assert [kinds.count("attempt.started") for kinds in starting] == [2] * 10
    assert [kinds.count("attempt.ended") for kinds in starting] == [0, *[2] * 9]


def test_none_means_that_it_is_awaited(place, socket):
    tool = Now(lambda number: None)
    view, _ = asyncio.run(driven(place, socket, tool, 3))
    assert (view.state, tool.awaited) == ("done", 3)
    assert {a.text for a in view.actions} == {"awaited"}


@pytest.mark.parametrize(
    ("error", "state"),
    [
        (RefusedBeforeEffect("not sent"), "failed"),
        (Rejected("no"), "failed"),
        (ValueError("who knows"), "stopped"),
        (SystemExit(3), "stopped"),
        (asyncio.CancelledError(), "stopped"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else value,
)
def test_what_it_raises_says_the_same_as_of_execute(place, socket, error, state):
    tool = Now(raising(error), Effect.NON_REPEATABLE)
    view, _ = asyncio.run(driven(place, socket, tool))
    assert (view.action("a1").state, len(tool.seen)) == (state, 1)


def test_what_is_no_result_is_an_unknown_outcome(place, socket):
    tool = Now(lambda number: "a text", Effect.NON_REPEATABLE)
    view, _ = asyncio.run(driven(place, socket, tool))
    assert view.action("a1").state == "stopped"
    assert view.state == "waiting"


def test_an_idempotent_one_is_done_again_with_its_key(place, socket):
    def found(number):
        if number == 1:
            raise OSError("gone")
        return ToolResult("there")

    tool = Now(found)
    view, _ = asyncio.run(driven(place, socket, tool))
    assert (view.state, view.action("a1").text) == ("done", "there")
    assert [attempt for _, attempt, _ in tool.seen] == [1, 2]
    assert len({op_key for op_key, _, _ in tool.seen}) == 1


def test_a_run_that_never_sleeps_hears_of_its_cancel(place, socket):
    """Another process cancels; neither the policy nor the tool is ever awaited."""

    async def scenario():
        more = {
            "policy": lambda task: Steps(10**9, calls(1)),
            "tools": [Now()],
            "timing": Timing(poll_s=0.05),
        }
        async with agents(place, socket, **more) as one, agents(place, socket) as other:
            run_id = await one.submit("g", limits=Limits(steps=100_000))
            driver = asyncio.create_task(one.drive(run_id))
            async for event in other.watch(run_id):
                if event.kind == "attempt.ended":
                    break
            await other.cancel(run_id)
            view = await driver
            assert view.state == "cancelled"

    asyncio.run(asyncio.wait_for(scenario(), 60))


def test_a_run_that_never_waits_keeps_its_snapshots_all_the_same(place, socket):
    async def scenario():
        policy = lambda task: Steps(300, [ToolCall("c1", "now", {})])  # noqa: E731
        async with agents(place, socket, tools=[Now()], policy=policy) as found:
            run_id = await found.submit("g")
            view = await found.drive(run_id)
            kept = await load_snapshot(found.setup.journal, run_id)
            assert 1_000 <= kept.version < view.version

    asyncio.run(scenario())
