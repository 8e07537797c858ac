"""The four fault points from end to end, and an owner that was frozen: result, state, resources."""

import asyncio
import os
import signal
import subprocess
import sys

import pytest
from tests.scenarios.agent.conftest import KINDS, ROOT
from tests.scenarios.agent.places import agents, consistent, said
from tests.scenarios.agent.test_answers import effects, scripted, turn

from proctor.environments.proctable import live_members
from proctor.kernel.errors import StorageError
from proctor.testing.otherside import ask

pytestmark = pytest.mark.slow

both = pytest.mark.parametrize("place", KINDS, indirect=True)


def submitted(place, socket, goal):
    async def submit():
        async with agents(place, socket) as found:
            return await found.submit(goal)

    return asyncio.run(submit())


@both
def test_exit_before_the_tool_runs(place, worker, socket):
    """Nothing was done, and the runtime says so only where it can know."""
    run_id = submitted(place, socket, "one idempotent")
    assert worker(place, run_id, "agent.execute.begin", 1) == -9

    async def after():
        async with agents(place, socket) as found:
            assert (await found.view(run_id)).action("a1").state == "running"
            (move,) = (await found.show(run_id)).next_moves
            assert (move["who"], move["facts"]["state"]) == ("tool", "running")
            await found.drive(run_id)
            view = await consistent(found, run_id)
            assert (view.state, view.action("a1").attempts) == ("done", 2)
            assert await effects(socket, view) == {"a1": 1}

    asyncio.run(after())


@both
@pytest.mark.parametrize(
    ("tool", "state", "count", "text"),
    [
        ("idempotent", "stopped", 1, "outcome is not known"),
        ("queryable", "done", 1, "effect 1"),
        ("non_repeatable", "stopped", 1, "outcome is not known"),
    ],
)
def test_the_reply_is_lost_after_the_other_side_committed(place, socket, tool, state, count, text):
    """The connection breaks each time, so an idempotent action uses up its attempts: with its one
    effect, and without a claim about it."""
    policy = scripted(turn((tool, {"answer": "lose"})), said)

    async def scenario():
        async with agents(place, socket, policy=policy) as found:
            run_id = await found.submit("g", on_unknown="tell_model")
            await found.drive(run_id)
            view = await consistent(found, run_id)
            assert (view.state, view.action("a1").state) == ("done", state)
            assert text in view.candidate
            assert await effects(socket, view) == {"a1": count}
            if state == "stopped":
                assert [u["action"] for u in view.unsettled] == ["a1"]

    asyncio.run(scenario())


@both
def test_restart_while_a_person_is_waited_for(place, worker, socket):
    """Killed between the answer's acknowledgement and its effect: the answer is not lost."""
    run_id = submitted(place, socket, "ask non_repeatable")
    assert worker(place, run_id) == 0

    async def answer():
        async with agents(place, socket) as found:
            view = await found.view(run_id)
            assert [a.state for a in view.actions] == ["done", "waiting", "done"]
            await found.answer(run_id, "w1", "this one")

    async def after():
        async with agents(place, socket) as found:
            await found.drive(run_id)
            view = await consistent(found, run_id)
            assert (view.state, view.candidate) == ("done", "effect 1|this one|read")
            keys = (await ask(socket, {"log": True}))["keys"]
            assert keys.count(view.action("a1").op_key) == 1
            assert keys.count(f"read {view.action('a3').op_key}") == 1

    asyncio.run(answer())
    assert worker(place, run_id, "agent.inbox.applied", 1) == -9
    asyncio.run(after())


@both
@pytest.mark.parametrize("point", ["agent.child.create", "agent.child.created", "agent.finishing"])
def test_cancel_with_live_subtasks(place, worker, socket, point):
    """Killed while it spawns, or while it cancels: no subtask outlives its parent."""
    run_id = submitted(place, socket, "subtask idempotent")
    if point == "agent.finishing":
        assert worker(place, run_id) == 0
    else:
        assert worker(place, run_id, point, 1) == -9

    async def cancel():
        async with agents(place, socket) as found:
            await found.cancel(run_id, by="ann")

    async def after():
        async with agents(place, socket) as found:
            await found.drive(run_id)
            view = await consistent(found, run_id)
            assert view.state == "cancelled"
            journal = found.setup.journal
            children = [r for r in await journal.runs() if r.parent_run_id == run_id]
            assert [(row.state, row.owner) for row in children] == [("cancelled", None)]
            await consistent(found, children[0].run_id)

    asyncio.run(cancel())
    if point == "agent.finishing":
        assert worker(place, run_id, point, 1) == -9
    asyncio.run(after())


