"""What parallel actions share: tool time that is limited, and secrets that nobody may read."""

import asyncio
import os

import pytest
from tests.scenarios.agent.places import agents, consistent, said
from tests.scenarios.agent.test_answers import scripted, turn
from tests.scenarios.agent.test_once import tool

from proctor.agent.context import messages
from proctor.agent.core.budgets import Limits
from proctor.agent.policy import Policy, Proposal
from proctor.agent.tools import Effect, ToolResult
from proctor.kernel.redact import Redactor

SECRET = "sk-test-abcdefghijklmnop"


def test_a_parallel_call_waits_for_tool_time_that_another_has_reserved(place, socket):
    """Each may take all that is left; the second starts when the first has given back the rest."""

    async def quick(context):
        return ToolResult("ok")

    async def scenario():
        tools = [tool("quick", quick, effect=Effect.PURE, timeout_s=200.0)]
        policy = scripted(turn(*[("quick", {"n": n}) for n in range(3)]), said)
        async with agents(place, socket, policy=policy, tools=tools) as found:
            run_id = await found.submit("g", limits=Limits(tool_ms=100_000))
            view = await found.drive(run_id)
            assert (view.state, view.candidate) == ("done", "ok|ok|ok")
            assert [a.state for a in view.actions] == ["done"] * 3
            assert view.budgets.spent.tool_ms < 100_000

    asyncio.run(scenario())


def test_tool_time_that_nobody_gives_back_denies_what_is_left(place, socket):
    async def lose(context):
        raise OSError("lost")

    async def quick(context):
        return ToolResult("ok")

    async def scenario():
        tools = [
            tool("lose", lose, timeout_s=200.0),
            tool("quick", quick, effect=Effect.PURE, timeout_s=200.0),
        ]
        policy = scripted(turn(("lose", {}), ("quick", {})), said)
        async with agents(place, socket, policy=policy, tools=tools) as found:
            run_id = await found.submit("g", limits=Limits(tool_ms=1000), on_unknown="tell_model")
            view = await asyncio.wait_for(found.drive(run_id), 30)
            assert [a.state for a in view.actions] == ["stopped", "failed"]
            assert "budget tool_ms" in view.candidate

    asyncio.run(scenario())


class Failing(Policy):
    async def propose(self, messages, context):
        raise ValueError(f"401: the key {SECRET} is wrong")


def failing(name):
    async def raises(context):
        raise OSError(f"https://host/?key={SECRET} was reset")

    async def returns(context):
        return ToolResult(f"KEY={SECRET} {'x' * 20_000}", {"env": [{SECRET: SECRET}]})

    return tool(name, {"raises": raises, "returns": returns}[name])


@pytest.mark.parametrize("where", ["policy", "raises", "returns"])
def test_known_secrets_stay_out_of_the_log(place, socket, where):
    script = scripted(turn((where, {})), said)
    policy = (lambda task: Failing()) if where == "policy" else script

    async def scenario():
        tools = [] if where == "policy" else [failing(where)]
        more = {"policy": policy, "tools": tools or None, "redactor": Redactor([SECRET])}
        async with agents(place, socket, **more) as found:
            run_id = await found.submit("g", on_unknown="tell_model")
            view = await found.drive(run_id)
            journal = found.setup.journal
            log = await journal.read_events(run_id)
            said_there = str([event.body for event in log])
            assert SECRET not in said_there
            assert SECRET not in str(messages(view))
            if where == "policy":
                assert "401: the key [redacted] is wrong" in said_there
            if where == "returns":
                whole = await journal.get_blob(view.action("a1").evidence["output"])
                assert SECRET.encode() not in whole
                assert b"KEY=[redacted] xx" in whole
                await consistent(found, run_id)

    asyncio.run(scenario())


def test_secrets_of_the_environment_are_known(place, socket, monkeypatch):
    monkeypatch.setitem(os.environ, "SOME_API_KEY", SECRET)

    async def scenario():
        async with agents(place, socket, policy=lambda task: Failing()) as found:
            view = await found.drive(await found.submit("g"))
            assert view.aim_reason == "no reply: 401: the key [redacted] is wrong"

    asyncio.run(scenario())


def test_a_turn_of_a_thousand_calls_costs_no_more_a_call_than_a_small_one(place, socket):
    """Counted in looks at actions, which is what grew with the square."""
    from proctor.agent.core.sequence import Sequence32

    async def ok(context):
        return ToolResult("ok")

    def one_by_one(count):
        looks, get = [0], Sequence32.__getitem__

        def counted(self, index):
            looks[0] += 1
            return get(self, index)

        async def scenario():
            policy = lambda task: OneTurn(count)  # noqa: E731
            tools = [tool("ok", ok, effect=Effect.PURE)]
            async with agents(place, socket, policy=policy, tools=tools) as found:
                run_id = await found.submit("g")
                Sequence32.__getitem__ = counted
                try:
                    view = await found.drive(run_id)
                finally:
                    Sequence32.__getitem__ = get
                assert view.state == "done"

        asyncio.run(scenario())
        return looks[0] / count

    assert one_by_one(400) < 2 * one_by_one(100)


class OneTurn(Policy):
    def __init__(self, count):
        self._count = count

    def at_once(self, messages, context):
        calls = turn(*[("ok", {})] * self._count)
        return calls if context.turn == 1 else Proposal("end")

    async def propose(self, messages, context):
        raise AssertionError
