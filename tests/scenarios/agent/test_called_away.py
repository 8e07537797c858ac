"""What comes in while a tool's own code is asked counts before anything starts."""

import asyncio
from dataclasses import replace

import pytest
from tests.scenarios.agent.places import TIMING, agents, said
from tests.scenarios.agent.test_answers import scripted, turn
from tests.scenarios.agent.test_endings import Door, gate, kinds
from tests.scenarios.agent.test_once import tool

from proctor.agent.core.budgets import Limits
from proctor.agent.core.locks import Access, Mode
from proctor.agent.driving.coordinator import Coordinator
from proctor.agent.driving.recorder import Recorder
from proctor.agent.permissions import Permissions, Rule, Ruling
from proctor.agent.policy import Proposal
from proctor.agent.setup import Hub
from proctor.agent.tools import Effect, Tool, ToolResult
from proctor.kernel.clock import SystemClock
from proctor.store.journal.contract import Message
from proctor.testing.agenttools import all_tools


class Sender(Tool):
    """Says what it did; `look` is awaited before it may start."""

    effect = Effect.NON_REPEATABLE
    look = None

    def __init__(self, name="send"):
        self.name, self.sent = name, []

    def resources(self, arguments):
        return (Access(Mode.WRITE, self.name),)

    async def execute(self, op_key, arguments, context):
        self.sent.append(op_key)
        return ToolResult("sent")


class CarefulSender(Sender):
    async def preconditions(self, arguments):
        await self.look(None)


class RevisedSender(Sender):
    async def revision(self, arguments):
        await self.look(None)
        return "r1"


async def cancelled_while_looking(found, tool, run_id, ask):
    driver = asyncio.create_task(found.drive(run_id))
    await tool.look.reached.wait()
    await ask
    tool.look.opened.set()
    return await driver


def test_a_cancel_that_was_acknowledged_while_preconditions_were_checked_starts_nothing(
    place, socket
):
    async def scenario():
        tool = CarefulSender()
        tool.look = Door()
        policy = scripted(turn(("send", {})), said)
        async with agents(place, socket, policy=policy, tools=[tool]) as found:
            run_id = await found.submit("g")
            view = await cancelled_while_looking(found, tool, run_id, found.cancel(run_id))
            assert (view.state, view.action("a1").state, tool.sent) == ("cancelled",) * 2 + ([],)

    asyncio.run(scenario())


def test_another_process_cancels_while_preconditions_are_checked(place, socket):
    async def scenario():
        tool = CarefulSender()
        tool.look = Door()
        policy = scripted(turn(("send", {})), said)
        async with (
            agents(place, socket, policy=policy, tools=[tool]) as found,
            agents(place, socket, policy=policy, tools=[tool]) as other,
        ):
            run_id = await found.submit("g")
            view = await cancelled_while_looking(found, tool, run_id, other.cancel(run_id))
            assert (view.state, tool.sent) == ("cancelled", [])

    asyncio.run(scenario())


def test_a_cancel_while_the_revision_of_an_approved_action_is_looked_at(place, socket):
    ask = Permissions((Rule("send", Ruling.ASK),), ask_expires_s=60.0)

    async def scenario():
        tool = RevisedSender()
        tool.look = Door()
        tool.look.opened.set()
        policy = scripted(turn(("send", {})), said)
        async with agents(place, socket, policy=policy, tools=[tool], permissions=ask) as found:
            run_id = await found.submit("g")
            await found.drive(run_id)
            await found.approve(run_id, "w1")
            tool.look = Second()
            view = await cancelled_while_looking(found, tool, run_id, found.cancel(run_id))
            assert (view.state, tool.sent) == ("cancelled", [])

    asyncio.run(scenario())


class Second(Door):
    """Open the first time: that is the look of the worker that takes the run over."""

    first = True

    async def __call__(self, context):
        if self.first:
            self.first = False
            return
        await super().__call__(context)


def test_nothing_is_allowed_in_the_log_while_another_actions_tool_is_asked(place, socket):
    async def scenario():
        quick, careful = Sender("quick"), CarefulSender("careful")
        careful.look = Door()
        policy = scripted(turn(("quick", {}), ("careful", {})), said)
        async with agents(place, socket, policy=policy, tools=[quick, careful]) as found:
            run_id = await found.submit("g")
            driver = asyncio.create_task(found.drive(run_id))
            await careful.look.reached.wait()
            assert "attempt.started" not in await kinds(found, run_id)
            found.hand_over(run_id)
            careful.look.opened.set()
            await asyncio.wait({driver})
            view = await found.drive(run_id)
            assert (view.state, len(quick.sent), len(careful.sent)) == ("done", 1, 1)

    asyncio.run(scenario())


