"""What policies and tools hand in may be anything: it costs its own run at most, never `serve`."""

import asyncio
import sys
from dataclasses import replace
from decimal import Decimal

import pytest
from msgspec import structs
from tests.scenarios.agent.conftest import KINDS
from tests.scenarios.agent.places import TIMING, agents, consistent, said
from tests.scenarios.agent.test_answers import scripted, turn
from tests.scenarios.agent.test_once import Through, tool

from proctor.agent.api import Agents
from proctor.agent.context import messages
from proctor.agent.core.budgets import Cost, Limits
from proctor.agent.core.locks import Access, Mode
from proctor.agent.policy import Policy, Proposal
from proctor.agent.tools import Answer, Effect, Need, QueryAnswer, ToolResult
from proctor.kernel.errors import StorageError
from proctor.models.contract import ToolCall
from proctor.store.journal.errors import ConstraintBroken, UnreadableEvent
from proctor.testing.agenttools import all_tools


class Silent(Exception):
    def __str__(self):
        raise RuntimeError("no text")


def shared(depth):
    """A value with 2**depth leaves and `depth` lists."""
    value = "x"
    for _ in range(depth):
        value = [value, value]
    return value


def raising(error):
    async def execute(context):
        raise error

    return execute


def returning(result):
    async def execute(context):
        return result

    return execute


async def served(found, *runs):
    """Serve until these runs have ended or only others can go on; what serving raised."""
    stop = asyncio.Event()
    worker = asyncio.create_task(found.serve(stop))
    for run_id in runs:
        async for event in found.watch(run_id):
            if worker.done() or event.kind in ("run.released", "run.given_up"):
                break
    stop.set()
    await worker


def one(call_id="c1", name="ok", arguments=None):
    return Proposal("", (ToolCall(call_id, name, {} if arguments is None else arguments),))


REPLIES = {
    "id NUL": (one("a\0b"), "Not executed: the id of a call has"),
    "id surrogate": (one("\ud800"), "Not executed: the id of a call has"),
    "id int": (one(7), "Not executed: the id of a call is a text, not int"),
    "id list": (one(["x"]), "Not executed: the id of a call is a text, not list"),
    "id empty": (one(""), "Not executed: the id of a call has"),
    "id long": (one("x" * 201), "Not executed: the id of a call has"),
    "name list": (one(name=["ok"]), "Not executed: there is no tool"),
    "arguments list": (one(arguments=[1]), "Not executed: the arguments are not a JSON object"),
    "arguments NaN": (one(arguments={"x": float("nan")}), "Not executed: the arguments are not"),
    "arguments shared": (one(arguments={"x": shared(40)}), "Not executed: the arguments are not"),
    "calls None": (Proposal("", None), None),
    "calls of text": (Proposal("", ("ok",)), None),
    "text bytes": (Proposal(b"x"), None),
    "cost NaN": (structs.replace(one(), cost=Cost(usd=Decimal("NaN"))), None),
    "cost negative": (structs.replace(one(), cost=Cost(usd=Decimal(-100))), None),
    "cost text": (structs.replace(one(), cost="free"), None),
    "cancelled": (asyncio.CancelledError(), None),
    "exit": (SystemExit(3), None),
    "silent": (Silent(), None),
}


class Once(Policy):
    """Says this once, then ends; awaited, or known at once."""

    def __init__(self, reply, at_once):
        self._reply, self._at_once = reply, at_once

    def _next(self, given):
        if isinstance(self._reply, BaseException):
            raise self._reply
        return self._reply if len(given) == 1 else Proposal("end")

    def at_once(self, messages, context):
        return self._next(messages) if self._at_once else None

    async def propose(self, messages, context):
        return self._next(messages)


@pytest.mark.parametrize("at_once", [False, True])
@pytest.mark.parametrize("case", REPLIES)
def test_a_hostile_reply_is_refused_or_costs_its_turn(place, socket, case, at_once):
    reply, told = REPLIES[case]
    tools = [tool("ok", returning(ToolResult("ok")), effect=Effect.PURE)]
    policy = lambda task: Once(reply, at_once)  # noqa: E731

    async def scenario():
        async with agents(place, socket, policy=policy, tools=tools) as found:
            run_id = await found.submit("g", limits=Limits(usd=Decimal(1)))
            await asyncio.wait_for(served(found, run_id), 30)
            view = await consistent(found, run_id)
            assert found.failures == {}
            assert view.budgets.spent.usd == 0
            if told is None:
                assert (view.state, len(view.actions)) == ("failed", 0)
                assert view.aim_reason.startswith("no reply: ")
            else:
                (result,) = [m["content"] for m in messages(view) if m["role"] == "tool"]
                assert result.startswith(told)
                assert (view.state, len(view.actions)) == ("done", 0)

    asyncio.run(scenario())


