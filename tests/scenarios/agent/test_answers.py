"""Waiting for people and for time: answers reach the right call, once, whoever restarts."""

import asyncio
from datetime import timedelta

import pytest
from tests.scenarios.agent.places import agents, consistent, said

from proctor.agent.context import messages
from proctor.agent.permissions import Permissions, Rule, Ruling
from proctor.agent.policy import Proposal, ScriptedPolicy
from proctor.agent.tools import Effect
from proctor.kernel.clock import SystemClock
from proctor.models.contract import ToolCall
from proctor.store.journal.contract import Message
from proctor.testing.agenttools import NonRepeatableTool, all_tools
from proctor.testing.otherside import ask


class Shifted(SystemClock):
    """The machine's clock, moved by the test."""

    __slots__ = ("by",)

    def now(self):
        return super().now() + getattr(self, "by", timedelta())

    def move(self, **delta):
        object.__setattr__(self, "by", timedelta(**delta))


def scripted(*steps):
    return lambda task: ScriptedPolicy(list(steps))


def turn(*calls):
    return Proposal("", tuple(ToolCall(f"c{n + 1}", *call) for n, call in enumerate(calls)))


async def effects(socket, view):
    keys = (await ask(socket, {"log": True}))["keys"]
    return {a.id: keys.count(a.op_key) for a in view.actions}


def test_b38_an_answer_completes_its_call_and_nothing_is_executed_again(place, socket):
    policy = scripted(
        turn(
            ("non_repeatable", {"path": "tickets"}),
            ("ask", {"question": "which?"}),
            ("pure", {"path": "file"}),
        ),
        said,
    )

    async def before():
        async with agents(place, socket, policy=policy) as found:
            run_id = await found.submit("g")
            view = await found.drive(run_id)
            assert [a.state for a in view.actions] == ["done", "waiting", "done"]
            assert view.state == "waiting"
            return run_id

    async def after(run_id):
        async with agents(place, socket, policy=policy) as found:
            (move,) = (await found.show(run_id)).next_moves
            assert (move["who"], move["facts"]["prompt"]) == ("person", "which?")
            await found.answer(run_id, move["what"], "the second")
            await found.drive(run_id)
            view = await consistent(found, run_id)
            assert view.candidate == "effect 1|the second|read"
            assert (await effects(socket, view))["a1"] == 1
            results = [m["tool_call_id"] for m in messages(view) if m["role"] == "tool"]
            assert results == ["c1", "c2", "c3"]

    asyncio.run(after(asyncio.run(before())))


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_b38_answers_in_any_order_reach_the_calls_they_are_for(place, socket, order):
    policy = scripted(turn(("ask", {"question": "first?"}), ("ask", {"question": "second?"})), said)

    async def scenario():
        async with agents(place, socket, policy=policy) as found:
            run_id = await found.submit("g")
            await found.drive(run_id)
            moves = (await found.show(run_id)).next_moves
            for which in order:
                answer = f"answer to {moves[which]['facts']['prompt']}"
                await found.answer(run_id, moves[which]["what"], answer)
                await found.drive(run_id)
            view = await consistent(found, run_id)
            assert view.candidate == "answer to first?|answer to second?"

    asyncio.run(scenario())


def test_two_answers_at_once_the_first_counts_and_the_second_is_refused_and_kept(place, socket):
    policy = scripted(turn(("ask", {"question": "?"})), said)

    async def scenario():
        async with agents(place, socket, policy=policy) as found:
            run_id = await found.submit("g")
            await found.drive(run_id)
            await found.answer(run_id, "w1", "one", by="ann")
            await found.answer(run_id, "w1", "two", by="bob")
            await found.drive(run_id)
            view = await consistent(found, run_id)
            assert view.candidate == "one"
            events = await found.setup.journal.read_events(run_id)
            (refused,) = [e.body for e in events if e.kind == "message.refused"]
            assert "closed before" in refused["reason"]
            assert refused["body"]["by"] == "bob"
            assert await found.setup.journal.inbox_pending(run_id) == []

    asyncio.run(scenario())


def test_the_same_message_twice_counts_once(place, socket):
    policy = scripted(turn(("ask", {"question": "?"})), said)

    async def scenario():
        async with agents(place, socket, policy=policy) as found:
            run_id = await found.submit("g")
            await found.drive(run_id)
            for _ in range(2):
                await found.answer(run_id, "w1", "one", message_id="m1")
            view = await found.drive(run_id)
            assert view.candidate == "one"
            kinds = [e.kind for e in await found.setup.journal.read_events(run_id)]
            assert "message.refused" not in kinds

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("answer", {}),
        ("answer", {"wait": "w999", "value": 1}),
        ("answer", {"wait": "w1", "how": "superseded"}),
        ("answer", {"wait": ["w1"], "value": {"a": [1]}}),
        ("child_ended", {"wait": "w1"}),
        ("text", {}),
        ("rm -rf", {"x": "y"}),
    ],
)
def test_a_message_that_means_nothing_is_refused_and_the_run_goes_on(place, socket, kind, body):
    policy = scripted(turn(("ask", {"question": "?"})), said)

    async def scenario():
        async with agents(place, socket, policy=policy) as found:
            run_id = await found.submit("g")
            await found.drive(run_id)
            message = Message(run_id, "bad", kind, body, found.setup.clock.now())
            await found.setup.journal.inbox_add(message)
            await found.drive(run_id)
            await found.answer(run_id, "w1", "fine")
            view = await found.drive(run_id)
            assert view.candidate == "fine"
            assert await found.setup.journal.inbox_pending(run_id) == []

    asyncio.run(scenario())


