"""What comes in while a tool's own code is asked counts before anything starts."""

import asyncio

from tests.scenarios.agent.places import agents, said
from tests.scenarios.agent.test_answers import scripted, turn
from tests.scenarios.agent.test_endings import Door, kinds

from proctor.agent.core.locks import Access, Mode
from proctor.agent.permissions import Permissions, Rule, Ruling
from proctor.agent.tools import Effect, Tool, ToolResult


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