def needing(need):
    return {"needs": lambda self, arguments: need}


CHECKED = {
    "need of another type": (needing("input"), "needs:"),
    "need of another kind": (needing(Need("statement")), "needs:"),
    "prompt bytes": (needing(Need("input", b"x")), "needs: a prompt"),
    "goal NUL": (needing(Need("child", goal="a\0b")), "needs: a goal"),
    "goal surrogate": (needing(Need("child", goal="\ud800")), "needs: a goal"),
    "settings list": (needing(Need("child", goal="g", settings=[1])), "needs: settings"),
    "limits text": (needing(Need("child", goal="g", settings={"limits": {"usd": "abc"}})), "the"),
    "limits list": (needing(Need("child", goal="g", settings={"limits": [1]})), "the limits"),
    "delay far": (needing(Need("timer", delay_s=1e12)), "needs: delay_s"),
    "delay endless": (needing(Need("timer", delay_s=float("inf"))), "needs: delay_s"),
    "delay no number": (needing(Need("timer", delay_s="nan")), "needs: delay_s"),
    "delay negative": (needing(Need("timer", delay_s=-1.0)), "needs: delay_s"),
    "delay missing": (needing(Need("timer")), "needs: delay_s"),
    "expiry far": (needing(Need("input", expires_s=1e308)), "needs: expires_s"),
    "path int": ({"resources": lambda s, a: (Access(Mode.WRITE, 5),)}, "the arguments cannot"),
    "access text": ({"resources": lambda s, a: ("ws/a",)}, "the arguments cannot"),
    "resources None": ({"resources": lambda s, a: None}, "the arguments cannot"),
    "problem of another type": ({"problem": lambda s, a: 5}, "5"),
    "problem exits": ({"problem": lambda s, a: sys.exit(1)}, "the arguments cannot be checked"),
    "needs exits": ({"needs": lambda s, a: sys.exit(1)}, "needs: it raised SystemExit"),
}


@pytest.mark.parametrize("place", KINDS, indirect=True)
@pytest.mark.parametrize("case", CHECKED)
def test_what_a_tool_declares_is_checked_before_anything_is_done(place, socket, case):
    attributes, reason = CHECKED[case]
    done = []

    async def execute(context):
        done.append(context)

    async def scenario():
        tools = [tool("bad", execute, **attributes)]
        policy = scripted(turn(("bad", {})), said)
        async with agents(place, socket, policy=policy, tools=tools) as found:
            run_id = await found.submit("g")
            await asyncio.wait_for(served(found, run_id), 30)
            view = await consistent(found, run_id)
            assert (view.state, done, found.failures) == ("done", [], {})
            assert view.candidate.startswith(f"Not executed: {reason}")

    asyncio.run(scenario())


ENDS = {
    "text None": (returning(ToolResult(None)), "done", "[the result's text was NoneType]"),
    "text bytes": (returning(ToolResult(b"x")), "done", "[the result's text was bytes]"),
    "evidence list": (returning(ToolResult("x", [1])), "done", "x"),
    "evidence shared": (returning(ToolResult("x", {"e": shared(60)})), "done", "x"),
    "evidence large": (returning(ToolResult("x", {"e": "y" * 9_000_000, "n": 1})), "done", "x"),
    "None": (returning(None), "stopped", "Started; its outcome is not known."),
    "silent": (raising(Silent()), "stopped", "Started; its outcome is not known."),
    "exit": (raising(SystemExit(7)), "stopped", "Started; its outcome is not known."),
    "generator exit": (raising(GeneratorExit()), "stopped", "Started; its outcome is not known."),
    "cancels itself": (raising(asyncio.CancelledError()), "stopped", "Started; its outcome"),
}


@pytest.mark.parametrize("case", ENDS)
def test_however_a_tool_ends_there_is_an_outcome(place, socket, case):
    execute, state, told = ENDS[case]

    async def scenario():
        policy = scripted(turn(("bad", {})), said)
        async with agents(place, socket, policy=policy, tools=[tool("bad", execute)]) as found:
            run_id = await found.submit("g", on_unknown="tell_model")
            await asyncio.wait_for(served(found, run_id), 30)
            view = await consistent(found, run_id)
            assert (view.state, view.action("a1").state) == ("done", state)
            assert view.candidate.startswith(told)
            log = await found.setup.journal.read_events(run_id)
            assert max(len(str(event.body)) for event in log) < 100_000

    asyncio.run(scenario())


