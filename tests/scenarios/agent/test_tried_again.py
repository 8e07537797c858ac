"""A run whose driver failed is tried again by the same worker, a few times, and then no more."""

import asyncio
from dataclasses import replace

import pytest
from tests.scenarios.agent.places import TIMING, agents, consistent, said
from tests.scenarios.agent.test_answers import scripted, turn
from tests.scenarios.agent.test_endings import bodies
from tests.scenarios.agent.test_hostile import Broken
from tests.scenarios.agent.test_subtasks import child_of

from proctor.agent.api import Agents
from proctor.agent.driving.retrying import Retries
from proctor.store.journal.errors import ConstraintBroken
from proctor.testing.clock import FakeClock

QUICK = replace(TIMING, retry_s=0.01, poll_s=0.01)


class Passing(Broken):
    """What is wrong passes after some times; `concerns` says which runs it is wrong with."""

    def __init__(self, journal, times, concerns=lambda run_id: True):
        super().__init__(journal, ConstraintBroken("too narrow"))
        self.left, self.concerns = times, concerns

    async def append(self, run_id, version, fence, events, *rest):
        turns = any(event.kind.startswith("turn.") for event in events)
        if turns and self.concerns(run_id) and self.left:
            self.left -= 1
            raise self.error
        return await self._journal.append(run_id, version, fence, events, *rest)


async def reasons(found, run_id):
    return [body["reason"] for body in await bodies(found, run_id, "run.given_up")]


async def serve_until(found, run_id, kind, count):
    """Serve until this event was there so often."""
    stop = asyncio.Event()
    worker = asyncio.create_task(found.serve(stop))
    async for event in found.watch(run_id):
        count -= event.kind == kind
        if not count:
            break
    stop.set()
    await worker


@pytest.mark.parametrize("times", [1, 3])
def test_what_failed_and_works_again_is_driven_to_its_end(place, socket, times):
    async def scenario():
        async with agents(place, socket, policy=scripted(said), timing=QUICK) as base:
            found = Agents(replace(base.setup, journal=Passing(base.setup.journal, times)))
            run_id = await found.submit("g")
            await serve_until(found, run_id, "run.ended", 1)
            assert (await consistent(base, run_id)).state == "done"
            assert found.failures == {}
            told = [f"ConstraintBroken: too narrow; this worker tries it again ({n} of 3 times)"
                    for n in range(1, times + 1)]  # fmt: skip
            assert await reasons(found, run_id) == told

    asyncio.run(asyncio.wait_for(scenario(), 30))


def test_what_fails_for_ever_is_left_to_others_and_says_so(place, socket):
    async def scenario():
        async with agents(place, socket, policy=scripted(said), timing=QUICK) as base:
            found = Agents(replace(base.setup, journal=Passing(base.setup.journal, 10**9)))
            run_id = await found.submit("g")
            await serve_until(found, run_id, "run.given_up", 4)
            good = await base.submit("g")
            await serve_until(found, good, "run.given_up", 4)  # time enough for a fifth
            told = await reasons(found, run_id)
            assert len(told) == 4
            assert told[-1].endswith(
                "this worker does not try it again: it failed 4 times in a row"
            )
            assert isinstance(found.failures[run_id], ConstraintBroken)
            assert (await base.drive(run_id)).state == "done"  # another worker, without the fault

    asyncio.run(asyncio.wait_for(scenario(), 30))


@pytest.mark.parametrize(("times", "state"), [(2, "done"), (10**9, "waiting")])
def test_a_subtask_that_fails_is_tried_again_while_its_parent_is_driven(
    place, socket, times, state
):
    def policy(task):
        if task["goal"] == "parent":
            return scripted(turn(("subtask", {"goal": "child"})), said)(task)
        return scripted(said)(task)

    async def scenario():
        async with agents(place, socket, policy=policy, timing=QUICK) as base:
            broken = Passing(base.setup.journal, times, lambda run_id: run_id.startswith("sub-"))
            found = Agents(replace(base.setup, journal=broken))
            run_id = await found.submit("parent")
            view = await found.drive(run_id)
            assert view.state == state
            child = (await child_of(found, run_id)).run_id
            assert len(await reasons(found, child)) == min(times, 4)
            assert (child in found.failures) is (state == "waiting")

    asyncio.run(asyncio.wait_for(scenario(), 30))


def test_each_retry_waits_longer_and_success_forgets():
    clock = FakeClock()
    retries = Retries(clock, 1.0, most=2)
    assert retries.pause_s("r") == 0
    seen = []
    for _ in range(3):
        retries.failed("r")
        seen.append(retries.pause_s("r"))
    assert seen == [1.0, 4.0, None]
    assert retries.pause_s("other") == 0
    retries.worked("r")
    assert retries.pause_s("r") == 0
    retries.failed("r")
    clock.advance(0.25)
    assert retries.pause_s("r") == 0.75
    clock.advance(5.0)
    assert retries.pause_s("r") == 0
