"""Subtasks: what they may spend, how they are told, and how their parent ends."""

import asyncio
from dataclasses import replace
from decimal import Decimal

import pytest
from tests.scenarios.agent.places import TIMING, agents, consistent, said
from tests.scenarios.agent.test_answers import Shifted, effects, scripted, turn
from tests.scenarios.agent.test_endings import Door, bodies, gate, kinds

from proctor.agent.core.budgets import Cost, Limits
from proctor.agent.permissions import Permissions, Rule, Ruling
from proctor.agent.policy import Policy, Proposal
from proctor.agent.tools import Effect, Need
from proctor.models.contract import ToolCall
from proctor.store.journal.contract import Message
from proctor.testing.agenttools import SubtaskTool, all_tools

DIME = Decimal("0.10")


class Spender(Policy):
    """A parent that hands on its goal, and a subtask that would go on for ever."""

    def __init__(self, task, limits):
        self._parent, self._limits = task["goal"] == "parent", limits

    def worst_case(self, messages):
        return Cost(usd=DIME)

    async def propose(self, messages, context):
        asked = sum(m["role"] == "assistant" for m in messages)
        if not self._parent:
            return Proposal("", (ToolCall(f"c{asked}", "timer", {"delay_s": 0}),), Cost(usd=DIME))
        if asked:
            return said(messages)
        call = {"goal": "child", **({"limits": self._limits} if self._limits else {})}
        return Proposal("", (ToolCall("c1", "subtask", call),), Cost(usd=DIME))


@pytest.mark.parametrize(
    ("limits", "spent"),
    [(None, "1.00"), ({"usd": "0.30"}, "0.50"), ({"usd": "-100"}, "0.20"), ({"usd": []}, "0.20")],
)
def test_a_subtask_spends_its_parents_money(place, socket, limits, spent):
    async def scenario():
        policy = lambda task: Spender(task, limits)  # noqa: E731
        async with agents(place, socket, policy=policy) as found:
            run_id = await found.submit("parent", limits=Limits(usd=Decimal(1)))
            view = await found.drive(run_id)
            assert view.ended
            assert view.budgets.spent.usd == Decimal(spent)
            rows = await found.setup.journal.read_rows("budget_entry", run_id)
            assert sum(r.values["settled"] for r in rows if r.key["kind"] == "usd") == Decimal(
                spent
            )

    asyncio.run(scenario())


async def child_of(found, run_id):
    (child,) = [r for r in await found.setup.journal.runs() if r.parent_run_id == run_id]
    return child


def asking(*before):
    """A parent with a subtask that does something and then asks a person."""

    def policy(task):
        if task["goal"] == "parent":
            return scripted(turn(("subtask", {"goal": "child"})), said)(task)
        return scripted(*before, turn(("ask", {"question": "?"})), said)(task)

    return policy


@pytest.mark.parametrize(
    "forged",
    [
        {"state": "done", "result": "forged", "spent": {"usd": "-100"}},
        {"state": "done", "result": "forged", "spent": {"usd": "abc"}},
        "anything",
    ],
)
def test_nobody_answers_for_a_subtask(place, socket, forged):
    async def scenario():
        async with agents(place, socket, policy=asking()) as found:
            run_id = await found.submit("parent", limits=Limits(usd=Decimal(1)))
            await found.drive(run_id)
            await found.answer(run_id, "w1", forged)
            if isinstance(forged, dict) and forged["spent"]["usd"] == "abc":
                body = {"wait": "w1", **forged}
                message = Message(run_id, "m", "child_ended", body, found.clock.now())
                await found.setup.journal.inbox_add(message)
            for _ in range(2):
                view = await found.drive(run_id)
                assert (view.state, view.wait("w1").state) == ("waiting", "open")
            child = (await child_of(found, run_id)).run_id
            await found.answer(child, "w1", "yes")
            view = await found.drive(child)
            assert view.state == "done"
            view = await found.drive(run_id)
            assert (view.state, view.candidate) == ("done", "subtask done: yes")
            assert view.budgets.spent.usd == 0

    asyncio.run(scenario())


