"""What a machine or a worker cannot give at the moment is not held against a run."""

import asyncio
import errno
from dataclasses import replace

import pytest
from tests.scenarios.agent.places import TIMING, agents, said
from tests.scenarios.agent.test_answers import scripted, turn
from tests.scenarios.agent.test_endings import Door

from proctor.agent import verify
from proctor.agent.tools import Cancel, Effect, Need, Tool, ToolResult
from proctor.kernel.errors import EnvironmentFault

CHECK = {"kind": "command", "argv": ["true"]}


def failing(monkeypatch, errors):
    """The machine fails with these, one after the other, and then works."""
    left, works = list(errors), verify.run_process

    async def run_process(*args, **more):
        if left:
            raise left.pop(0)
        return await works(*args, **more)

    monkeypatch.setattr(verify, "run_process", run_process)
    monkeypatch.setattr(verify, "_PAUSES_S", (0.0, 0.0, 0.0))


def no_process():
    return EnvironmentFault("cannot start a process", code="cannot_start")


@pytest.mark.parametrize("error", [BlockingIOError(errno.EAGAIN, "fork"), no_process()])
def test_a_check_that_the_machine_cannot_make_is_made_again(place, socket, monkeypatch, error):
    failing(monkeypatch, [error] * 3)

    async def scenario():
        async with agents(place, socket, policy=scripted(said)) as found:
            run_id = await found.submit("g", acceptance=[CHECK], max_corrections=0)
            assert (await found.drive(run_id)).state == "done"

    asyncio.run(scenario())


def test_a_machine_that_cannot_check_judges_nobody(place, socket, monkeypatch):
    failing(monkeypatch, [OSError(errno.EMFILE, "open")] * 4)

    async def scenario():
        async with agents(place, socket, policy=scripted(said)) as found:
            run_id = await found.submit("g", acceptance=[CHECK], max_corrections=0)
            with pytest.raises(OSError, match="open"):
                await found.drive(run_id)
            view = await found.view(run_id)
            assert (view.state, view.checks) == ("verifying", ())
            assert (await found.drive(run_id)).state == "done"

    asyncio.run(scenario())


class Sub(Tool):
    name, effect = "sub", Effect.IDEMPOTENT

    def resources(self, arguments):
        return ()

    def needs(self, arguments):
        return Need("child", goal="child")

    async def execute(self, op_key, arguments, context):
        return ToolResult("ok")


class Question(Sub):
    name = "question"

    def needs(self, arguments):
        return Need("input", prompt="?")


def test_a_subtask_of_a_run_that_is_cancelled_does_not_wait_for_its_place(place, socket):
    asks = {"child": turn(("question", {})), "g": turn(("sub", {}))}

    async def scenario():
        more = {"policy": lambda task: scripted(asks[task["goal"]], said)(task)}
        more |= {"tools": [Sub(), Question()], "runs_at_once": 1}
        async with agents(place, socket, **more) as found:
            run_id = await found.submit("g")
            stop = asyncio.Event()
            serving = asyncio.create_task(found.serve(stop))
            child = (await until(found, run_id, "waiting")).actions[0].spawned
            await until(found, child, "waiting")
            await found.cancel(run_id)
            view = await until(found, run_id, "cancelled", "stopped")
            assert (view.state, (await found.view(child)).state) == ("cancelled", "cancelled")
            stop.set()
            await serving

    asyncio.run(scenario())


async def until(found, run_id, *states):
    async with asyncio.timeout(30):
        async for _ in found.watch(run_id):
            view = await found.view(run_id)
            if view.state in states:
                return view
    raise AssertionError(f"{run_id} has ended otherwise")


class Slow(Sub):
    """Cannot be stopped."""

    name, effect, cancel = "slow", Effect.NON_REPEATABLE, Cancel.NONE

    def __init__(self):
        self.door = Door()

    def needs(self, arguments):
        return None

    async def execute(self, op_key, arguments, context):
        await self.door(context)
        return ToolResult("ok")


def test_a_subtask_that_needs_all_of_its_time_to_clean_up_is_waited_for(place, socket):
    asks = {"child": turn(("slow", {})), "g": turn(("sub", {}))}
    timing = replace(TIMING, grace_s=1.0, cancel_s=0.5, late_s=0.0)

    async def scenario():
        slow = Slow()
        more = {"policy": lambda task: scripted(asks[task["goal"]], said)(task)}
        more |= {"tools": [Sub(), slow], "timing": timing}
        async with agents(place, socket, **more) as found:
            run_id = await found.submit("g")
            driver = asyncio.create_task(found.drive(run_id))
            await slow.door.reached.wait()
            await found.cancel(run_id)
            view = await asyncio.wait_for(driver, 30)
            child = await found.view(view.actions[0].spawned)
            assert (child.state, child.actions[0].state) == ("cancelled", "stopped")
            (wait,) = view.waits
            assert wait.by.startswith("child:")  # its end was heard
            assert not await found.setup.journal.inbox_pending(run_id)
            slow.door.opened.set()

    asyncio.run(scenario())


def test_a_run_that_has_ended_is_left_though_something_runs_on(place, socket):
    timing = replace(TIMING, grace_s=0.1, cancel_s=0.2, late_s=600.0)

    async def scenario():
        slow = Slow()
        more = {"policy": scripted(turn(("slow", {})), said), "tools": [slow], "timing": timing}
        async with agents(place, socket, **more) as found:
            run_id = await found.submit("g")
            driver = asyncio.create_task(found.drive(run_id))
            await slow.door.reached.wait()
            await found.cancel(run_id)
            view = await asyncio.wait_for(driver, 30)
            assert view.actions[0].state == "stopped"
            slow.door.opened.set()

    asyncio.run(scenario())
