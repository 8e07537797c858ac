"""An execution that cannot be cancelled runs on when its driver leaves: the next driver in this
process knows of it."""

import asyncio
import os
import threading
from dataclasses import replace

import pytest
from tests.scenarios.agent.conftest import KINDS
from tests.scenarios.agent.places import TIMING, agents, said
from tests.scenarios.agent.test_answers import scripted, turn
from tests.scenarios.agent.test_endings import Door

from proctor.agent.setup import lingering
from proctor.agent.tools import Answer, Cancel, Effect, QueryAnswer, Tool, ToolResult


class Stubborn(Tool):
    """Cannot be cancelled; the other side knows nothing of it before it has ended."""

    name, effect, cancel, max_attempts = "pay", Effect.QUERYABLE, Cancel.NONE, 3

    def __init__(self):
        self.door, self.begun, self.done, self.asked = Door(), 0, 0, 0

    async def execute(self, op_key, arguments, context):
        self.begun += 1
        await self.door(context)
        self.done += 1
        return ToolResult("paid")

    async def query(self, op_key, arguments):
        self.asked += 1
        return QueryAnswer(Answer.HAPPENED if self.done else Answer.DID_NOT_HAPPEN)


@pytest.mark.parametrize("late_s", [0.0, 30.0])
def test_what_runs_on_after_a_handing_over_is_not_done_again(place, socket, late_s):
    timing = replace(TIMING, grace_s=0.1, late_s=late_s)

    async def scenario():
        tool = Stubborn()
        policy = scripted(turn(("pay", {})), said)
        async with agents(place, socket, policy=policy, tools=[tool], timing=timing) as found:
            run_id = await found.submit("g")
            driver = asyncio.create_task(found.drive(run_id))
            await tool.door.reached.wait()
            found.hand_over(run_id)
            if late_s:  # its end is awaited
                done, _ = await asyncio.wait({driver}, timeout=0.5)
                assert not done
                tool.door.opened.set()
            await driver
            view = await found.drive(run_id)
            assert (view.action("a1").attempts, tool.begun) == (1, 1)
            if late_s:
                assert (view.state, tool.done) == ("done", 1)
            else:
                assert (view.action("a1").state, tool.asked) == ("stopped", 0)
                tool.door.opened.set()

    asyncio.run(scenario())


@pytest.mark.parametrize("place", KINDS, indirect=True)
def test_other_agents_of_the_process_know_of_it_too(place, socket, tmp_path):
    """Whoever opens the journal once more, by whatever name."""
    timing = replace(TIMING, grace_s=0.1, late_s=0.0)
    alias = place
    if place.kind == "sqlite":
        os.symlink(tmp_path, tmp_path / "alias")
        alias = replace(place, where=str(tmp_path / "alias" / "journal.sqlite"))

    async def scenario():
        tool = Stubborn()
        more = {"policy": scripted(turn(("pay", {})), said), "tools": [tool], "timing": timing}
        async with agents(place, socket, **more) as one, agents(alias, socket, **more) as two:
            run_id = await one.submit("g")
            driver = asyncio.create_task(one.drive(run_id))
            await tool.door.reached.wait()
            one.hand_over(run_id)
            await driver
            view = await two.drive(run_id)
            assert (view.action("a1").attempts, tool.begun, tool.asked) == (1, 1, 0)
            assert view.action("a1").state == "stopped"
            tool.door.opened.set()

    asyncio.run(scenario())


def test_a_run_of_the_same_name_in_another_journal_is_another_run(place, socket):
    timing = replace(TIMING, grace_s=0.1, late_s=0.0)
    other = replace(place, where=place.where + "2")

    async def scenario():
        tool, free = Stubborn(), Stubborn()
        free.door.opened.set()
        more = {"policy": scripted(turn(("pay", {})), said), "timing": timing}
        async with (
            agents(place, socket, tools=[tool], **more) as one,
            agents(other, socket, tools=[free], **more) as two,
        ):
            await one.submit("g", run_id="r")
            driver = asyncio.create_task(one.drive("r"))
            await tool.door.reached.wait()
            one.hand_over("r")
            await driver
            await two.submit("g", run_id="r")
            assert ((await two.drive("r")).state, free.begun) == ("done", 1)
            tool.door.opened.set()

    asyncio.run(scenario())


def test_agents_in_another_thread_wait_for_what_runs_on(place, socket):
    """Its end is awaited across event loops, and then the other side is asked."""
    timing = replace(TIMING, grace_s=0.1, late_s=30.0)
    tool, looking = Stubborn(), threading.Event()
    more = {"policy": scripted(turn(("pay", {})), said), "tools": [tool], "timing": timing}
    found = []

    async def second(run_id):
        async with agents(place, socket, **more) as two:
            driver = asyncio.create_task(two.drive(run_id))
            async for event in two.watch(run_id):
                if event.kind == "run.claimed" and event.body["fence"] == 2:
                    break
            looking.set()
            found.append(await driver)

    async def scenario():
        async with agents(place, socket, **{**more, "timing": replace(timing, late_s=0.0)}) as one:
            run_id = await one.submit("g")
            driver = asyncio.create_task(one.drive(run_id))
            await tool.door.reached.wait()
            one.hand_over(run_id)
            await driver
            for execution in lingering(one.setup.journal, run_id):
                execution.stays_until = one.setup.clock.monotonic() + 30.0
            thread = threading.Thread(target=lambda: asyncio.run(second(run_id)))
            thread.start()
            await asyncio.to_thread(looking.wait, 20)
            assert (tool.begun, tool.asked) == (1, 0)
            tool.door.opened.set()
            await asyncio.to_thread(thread.join, 20)
            (view,) = found
            assert (view.state, view.action("a1").attempts) == ("done", 1)
            assert (tool.begun, tool.asked) == (1, 1)

    asyncio.run(scenario())