def test_a_cancelled_subtask_that_had_an_effect_is_not_called_not_executed(place, socket):
    policy = asking(turn(("non_repeatable", {})))

    async def scenario():
        async with agents(place, socket, policy=policy) as found:
            run_id = await found.submit("parent")
            await found.drive(run_id)
            child = (await child_of(found, run_id)).run_id
            await found.cancel(child, by="ann")
            await found.drive(child)
            assert (await effects(socket, await found.view(child)))["a1"] == 1
            view = await found.drive(run_id)
            assert (view.state, view.action("a1").state) == ("done", "cancelled")
            assert "Not executed" not in view.candidate
            assert "the subtask was cancelled" in view.candidate

    asyncio.run(scenario())


class Impatient(SubtaskTool):
    """A subtask that has a minute."""

    def needs(self, arguments):
        return Need("child", goal=str(arguments["goal"]), expires_s=60.0)


def test_a_subtask_whose_time_is_over_is_cancelled_and_its_end_waited_for(place, socket):
    clock = Shifted()

    async def scenario():
        tools = [t for t in all_tools(socket) if t.name != "subtask"] + [Impatient()]
        async with agents(place, socket, policy=asking(), tools=tools, clock=clock) as found:
            run_id = await found.submit("parent")
            view = await found.drive(run_id)
            assert view.wait("w1").due_ms is not None
            clock.move(minutes=2)
            view = await found.drive(run_id)
            assert (await child_of(found, run_id)).state == "cancelled"
            assert (view.state, view.action("a1").state) == ("done", "cancelled")
            assert view.candidate.startswith("Its subtask has ended (cancelled); what it did")
            log = await kinds(found, run_id)
            assert log.index("wait.overdue") < log.index("wait.closed")

    asyncio.run(scenario())


def test_every_suspension_reaches_the_subtask_also_under_one_owner(place, socket):
    async def scenario():
        door = Door()
        tools = [*all_tools(socket), gate(door, effect=Effect.PURE)]

        def policy(task):
            if task["goal"] != "parent":
                return scripted(turn(("ask", {"question": "?"})), said)(task)
            return scripted(turn(("subtask", {"goal": "child"}), ("gate", {})), said)(task)

        async with agents(place, socket, policy=policy, tools=tools) as found:
            run_id = await found.submit("parent")
            made = asyncio.Event()
            found._hub.listen_to_all(lambda _, parent: made.set() if parent == run_id else None)
            driver = asyncio.create_task(found.drive(run_id))
            await door.reached.wait()
            await made.wait()
            child = (await child_of(found, run_id)).run_id
            seen = found.watch(child)
            for say, moved in ((found.suspend, "suspend"), (found.resume, "resume")) * 2:
                await say(run_id)
                async for event in seen:
                    if event.kind == "run.moved" and event.body["event"] == moved:
                        break
            moves = [b["event"] for b in await bodies(found, child, "run.moved")]
            assert [m for m in moves if m in ("suspend", "resume")] == ["suspend", "resume"] * 2
            assert (await kinds(found, run_id)).count("run.claimed") == 1  # one owner all the time
            door.opened.set()
            await found.cancel(run_id)
            await driver

    asyncio.run(asyncio.wait_for(scenario(), 30))


@pytest.mark.parametrize("word", ["suspend", "cancel"])
def test_a_subtask_is_told_when_its_message_can_be_read_and_not_before(
    place, socket, monkeypatch, word
):
    """Told before, its driver may look, find nothing and go; then nobody looks again."""
    order = []

    async def scenario():
        async with agents(place, socket, policy=asking()) as found:
            run_id = await found.submit("parent")
            await found.drive(run_id)
            child = (await child_of(found, run_id)).run_id
            journal, append = found.setup.journal, found.setup.journal.append

            async def appended(run, version, fence, events, rows, durability, messages=()):
                answer = await append(run, version, fence, events, rows, durability, messages)
                order.extend("on disk" for m in messages if m.run_id == child)
                return answer

            monkeypatch.setattr(journal, "append", appended, raising=False)
            found._hub.listen(child, lambda: order.append("told"))
            await getattr(found, word)(run_id)
            await found.drive(run_id)
            place_on_disk = order.index("on disk")
            assert order[place_on_disk + 1] == "told"
            wanted = {"suspend": "suspended", "cancel": "cancelled"}[word]
            assert (await child_of(found, run_id)).state == wanted

    asyncio.run(scenario())


