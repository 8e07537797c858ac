"""What is lent to tools and policies stays the runtime's own, and what they bring is asked,
wherever it was put: on their class, on the object, behind a proxy."""

import asyncio

import pytest
from tests.scenarios.agent.places import agents, consistent
from tests.scenarios.agent.test_answers import scripted, turn
from tests.scenarios.agent.test_once import tool

from proctor.agent.core.budgets import Cost, Limits
from proctor.agent.core.deciding import op_key
from proctor.agent.permissions import Permissions, Rule, Ruling
from proctor.agent.policy import ScriptedPolicy
from proctor.agent.tools import Answer, Effect, Need, QueryAnswer, Tool, ToolResult
from proctor.kernel.digest import of_json
from proctor.kernel.jsontext import SANITIZED_VALUES
from proctor.kernel.redact import Redactor
from proctor.testing.agenttools import all_tools

GIVEN = {"a": [1, {"b": 2}], "text": "x"}
READERS = (
    "problem", "resources", "needs", "preconditions", "revision", "at_once", "execute", "verdict",
    "compensate", "when",
)  # fmt: skip


class Spoiler(Tool):
    """Changes the arguments wherever it gets hold of them, and keeps what it saw."""

    name = "spoiler"

    def __init__(self):
        self.seen = {}

    def _spoil(self, where, arguments):
        self.seen[where] = of_json(arguments)
        arguments["a"][1]["b"] = b"no JSON"
        arguments["more"] = where

    def problem(self, arguments):
        self._spoil("problem", arguments)

    def resources(self, arguments):
        self._spoil("resources", arguments)
        return ()

    def needs(self, arguments):
        self._spoil("needs", arguments)

    async def preconditions(self, arguments):
        self._spoil("preconditions", arguments)

    async def revision(self, arguments):
        self._spoil("revision", arguments)
        return "1"

    def at_once(self, op_key, arguments, context):
        self._spoil("at_once", arguments)

    async def execute(self, op_key, arguments, context):
        self._spoil("execute", arguments)
        return ToolResult("done")

    def verdict(self, arguments, result):
        self._spoil("verdict", arguments)

    def compensate(self, arguments, result):
        self._spoil("compensate", arguments)

    def when(self, arguments):
        self._spoil("when", arguments)
        return True


def test_what_is_executed_is_what_the_log_says_whatever_a_tool_does_to_it(place, socket):
    async def scenario():
        spoiler = Spoiler()
        rules = (Rule("spoiler", Ruling.ASK, spoiler.when),)
        policy = scripted(turn(("spoiler", GIVEN)), turn(("ask", {"question": "?"})))
        tools = [spoiler, *all_tools(socket)]
        more = {"tools": tools, "policy": policy, "permissions": Permissions(rules)}
        async with agents(place, socket, **more) as found:
            run_id = await found.submit("g")
            await found.drive(run_id)
            await found.approve(run_id, "w1", by="me")
            view = await found.drive(run_id)
            assert (view.state, view.action("a1").state) == ("waiting", "done")
            await found.cancel(run_id, by="me", compensate=True)
            view = await found.drive(run_id)
            assert view.state == "cancelled"
            assert view.action("a1").arguments == GIVEN
            assert view.action("a1").op_key == op_key(run_id, "a1", "spoiler", GIVEN)
            row = (await found.setup.journal.read_rows("action", run_id))[0]
            assert row.values["arguments_digest"] == of_json(GIVEN)
            await consistent(found, run_id)
            return spoiler.seen

    seen = asyncio.run(scenario())
    assert set(seen) == set(READERS)
    assert set(seen.values()) == {of_json(GIVEN)}


def test_a_question_to_the_other_side_is_asked_with_what_the_log_says(place, socket):
    seen = []

    async def query(self, op_key, arguments):
        seen.append(of_json(arguments))
        arguments["a"].clear()
        return QueryAnswer(Answer.HAPPENED if len(seen) > 1 else Answer.UNKNOWN)

    async def execute(context):
        raise ConnectionError("the reply was lost")

    async def scenario():
        one = tool("one", execute, effect=Effect.QUERYABLE, query=query)
        policy = scripted(turn(("one", GIVEN)))
        async with agents(place, socket, tools=[one], policy=policy) as found:
            view = await found.drive(await found.submit("g"))
            assert view.action("a1").state == "done"

    asyncio.run(scenario())
    assert seen == [of_json(GIVEN)] * 2