@both
@pytest.mark.parametrize(
    ("point", "effect", "state", "count"),
    [
        ("agent.attempt.intent", "non_repeatable", "done", 1),
        ("agent.attempt.started", "idempotent", "done", 1),
        ("agent.attempt.started", "non_repeatable", "stopped", 0),
        ("agent.result.arrived", "queryable", "done", 1),
    ],
)
def test_an_owner_that_was_frozen_appends_and_starts_nothing(
    place, socket, point, effect, state, count
):
    run_id = submitted(place, socket, f"one {effect}")
    argv = [sys.executable, "-m", "tests.scenarios.agent.child", place.text(), socket, run_id]
    child = subprocess.Popen([*argv, "stop", point, "1"], cwd=ROOT, stderr=subprocess.PIPE)

    async def take_over():
        async with agents(place, socket) as found:
            view = await found.drive(run_id)
            while view.fence < 2:  # until its lease is over
                await found.setup.clock.sleep(0.05)
                view = await found.drive(run_id)
            assert view.action("a1").state == state
            return view.version, await effects(socket, view)

    async def afterwards():
        async with agents(place, socket) as found:
            view = await consistent(found, run_id)
            return view.version, await effects(socket, view)

    try:
        _, status = os.waitpid(child.pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status)
        before = asyncio.run(asyncio.wait_for(take_over(), 30))
        assert before[1] == {"a1": count}
    finally:
        child.send_signal(signal.SIGCONT)
        _, said_ = child.communicate(timeout=30)
    assert child.returncode == 3, said_
    assert asyncio.run(afterwards()) == before


def test_processes_of_a_dead_worker_are_stopped_before_anything_else(place, worker, socket):
    """The tool's process outlives the worker; the next one ends it, and then asks a person."""
    run_id = submitted(place, socket, "process sleep|600")
    assert worker(place, run_id, "tool.process_runs", 1) == -9

    async def after():
        async with agents(place, socket) as found:
            (process,) = (await found.view(run_id)).action("a1").processes
            assert live_members(process["pgid"])
            await found.drive(run_id)
            assert not live_members(process["pgid"])
            view = await consistent(found, run_id)
            assert view.action("a1").state == "stopped"
            assert "SIGINT" in view.action("a1").text

    asyncio.run(after())


def test_driving_a_run_drives_its_family_and_no_other_run(place, socket):
    policy = scripted(turn(("ask", {"question": "?"})), said)

    async def scenario():
        async with agents(place, socket, policy=policy) as found:
            mine, other = await found.submit("g"), await found.submit("g")
            driver = asyncio.create_task(found.drive(mine))
            await found.tell(other, "hello")
            await driver
            await found.drive(mine)
            assert (await found.view(other)).state == "ready"

    asyncio.run(scenario())


def test_a_journal_that_fails_stops_the_run_and_nothing_is_executed(place, socket, monkeypatch):
    """What cannot be recorded is not done."""
    policy = scripted(turn(("non_repeatable", {})), said)

    async def scenario():
        async with agents(place, socket, policy=policy) as found:
            run_id = await found.submit("g")
            journal, appended = found.setup.journal, found.setup.journal.append

            async def append(run, version, fence, events, *rest):
                if any(e.kind == "attempt.started" for e in events):
                    raise StorageError("the disk is full")
                return await appended(run, version, fence, events, *rest)

            monkeypatch.setattr(journal, "append", append, raising=False)
            seen_before = await ask(socket, {"log": True})
            with pytest.raises(StorageError, match="full"):
                await found.drive(run_id)
            monkeypatch.undo()
            view = await found.view(run_id)
            assert not view.actions  # its call and its start are one append
            assert await ask(socket, {"log": True}) == seen_before
            view = await found.drive(run_id)
            assert (view.state, await effects(socket, view)) == ("done", {"a1": 1})

    asyncio.run(scenario())