@pytest.mark.parametrize("answer", [None, "happened", QueryAnswer("happened"), SystemExit(1)])
def test_an_answer_that_is_none_is_asked_for_again_for_a_while(place, socket, answer):
    asked = []

    async def query(self, op_key, arguments):
        asked.append(op_key)
        if isinstance(answer, BaseException):
            raise answer
        return answer

    async def scenario():
        tools = [tool("q", raising(OSError()), effect=Effect.QUERYABLE, query=query)]
        timing = replace(TIMING, query_pause_s=0.02, query_deadline_s=0.3)
        policy = scripted(turn(("q", {})), said)
        async with agents(place, socket, policy=policy, tools=tools, timing=timing) as found:
            run_id = await found.submit("g")
            view = await asyncio.wait_for(found.drive(run_id), 30)
            assert view.action("a1").state == "stopped"
            assert 2 <= len(asked) <= 5  # 0.02, 0.06, 0.14, 0.3

    asyncio.run(scenario())


def test_what_a_query_brings_is_cut_like_a_result(place, socket):
    async def query(self, op_key, arguments):
        return QueryAnswer(Answer.HAPPENED, ToolResult("y" * 6_000_000))

    async def scenario():
        tools = [tool("q", raising(OSError()), effect=Effect.QUERYABLE, query=query)]
        policy = scripted(turn(("q", {})), said)
        async with agents(place, socket, policy=policy, tools=tools) as found:
            run_id = await found.submit("g")
            view = await found.drive(run_id)
            action = view.action("a1")
            assert (view.state, action.evidence["output_bytes"]) == ("done", 6_000_000)
            assert len(action.text) < 20_000

    asyncio.run(scenario())


SCHEMA = {
    "type": "object",
    "properties": {"path": {"type": "string"}},
    "required": ["path"],
    "additionalProperties": False,
}


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"path": "x"}, "ok"),
        (
            {"path": 5},
            'Not executed: the arguments do not fit: path: the value is not of type "str',
        ),
        ({}, 'Not executed: the arguments do not fit: "path" is a required property'),
        ({"path": "x", "y": 1}, "Not executed: the arguments do not fit: Additional properties"),
    ],
)
def test_only_calls_that_fit_the_schema_become_actions(place, socket, arguments, told):
    async def scenario():
        ok = tool("ok", returning(ToolResult("ok")), effect=Effect.PURE, parameters=SCHEMA)
        policy = scripted(turn(("ok", arguments)), said)
        async with agents(place, socket, policy=policy, tools=[ok]) as found:
            view = await found.drive(await found.submit("g"))
            assert view.candidate.startswith(told)
            assert len(view.actions) == (told == "ok")

    asyncio.run(scenario())


class Broken(Through):
    """Refuses every append of a turn in the run that is named `bad`."""

    def __init__(self, journal, error):
        super().__init__(journal)
        self.error = error

    async def append(self, run_id, version, fence, events, *rest):
        if run_id == "bad" and any(event.kind.startswith("turn.") for event in events):
            raise self.error
        return await self._journal.append(run_id, version, fence, events, *rest)


@pytest.mark.parametrize("place", KINDS, indirect=True)
def test_a_run_that_fails_is_given_up_in_its_log_and_shown(place, socket):
    async def scenario():
        async with agents(place, socket, policy=scripted(said)) as base:
            journal = Broken(base.setup.journal, ConstraintBroken("a column is too narrow"))
            once = replace(base.setup.timing, retry_s=3600.0)
            found = Agents(replace(base.setup, journal=journal, timing=once))
            await found.submit("g", run_id="bad")
            good = await found.submit("g")
            await served(found, "bad", good)
            assert (await found.view(good)).state == "done"
            (move,) = (await found.show("bad")).next_moves
            assert (move["who"], move["what"]) == ("person", "run")
            tried = "; this worker tries it again (1 of 3 times)"
            assert move["facts"]["reason"] == f"ConstraintBroken: a column is too narrow{tried}"
            assert isinstance(found.failures["bad"], ConstraintBroken)
            assert (await base.setup.journal.run_row("bad")).owner is None
            view = await base.drive("bad")  # a worker without the fault goes on
            assert (view.state, view.trouble) == ("done", "")

    asyncio.run(scenario())


