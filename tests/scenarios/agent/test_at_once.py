"""Policies that know their next turn without asking anybody: one append for each action."""

import asyncio
import itertools
import time
from collections import Counter

import pytest
from tests.scenarios.agent.places import agents, appended
from tests.scenarios.agent.test_scale import Here

from proctor.agent.core.budgets import Cost, Limits
from proctor.agent.policy import Policy, Proposal
from proctor.agent.setup import Timing
from proctor.models.contract import ToolCall


class Steps(Policy):
    """`count` turns with `calls` each, then the end; never awaited."""

    def __init__(self, count, calls):
        self._count, self._calls = count, tuple(calls)

    def at_once(self, messages, context):
        return Proposal("end" if context.turn > self._count else "", self._now(context))

    def _now(self, context):
        return () if context.turn > self._count else self._calls

    async def propose(self, messages, context):
        raise AssertionError("nobody awaits it")


def call(name="c1", tool="here", **arguments):
    return ToolCall(name, tool, arguments or {"size": 3})


OFTEN = Timing(poll_s=0.001)


class Holding(Here):
    """Holds the loop up for so long that its end and the next look into the inbox come together,
    some turns of the loop apart: a look, however often, splits no append."""

    def __init__(self):
        self._apart = itertools.cycle(range(8))

    async def execute(self, op_key, arguments, context):
        for _ in range(3):
            await asyncio.sleep(0)
        time.sleep(3 * OFTEN.poll_s)  # noqa: ASYNC251 - that is what it is for
        for _ in range(next(self._apart)):
            await asyncio.sleep(0)
        return await super().execute(op_key, arguments, context)


async def driven(place, socket, policy, timing=OFTEN, **submission):
    """A run driven to its end: its view, how its events were appended, their kinds."""
    more = {"policy": lambda task: policy, "tools": [Holding()], "timing": timing}
    async with agents(place, socket, **more) as found:
        return await appended(found, await found.submit("g", **submission))


def test_an_action_is_one_append(place, socket):
    view, appends = asyncio.run(driven(place, socket, Steps(20, [call()])))
    assert (view.state, view.candidate, len(view.actions)) == ("done", "end", 20)
    step = ["attempt.ended", "turn.replied", "action.accepted", "attempt.started"]
    assert Counter(map(tuple, appends))[tuple(step)] == 19


class Waited(Steps):
    """The same, known only when it was awaited."""

    def at_once(self, messages, context):
        return None

    async def propose(self, messages, context):
        await asyncio.sleep(0)
        return Proposal("end" if context.turn > self._count else "", self._now(context))


def test_a_reply_that_was_awaited_and_what_it_starts_are_one_append(place, socket):
    """Unless the inbox is to be read between the two: then the reply is durable first."""
    policy = Waited(20, [call("c1"), call("c2")])
    view, appends = asyncio.run(driven(place, socket, policy, Timing(poll_s=600.0)))
    assert (view.state, view.candidate, len(view.actions)) == ("done", "end", 40)
    starting = [kinds for kinds in appends if "attempt.started" in kinds]
    start = ["turn.replied", *["action.accepted"] * 2, *["attempt.started"] * 2]
    assert starting == [start] * 20
    replying = [kinds for kinds in appends if "turn.replied" in kinds]
    assert replying == [*starting, ["turn.replied"]]


def test_every_started_attempt_was_appended_before_the_next_decision(place, socket):
    """Two calls of a turn start in one append, and no append holds two turns that act."""
    view, appends = asyncio.run(driven(place, socket, Steps(5, [call("c1"), call("c2")])))
    assert (view.state, len(view.actions)) == ("done", 10)
    starting = [kinds for kinds in appends if "attempt.started" in kinds]
    assert [kinds.count("attempt.started") for kinds in starting] == [2] * 5
    assert all(kinds.count("turn.replied") == 1 for kinds in starting)


def test_turns_that_do_nothing_do_not_pile_up(place, socket):
    """Only refused calls, for many turns: what is decided becomes durable on the way."""
    view, appends = asyncio.run(driven(place, socket, Steps(200, [call(tool="nobody")])))
    assert (view.state, len(view.turns), len(view.actions)) == ("done", 201, 0)
    assert max(map(len, appends)) < 80


def test_its_budget_is_reserved_and_spent(place, socket):
    view, _ = asyncio.run(driven(place, socket, Steps(9, [call()]), limits=Limits(steps=4)))
    assert (view.state, view.budgets.spent.steps, len(view.actions)) == ("failed", 4, 4)
    assert view.budgets.reserved == Cost()


def test_calls_with_one_id_close_the_turn(place, socket):
    view, _ = asyncio.run(driven(place, socket, Steps(9, [call(), call()])))
    assert (view.state, len(view.actions)) == ("failed", 0)
    assert [turn.state for turn in view.turns] == ["closed"] * 3


@pytest.mark.parametrize("found", ["text", ValueError("no idea")])
def test_what_is_no_turn_closes_it(place, socket, found):
    class Odd(Steps):
        def at_once(self, messages, context):
            if isinstance(found, Exception):
                raise found
            return found

    view, _ = asyncio.run(driven(place, socket, Odd(1, [])))
    assert view.state == "failed"
    assert ("no idea" in view.aim_reason) or ("not Proposal" in view.aim_reason)


def test_a_run_that_never_sleeps_hears_of_its_cancel(place, socket):
    """Another process cancels; the run has only turns that end at once."""

    async def scenario():
        async with (
            agents(place, socket, policy=lambda task: Steps(10**9, [call(tool="nobody")])) as one,
            agents(place, socket) as other,
        ):
            run_id = await one.submit("g", limits=Limits(steps=100_000))
            driver = asyncio.create_task(one.drive(run_id))
            async for event in other.watch(run_id):
                if event.kind == "turn.replied":
                    break
            await other.cancel(run_id)
            view = await driver
            assert view.state == "cancelled"

    asyncio.run(asyncio.wait_for(scenario(), 60))