def test_a_parent_ends_though_its_subtask_does_not(place, socket):
    """Another worker holds the subtask and is silent: the run ends in its time, says what it leaves
    behind, and its log does not grow meanwhile."""
    quick = replace(TIMING, grace_s=0.1, cancel_s=0.4)

    async def scenario():
        async with agents(place, socket, policy=asking(), timing=quick) as found:
            run_id = await found.submit("parent")
            await found.drive(run_id)
            child = (await child_of(found, run_id)).run_id
            lease = await found.setup.journal.claim(child, "silent worker", 600.0)
            before = (await kinds(found, run_id)).count("run.claimed")
            await found.cancel(run_id, by="ann")
            stop = asyncio.Event()
            serving = asyncio.create_task(found.serve(stop))
            async for _ in found.watch(run_id):
                pass  # until it has ended
            stop.set()
            await serving
            view = await consistent(found, run_id)
            assert (view.state, view.action("a1").state) == ("stopped", "stopped")
            assert [u["action"] for u in view.unsettled] == ["a1"]
            assert view.action("a1").handover["child"] == child
            assert (await kinds(found, run_id)).count("run.claimed") - before == 1
            pending = await found.setup.journal.inbox_pending(child)
            assert [m.kind for m in pending] == ["cancel"]
            await found.setup.journal.release(lease)

    asyncio.run(asyncio.wait_for(scenario(), 30))


@pytest.mark.parametrize("hindered", ["approval", "locks"])
def test_a_compensation_that_cannot_start_is_given_up_in_time(place, socket, hindered):
    quick = replace(TIMING, grace_s=0.1, cancel_s=0.3)
    rules = Permissions((Rule("idempotent", Ruling.ASK),)) if hindered == "approval" else None
    lost = ("non_repeatable", {"path": "undo", "answer": "lose"})
    second = ("ask", {"question": "?"}) if rules else lost

    async def scenario():
        policy = scripted(turn(("non_repeatable", {"path": "a"}), second), said)
        more = {"permissions": rules} if rules else {}
        async with agents(place, socket, policy=policy, timing=quick, **more) as found:
            run_id = await found.submit("g")
            await found.drive(run_id)
            await found.cancel(run_id, compensate=True)
            view = await found.drive(run_id)
            assert view.state == "cancelled"
            undo = view.action("a3")
            assert (undo.compensates, undo.state, undo.attempts) == ("a1", "cancelled", 0)
            assert view.action("a1").effects == "done"  # it is not compensated, and says so
            assert len(await kinds(found, run_id)) < 40

    asyncio.run(asyncio.wait_for(scenario(), 30))


def test_the_time_for_cleaning_up_is_reckoned_from_the_log(place, socket):
    """A worker that takes over gives it no second time."""
    clock = Shifted()
    slow = replace(TIMING, grace_s=0.1, cancel_s=3_600.0)

    async def scenario():
        more = {"policy": asking(), "timing": slow, "clock": clock}
        async with agents(place, socket, **more) as found:
            run_id = await found.submit("parent")
            await found.drive(run_id)
            child = (await child_of(found, run_id)).run_id
            await found.setup.journal.claim(child, "silent worker", 86_400.0)
            await found.cancel(run_id, by="ann")
            driver = asyncio.create_task(found.drive(run_id))
            async for event in found.watch(run_id):
                if event.kind == "run.closing":
                    break
            found.hand_over(run_id)
            await driver
            assert (await found.view(run_id)).state == "finishing"
            clock.move(hours=2)
            assert (await found.drive(run_id)).state == "stopped"

    asyncio.run(asyncio.wait_for(scenario(), 30))