def test_a_journal_that_fails_ends_the_worker(place, socket):
    async def scenario():
        async with agents(place, socket, policy=scripted(said)) as base:
            journal = Broken(base.setup.journal, StorageError("the disk is full"))
            found = Agents(replace(base.setup, journal=journal))
            await found.submit("g", run_id="bad")
            with pytest.raises(StorageError, match="full"):
                await asyncio.wait_for(found.serve(asyncio.Event()), 30)

    asyncio.run(scenario())


class Damaged(Through):
    async def read_events(self, run_id, *rest):
        if run_id == "bad":
            raise UnreadableEvent("its log is damaged")
        return await self._journal.read_events(run_id, *rest)


def test_a_log_that_cannot_be_read_is_no_fault_of_the_others(place, socket):
    async def scenario():
        async with agents(place, socket, policy=scripted(said)) as base:
            found = Agents(replace(base.setup, journal=Damaged(base.setup.journal)))
            await found.submit("g", run_id="bad")
            good = await found.submit("g")
            await served(found, good)
            assert (await found.view(good)).state == "done"
            assert "its log is damaged" in str(found.failures["bad"])

    asyncio.run(scenario())


def test_no_more_runs_are_driven_at_once_than_the_setup_says(place, socket):
    driven, most, go_on = [0], [0], asyncio.Event()

    async def counted(context):
        driven[0] += 1
        most[0] = max(most[0], driven[0])
        if driven[0] == 2:  # others would come meanwhile
            asyncio.get_running_loop().call_later(0.3, go_on.set)
        await go_on.wait()
        driven[0] -= 1
        return ToolResult("x")

    async def scenario():
        tools = [tool("count", counted, effect=Effect.PURE)]
        policy = scripted(turn(("count", {})), said)
        more = {"policy": policy, "tools": tools, "runs_at_once": 2}
        async with agents(place, socket, **more) as found:
            runs = [await found.submit("g") for _ in range(5)]
            await asyncio.wait_for(served(found, *runs), 30)
            assert [(await found.view(r)).state for r in runs] == ["done"] * 5
            assert most == [2]

    asyncio.run(scenario())


def test_a_snapshot_that_cannot_be_read_costs_only_its_use(place, socket):
    class Bad(Through):
        async def load_snapshot(self, run_id, **which):
            raise ValueError("not JSON")

    async def scenario():
        async with agents(place, socket, tools=all_tools(socket), policy=scripted(said)) as base:
            found = Agents(replace(base.setup, journal=Bad(base.setup.journal)))
            run_id = await found.submit("g")
            assert (await found.drive(run_id)).state == "done"

    asyncio.run(scenario())


class Costly(Policy):
    def worst_case(self, messages):
        return Cost(usd=Decimal("NaN"))

    async def propose(self, messages, context):
        raise AssertionError("nobody asks it")


def test_a_worst_case_that_is_no_amount_ends_the_run(place, socket):
    async def scenario():
        async with agents(place, socket, policy=lambda task: Costly()) as found:
            run_id = await found.submit("g")
            await asyncio.wait_for(served(found, run_id), 30)
            view = await found.view(run_id)
            assert view.state == "failed"
            assert view.aim_reason.startswith("the policy failed: its worst case: budget usd")

    asyncio.run(scenario())


def test_a_subtask_that_fails_does_not_end_its_parents_driver(place, socket):
    def policy(task):
        if task["goal"] == "bad" and driving:
            raise RuntimeError("no such policy")
        return scripted(turn(("subtask", {"goal": "bad"})), said)(task)

    driving = [True]

    async def scenario():
        async with agents(place, socket, policy=policy) as found:
            run_id = await found.submit("g")
            view = await asyncio.wait_for(found.drive(run_id), 30)
            (wait,) = view.waiting("child")
            child = wait.spec["child"]
            assert (view.state, str(found.failures[child])) == ("waiting", "no such policy")
            assert (await found.view(child)).trouble.startswith("RuntimeError: no such policy; ")

    asyncio.run(scenario())


class Echo(Policy):
    """Fails with words that the runtime has too, as an error of somebody's server may."""

    def __init__(self, words):
        self._words = words

    async def propose(self, messages, context):
        raise ConnectionError(self._words)


@pytest.mark.parametrize("words", ["the worker that asked was lost", "the run was handed over"])
def test_a_policy_that_fails_in_the_runtimes_own_words_has_failed(place, socket, words):
    async def scenario():
        async with agents(place, socket, policy=lambda task: Echo(words)) as found:
            view = await found.drive(await found.submit("g"))
            assert (view.state, view.aim_reason) == ("failed", f"no reply: {words}")
            assert len(view.turns) == found.setup.max_failed_turns

    asyncio.run(scenario())