def test_one_that_is_given_up_ends_the_others_and_the_worker_goes_on(place, socket):
    """Two ready actions that new rules forbid; the first may have happened, which stops the run."""
    denied = Permissions((Rule("*", Ruling.DENY),), epoch=2)

    async def scenario():
        found_by = []

        class Doubtful(Sender):
            effect, max_attempts = Effect.IDEMPOTENT, 3

            def resources(self, arguments):
                return (Access(Mode.WRITE, "m"),)

            async def execute(self, op_key, arguments, context):
                found_by[0].hand_over(run_id)
                raise ConnectionError("the reply is lost")

        tools = [Doubtful("pay"), Doubtful("other")]
        policy = scripted(turn(("pay", {}), ("other", {})), said)
        async with agents(place, socket, policy=policy, tools=tools) as found:
            found_by.append(found)
            run_id = await found.submit("g", on_unknown="stop_run")
            view = await found.drive(run_id)
            assert [a.state for a in view.actions] == ["ready", "ready"]
        async with agents(place, socket, policy=policy, tools=tools, permissions=denied) as found:
            view = await found.drive(run_id)
            assert [a.state for a in view.actions] == ["stopped", "cancelled"]
            assert view.state == "stopped"

    asyncio.run(scenario())


@pytest.mark.parametrize("said_by", ["tell", "cancel"])
def test_what_another_process_said_before_the_end_is_read_before_the_end(place, socket, said_by):
    """The inbox would be looked into much later."""
    slow = replace(TIMING, poll_s=60.0)

    async def scenario():
        door = Door()
        policy = scripted(turn(("gate", {})), said, Proposal("again"))
        more = {"policy": policy, "tools": [gate(door, effect=Effect.PURE)], "timing": slow}
        async with agents(place, socket, **more) as found, agents(place, socket) as other:
            run_id = await found.submit("g")
            driver = asyncio.create_task(found.drive(run_id))
            await door.reached.wait()
            await (other.tell(run_id, "wait!") if said_by == "tell" else other.cancel(run_id))
            door.opened.set()
            view = await asyncio.wait_for(driver, 30)
            assert not await found.setup.journal.inbox_pending(run_id)
            log = await kinds(found, run_id)
            if said_by == "cancel":
                assert view.state == "cancelled"
            else:
                assert (view.state, view.candidate) == ("done", "again")
                assert "message.received" in log

    asyncio.run(scenario())


def test_what_was_said_while_the_end_was_written_is_refused_and_not_forgotten(place, socket):
    async def scenario():
        policy = scripted(said)
        slow = replace(TIMING, poll_s=60.0)
        async with agents(place, socket, policy=policy, timing=slow) as found:
            run_id = await found.submit("g")
            journal = found.setup.journal
            at = found.setup.clock.now()
            late = Message(run_id, "late", "text", {"text": "wait!"}, at)
            flush = Recorder.flush

            async def flush_and_be_told(recorder):
                await flush(recorder)
                if recorder.view.ended and not told:
                    told.append(await journal.inbox_add(late))

            told = []
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(Recorder, "flush", flush_and_be_told)
                coordinator = Coordinator(found.setup, run_id, found.owner, Hub())
                view = await asyncio.wait_for(coordinator.drive(), 30)
            assert (view.state, len(told)) == ("done", 1)
            assert not await journal.inbox_pending(run_id)
            assert "message.refused" in await kinds(found, run_id)

    asyncio.run(scenario())


class Skipping(SystemClock):
    """Time passes when the test says so, too."""

    __slots__ = ("by",)

    def monotonic(self):
        return super().monotonic() + getattr(self, "by", 0.0)


def test_a_cancel_that_was_acknowledged_counts_though_the_time_is_spent_since(place, socket):
    async def scenario():
        clock = Skipping()

        async def long(context):
            object.__setattr__(clock, "by", 10.0)
            return ToolResult("ok")

        tools = [tool("long", long, effect=Effect.PURE), *all_tools(socket)]
        policy = scripted(turn(("long", {}), ("ask", {"question": "which?"})), said)
        async with agents(place, socket, policy=policy, tools=tools, clock=clock) as found:
            run_id = await found.submit("g", limits=Limits(wall_ms=5_000))
            view = await found.drive(run_id)
            assert (view.state, view.budgets.time_is_over) == ("waiting", True)
            await found.cancel(run_id, compensate=True)
            view = await found.drive(run_id)
            assert (view.state, view.cancel.compensate) == ("cancelled", True)

    asyncio.run(scenario())