def test_a_timer_is_a_row_and_not_a_sleeping_task(place, socket):
    policy = scripted(turn(("timer", {"delay_s": 86_400})), said)
    clock = Shifted()

    async def scenario():
        async with agents(place, socket, policy=policy, clock=clock) as found:
            run_id = await found.submit("g")
            assert (await found.drive(run_id)).state == "waiting"
            (move,) = (await found.show(run_id)).next_moves
            assert move["who"] == "timer"
            assert (await found.drive(run_id)).state == "waiting"
            clock.move(days=1, seconds=1)
            due = await found.setup.journal.due_waits(clock.now())
            assert [name for name, _ in due] == [run_id]
            view = await found.drive(run_id)
            assert (view.state, view.candidate) == ("done", "time has passed")

    asyncio.run(scenario())


def test_an_unanswered_question_expires_and_the_model_is_told(place, socket):
    policy = scripted(turn(("ask", {"question": "?", "expires_s": 60})), said)
    clock = Shifted()

    async def scenario():
        async with agents(place, socket, policy=policy, clock=clock) as found:
            run_id = await found.submit("g")
            await found.drive(run_id)
            clock.move(seconds=61)
            await found.answer(run_id, "w1", "too late")
            view = await found.drive(run_id)
            assert view.action("a1").state == "failed"
            assert view.candidate == "Not executed: no answer"

    asyncio.run(scenario())


ASK_FOR_IT = Permissions((Rule("non_*", Ruling.ASK),))


def test_an_approval_is_asked_for_given_and_denied(place, socket):
    policy = scripted(turn(("non_repeatable", {"n": 1})), turn(("non_repeatable", {"n": 2})), said)

    async def scenario():
        async with agents(place, socket, policy=policy, permissions=ASK_FOR_IT) as found:
            run_id = await found.submit("g")
            await found.drive(run_id)
            await found.approve(run_id, "w1", by="ann")
            view = await found.drive(run_id)
            assert view.action("a1").state == "done"
            await found.deny(run_id, "w2", by="ann", reason="not today")
            view = await found.drive(run_id)
            assert view.candidate == "effect 1|Not executed: not today"
            assert await effects(socket, view) == {"a1": 1, "a2": 0}

    asyncio.run(scenario())


def test_an_approval_for_the_run_covers_the_same_call_only(place, socket):
    call = ("non_repeatable", {"n": 1})
    policy = scripted(turn(call), turn(call), turn(("non_repeatable", {"n": 2})), said)

    async def scenario():
        async with agents(place, socket, policy=policy, permissions=ASK_FOR_IT) as found:
            run_id = await found.submit("g")
            await found.drive(run_id)
            await found.approve(run_id, "w1", scope="run")
            view = await found.drive(run_id)
            assert [a.state for a in view.actions] == ["done", "done", "waiting"]

    asyncio.run(scenario())


class Versioned(NonRepeatableTool):
    """Its resource has a revision that the test sets."""

    revision_now = "r1"

    async def revision(self, arguments):
        return self.revision_now


@pytest.mark.parametrize("change", ["resource", "epoch", "answered before the change"])
def test_an_approval_is_void_when_what_it_was_about_has_changed(place, socket, change):
    policy = scripted(turn(("non_repeatable", {"n": 1})), said)
    tool = Versioned(socket)
    tools = [tool, *(t for t in all_tools(socket) if t.name != tool.name)]

    async def scenario():
        async with agents(
            place, socket, policy=policy, permissions=ASK_FOR_IT, tools=tools
        ) as found:
            run_id = await found.submit("g")
            await found.drive(run_id)
            if change == "answered before the change":
                await found.approve(run_id, "w1")
            tool.revision_now = "r2" if change != "epoch" else "r1"
        permissions = ASK_FOR_IT if change != "epoch" else Permissions(ASK_FOR_IT.rules, epoch=1)
        async with agents(
            place, socket, policy=policy, permissions=permissions, tools=tools
        ) as found:
            view = await found.drive(run_id)
            assert view.action("a1").state == "waiting"
            assert (await effects(socket, view))["a1"] == 0
            (wait,) = view.waiting("approval")
            assert wait.id != "w1"
            assert view.wait("w1").state == "superseded"
            await found.approve(run_id, wait.id)
            view = await found.drive(run_id)
            assert (view.state, (await effects(socket, view))["a1"]) == ("done", 1)

    asyncio.run(scenario())


def test_a_denied_tool_never_runs_and_a_rule_that_breaks_denies(place, socket):
    def broken(arguments):
        raise RuntimeError

    rules = (Rule("pure", Ruling.ALLOW, broken), Rule("idem*", Ruling.DENY))
    policy = scripted(turn(("pure", {}), ("idempotent", {}), ("nothing", {})), said)

    async def scenario():
        async with agents(place, socket, policy=policy, permissions=Permissions(rules)) as found:
            view = await found.drive(await found.submit("g"))
            assert view.candidate == (
                "Not executed: not permitted|Not executed: not permitted|"
                "Not executed: there is no tool 'nothing'"
            )
            assert set((await effects(socket, view)).values()) == {0}

    asyncio.run(scenario())


def test_the_tools_for_tests_cover_every_effect_class(socket):
    assert {tool.effect for tool in all_tools(socket)} == set(Effect)
