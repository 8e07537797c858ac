"""What is said to a run around its end is answered for: applied, refused in its log, or refused to
whoever says it. And whose clock decides what came in time."""

import asyncio
from datetime import timedelta

import pytest
from tests.scenarios.agent.conftest import KINDS
from tests.scenarios.agent.places import agents, said
from tests.scenarios.agent.test_answers import Shifted, effects, scripted, turn
from tests.scenarios.agent.test_endings import bodies, kinds
from tests.scenarios.agent.test_said_in_time import ASK, Crash, crash_at

from proctor.agent.control import Control
from proctor.kernel.errors import UsageError
from proctor.store.journal.contract import Message


async def serve_until_released(found, run_id):
    """Serve until a driver of this run has come and gone."""
    stop, gone = asyncio.Event(), asyncio.Event()
    journal, release = found.setup.journal, found.setup.journal.release

    async def released(lease):
        answer = await release(lease)
        if lease.run_id == run_id:
            gone.set()
        return answer

    journal.release = released
    serving = asyncio.create_task(found.serve(stop))
    await gone.wait()
    stop.set()
    await serving
    assert await journal.inbox_pending(run_id) == []


@pytest.mark.parametrize("place", KINDS, indirect=True)
def test_nothing_is_said_to_a_run_that_has_ended(place, socket):
    async def scenario():
        async with agents(place, socket, policy=scripted(said)) as found:
            run_id = await found.submit("g")
            await found.drive(run_id)
            for say in (found.tell(run_id, "wait!"), found.cancel(run_id), found.resume(run_id)):
                with pytest.raises(UsageError, match="has ended: done"):
                    await say
            assert await found.setup.journal.inbox_pending(run_id) == []

    asyncio.run(scenario())


def test_an_answer_that_is_sent_again_after_the_end_is_known(place, socket):
    """Whoever lost the acknowledgement sends it again, and it did arrive."""

    async def scenario():
        policy = scripted(turn(("ask", {"question": "?"})), said)
        async with agents(place, socket, policy=policy) as found:
            run_id = await found.submit("g")
            await found.drive(run_id)
            await found.answer(run_id, "w1", "yes", message_id="m1")
            assert (await found.drive(run_id)).candidate == "yes"
            await found.answer(run_id, "w1", "yes", message_id="m1")
            assert await found.setup.journal.inbox_pending(run_id) == []

    asyncio.run(scenario())


@pytest.mark.parametrize("place", KINDS, indirect=True)
def test_what_landed_while_the_worker_died_at_the_end_is_answered_by_the_next(place, socket):
    """The end is in the log, the inbox was not read again, and nobody would drive the run."""

    async def scenario():
        async with agents(place, socket, policy=scripted(said)) as found:
            run_id = await found.submit("g")
            with crash_at("agent.end.recorded"), pytest.raises(Crash):
                await found.drive(run_id)
            view = await found.view(run_id)
            late = Message(run_id, "late", "text", {"text": "wait!"}, found.clock.now())
            assert view.state == "done"
            await found.setup.journal.inbox_add(late)
        async with agents(place, socket, policy=scripted(said)) as found:
            await serve_until_released(found, run_id)
            (refused,) = await bodies(found, run_id, "message.refused")
            assert (refused["message_id"], refused["reason"]) == ("late", "the run is done")
            assert (await found.view(run_id)).state == "done"
            # The next look finds nothing more to do.
            assert await found._claimable({}) == []

    asyncio.run(asyncio.wait_for(scenario(), 30))


def test_a_statement_about_a_run_that_has_ended_is_read_by_a_worker_that_serves(place, socket):
    async def scenario():
        policy = scripted(turn(("non_repeatable", {"answer": "lose"})), said)
        async with agents(place, socket, policy=policy) as found:
            run_id = await found.submit("g", on_unknown="tell_model")
            view = await found.drive(run_id)
            assert (view.state, view.action("a1").state) == ("done", "stopped")
            await found.state(run_id, "w1", happened=True, by="ann")
            await serve_until_released(found, run_id)
            view = await found.view(run_id)
            assert (view.state, view.action("a1").state) == ("done", "done")

    asyncio.run(asyncio.wait_for(scenario(), 30))


@pytest.mark.parametrize("place", KINDS, indirect=True)
def test_a_senders_clock_does_not_say_what_came_in_time(place, socket):
    clock = Shifted()

    async def scenario():
        policy = scripted(turn(("non_repeatable", {})), said)
        more = {"policy": policy, "permissions": ASK, "clock": clock}
        async with agents(place, socket, **more) as found:
            run_id = await found.submit("g")
            await found.drive(run_id)
            clock.move(minutes=10)  # the question was good for one
            slow = Shifted()
            slow.move(minutes=-10)
            await Control(found.setup.journal, slow).approve(run_id, "w1")
            view = await found.drive(run_id)
            assert (view.wait("w1").state, view.action("a1").state) == ("expired", "failed")
            assert await effects(socket, view) == {"a1": 0}
            assert "message.refused" in await kinds(found, run_id)

    asyncio.run(scenario())


@pytest.mark.parametrize(("later_s", "counts"), [(50, True), (70, False)])
def test_an_approval_for_a_minute_lasts_a_minute_from_its_arrival(place, socket, later_s, counts):
    """Whatever the clock of whoever gave it says."""
    clock = Shifted()

    async def scenario():
        policy = scripted(turn(("non_repeatable", {})), said)
        more = {"policy": policy, "permissions": ASK, "clock": clock}
        async with agents(place, socket, **more) as found:
            run_id = await found.submit("g")
            await found.drive(run_id)
            fast = Shifted()
            fast.move(days=30)
            await Control(found.setup.journal, fast).approve(run_id, "w1", expires_s=60.0)
            (arrived,) = await found.setup.journal.inbox_pending(run_id)
            assert abs(arrived.at - clock.now()) < timedelta(seconds=30)
            clock.move(seconds=later_s)
            view = await found.drive(run_id)
            assert await effects(socket, view) == {"a1": int(counts)}
            if not counts:
                (refused,) = await bodies(found, run_id, "message.refused")
                assert "the time that the approval was given for is over" in refused["reason"]

    asyncio.run(scenario())


@pytest.mark.parametrize("lasts", [-1, "long", [60], 10**12, True, {"s": 1}])
def test_an_approval_whose_time_is_none_approves_nothing(place, socket, lasts):
    async def scenario():
        policy = scripted(turn(("non_repeatable", {})), said)
        async with agents(place, socket, policy=policy, permissions=ASK) as found:
            run_id = await found.submit("g")
            await found.drive(run_id)
            await found.approve(run_id, "w1", expires_s=lasts)
            view = await found.drive(run_id)
            assert (view.state, view.wait("w1").state) == ("waiting", "open")
            assert await effects(socket, view) == {"a1": 0}

    asyncio.run(scenario())
