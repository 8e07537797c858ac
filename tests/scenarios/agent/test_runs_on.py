"""An execution that cannot be cancelled runs on when its driver leaves: the next driver in this
process knows of it."""

import asyncio
from dataclasses import replace

import pytest
from tests.scenarios.agent.places import TIMING, agents, said
from tests.scenarios.agent.test_answers import scripted, turn
from tests.scenarios.agent.test_endings import Door

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