async def done(context):
    return ToolResult("done")


def guarded(how):
    """A tool whose guard was put on the object."""
    one = tool("one", done)
    if how == "problem":
        one.problem = lambda arguments: "not these"
    elif how == "needs":
        one.needs = lambda arguments: Need("input", "may I?")
    elif how == "verdict":
        one.verdict = lambda arguments, result: "not good enough"
    else:

        async def preconditions(arguments):
            return "not now"

        one.preconditions = preconditions
    return one


@pytest.mark.parametrize(
    ("how", "state", "reason"),
    [
        ("problem", None, "not these"),
        ("needs", "waiting", ""),
        ("verdict", "failed", "not good enough"),
        ("preconditions", "failed", "not now"),
    ],
)
def test_a_guard_on_the_object_is_asked_as_one_of_its_class_is(place, socket, how, state, reason):
    async def scenario():
        policy = scripted(turn(("one", {})))
        async with agents(place, socket, tools=[guarded(how)], policy=policy) as found:
            view = await found.drive(await found.submit("g"))
            if state is None:
                assert view.turn(1).outcomes == {"c1": ("refused", reason)}
            else:
                assert (view.action("a1").state, view.action("a1").reason) == (state, reason)

    asyncio.run(scenario())


class Proxy:
    """Passes everything on, as wrappers that count or trace do."""

    def __init__(self, inner):
        self._inner = inner

    def __getattr__(self, name):
        return getattr(self._inner, name)


class Dear(ScriptedPolicy):
    def worst_case(self, messages):
        return Cost(tokens=len(messages) * 1000)


def test_a_policy_behind_a_proxy_is_the_policy(place, socket):
    async def scenario():
        for steps in ([turn(("one", {}))], [lambda messages: turn(("one", {}))]):
            policy = lambda task, steps=steps: Proxy(Dear(steps))  # noqa: E731
            async with agents(place, socket, tools=[tool("one", done)], policy=policy) as found:
                view = await found.drive(await found.submit("g"))
                assert (view.state, view.action("a1").text) == ("done", "done")
                limits = Limits(tokens=1500)  # enough for one turn of one message
                view = await found.drive(await found.submit("g", limits=limits))
                assert "tokens" in view.aim_reason

    asyncio.run(scenario())


class Half:
    """No policy: it cannot propose at once, nor otherwise."""

    name, version = "half", "1"

    def worst_case(self, messages):
        return Cost(steps=1)


def test_what_is_no_policy_ends_its_own_run_and_says_so(place, socket):
    async def scenario():
        async with agents(place, socket, policy=lambda task: Half()) as found:
            view = await found.drive(await found.submit("g"))
            assert view.state == "failed"
            assert "no attribute 'at_once'" in view.aim_reason

    asyncio.run(scenario())


class Patterns(Redactor):
    """Knows no secret, and recognises them by their form."""

    def facts(self, value):
        return value.replace("sk-1234", "[out]") if isinstance(value, str) else value


def test_a_redactor_of_somebody_else_is_asked_though_it_knows_no_secret(place, socket):
    async def told(context):
        return ToolResult("the key is sk-1234")

    async def scenario():
        policy = scripted(turn(("one", {})))
        more = {"tools": [tool("one", told)], "policy": policy, "redactor": Patterns()}
        async with agents(place, socket, **more) as found:
            view = await found.drive(await found.submit("g"))
            assert view.action("a1").text == "the key is [out]"

    asyncio.run(scenario())


def test_more_values_than_a_record_holds_are_no_arguments(place, socket):
    async def scenario():
        policy = scripted(turn(("one", {str(n): 0 for n in range(SANITIZED_VALUES + 1)})))
        async with agents(place, socket, tools=[tool("one", done)], policy=policy) as found:
            view = await found.drive(await found.submit("g"))
            assert not len(view.actions)
            assert "not a JSON object" in view.turn(1).outcomes["c1"][1]

    asyncio.run(scenario())
