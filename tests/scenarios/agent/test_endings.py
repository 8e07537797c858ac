"""Cancelling, suspending, handing over, subtasks, time-outs: what is said is what is known."""

import asyncio
import os
import subprocess
import sys
from dataclasses import replace

import pytest
from tests.scenarios.agent.conftest import KINDS
from tests.scenarios.agent.places import TIMING, agents, consistent, said
from tests.scenarios.agent.test_answers import effects, scripted, turn

from proctor.agent.core import commands as cmd
from proctor.agent.core import events as ev
from proctor.agent.core.budgets import Cost, Limits
from proctor.agent.driving.recorder import LostRun, Recorder
from proctor.agent.policy import Policy, Proposal
from proctor.agent.tools import Cancel, Effect, StoppedWithoutEffect
from proctor.testing.agenttools import GateTool, all_tools

QUICK = replace(TIMING, grace_s=0.3, cancel_s=0.6)


def gate(wait, **attributes):
    """A gate tool with these class attributes."""
    return type("Gate", (GateTool,), attributes)(wait)


class Door:
    """Lets a test know that an execution has begun, and lets it end."""

    def __init__(self, answer="through"):
        self.reached, self.opened, self.answer = asyncio.Event(), asyncio.Event(), answer

    async def __call__(self, context):
        self.reached.set()
        await self.opened.wait()
        return self.answer


async def kinds(found, run_id):
    return [e.kind for e in await found.setup.journal.read_events(run_id)]


async def bodies(found, run_id, kind):
    return [e.body for e in await found.setup.journal.read_events(run_id) if e.kind == kind]


@pytest.mark.parametrize(
    ("attributes", "stop", "state", "told", "run_state"),
    [
        ({"cancel": Cancel.COOPERATIVE}, "confirmed", "stopped", "unknown", "cancelled"),
        (
            {"cancel": Cancel.COOPERATIVE, "effect": Effect.PURE},
            "confirmed", "done", "none", "cancelled",
        ),
        ({"cancel": Cancel.PROCESS}, "confirmed", "done", "unknown", "cancelled"),
        ({"cancel": Cancel.NONE}, "refused", "stopped", "unknown", "cancelled"),
    ],
)  # fmt: skip
def test_cancelling_a_running_action_is_three_records(
    place, socket, attributes, stop, state, told, run_state
):
    async def scenario():
        door = Door()
        tools = [gate(door, **attributes)]
        policy = scripted(turn(("gate", {})), said)
        async with agents(place, socket, policy=policy, tools=tools, timing=QUICK) as found:
            run_id = await found.submit("g")
            driver = asyncio.create_task(found.drive(run_id))
            await door.reached.wait()
            await found.cancel(run_id, by="ann", reason="enough")
            await driver
            view = await consistent(found, run_id)
            assert (view.state, view.action("a1").state) == (run_state, state)
            assert view.action("a1").effects == told
            log = await kinds(found, run_id)
            places = [log.index(k) for k in ("cancel.requested", "cancel.stop", "cancel.effects")]
            assert places == sorted(places)
            assert (await bodies(found, run_id, "cancel.stop"))[0]["answer"] == stop

    asyncio.run(scenario())


def test_an_execution_that_knows_it_had_no_effect_is_cancelled(place, socket):
    async def careful(context):
        reached.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            raise StoppedWithoutEffect("nothing was sent yet") from None

    reached = asyncio.Event()

    async def scenario():
        policy = scripted(turn(("gate", {})), said)
        async with agents(place, socket, policy=policy, tools=[gate(careful)]) as found:
            run_id = await found.submit("g")
            driver = asyncio.create_task(found.drive(run_id))
            await reached.wait()
            await found.cancel(run_id)
            await driver
            view = await consistent(found, run_id)
            assert (view.state, view.action("a1").state) == ("cancelled", "cancelled")
            assert view.action("a1").effects == "none"

    asyncio.run(scenario())


def test_what_was_done_can_be_undone_by_actions_of_their_own(place, socket):
    policy = scripted(turn(("non_repeatable", {}), ("ask", {"question": "?"})))

    async def scenario():
        async with agents(place, socket, policy=policy) as found:
            run_id = await found.submit("g")
            await found.drive(run_id)
            await found.cancel(run_id, compensate=True)
            await found.drive(run_id)
            view = await consistent(found, run_id)
            assert [(a.tool, a.state, a.effects) for a in view.actions] == [
                ("non_repeatable", "done", "compensated"),
                ("ask", "cancelled", ""),
                ("idempotent", "done", "done"),
            ]
            assert view.state == "cancelled"
            assert await effects(socket, view) == {"a1": 1, "a2": 0, "a3": 1}

    asyncio.run(scenario())


def test_cancelling_the_model_closes_its_turn_and_counts_its_cost(place, socket):
    class Slow(Policy):
        async def propose(self, messages, context):
            asking.set()
            await asyncio.Event().wait()

        def worst_case(self, messages):
            return Cost(tokens=100)

    asking = asyncio.Event()

    async def scenario():
        async with agents(place, socket, policy=lambda task: Slow()) as found:
            run_id = await found.submit("g")
            driver = asyncio.create_task(found.drive(run_id))
            await asking.wait()
            (move,) = (await found.show(run_id)).next_moves
            assert move["who"] == "model"
            await found.cancel(run_id)
            view = await driver
            assert view.state == "cancelled"
            assert view.budgets.spent.tokens == 100
            assert view.budgets.reserved == Cost()

    asyncio.run(scenario())


def test_cancel_reaches_live_subtasks_and_the_parent_ends_after_them(place, socket):
    def policy(task):
        if task["goal"] == "parent":
            return scripted(turn(("subtask", {"goal": "child"}), ("pure", {})), said)(task)
        return scripted(turn(("non_repeatable", {}), ("ask", {"question": "?"})), said)(task)

    async def scenario():
        async with agents(place, socket, policy=policy) as found:
            run_id = await found.submit("parent")
            assert (await found.drive(run_id)).state == "waiting"
            (move,) = (await found.show(run_id)).next_moves
            assert move["who"] == "subtask"
            child = move["facts"]["child"]
            assert (await found.view(child)).state == "waiting"
        async with agents(place, socket, policy=policy) as found:  # after a restart
            await found.cancel(run_id)
            await found.drive(run_id)
            view, below = await consistent(found, run_id), await consistent(found, child)
            assert (view.state, below.state) == ("cancelled", "cancelled")
            assert [a.state for a in below.actions] == ["done", "cancelled"]
            assert await effects(socket, below) == {"a1": 1, "a2": 0}
            assert (await kinds(found, child))[-1] == "run.released"

    asyncio.run(scenario())


def test_a_worker_that_takes_over_a_closing_run_tells_its_subtasks_again(place, socket):
    """The parent was closed and the cancellation of its subtask was lost with the worker."""

    def policy(task):
        if task["goal"] == "parent":
            return scripted(turn(("subtask", {"goal": "child"})), said)(task)
        return scripted(turn(("ask", {"question": "?"})), said)(task)

    async def scenario():
        async with agents(place, socket, policy=policy) as found:
            run_id = await found.submit("parent")
            view = await found.drive(run_id)
            journal = found.setup.journal
            lease = await journal.claim(run_id, "dead worker", 30.0)
            recorder = Recorder(journal, view, lease, found.setup.clock)
            recorder.must(cmd.Claim("dead worker", lease.fence))
            recorder.must(cmd.Close("failed", "out of patience"))
            await recorder.flush()
            await journal.release(lease)
            view = await found.drive(run_id)
            (child,) = [r for r in await journal.runs() if r.parent_run_id == run_id]
            assert (view.state, child.state) == ("failed", "cancelled")

    asyncio.run(scenario())


def test_a_subtask_gives_its_result_and_draws_from_its_parent(place, socket):
    def policy(task):
        if task["goal"] == "parent":
            call = ("subtask", {"goal": "child", "limits": {"steps": 3}})
            return scripted(turn(call), said)(task)
        return scripted(turn(("idempotent", {})), said)(task)

    async def scenario():
        async with agents(place, socket, policy=policy) as found:
            run_id = await found.submit("parent", limits=Limits(steps=4))
            await found.drive(run_id)
            view = await consistent(found, run_id)
            # One step of its own, two of the child's: the second of its own fits.
            assert (view.state, view.candidate) == ("done", "subtask done: effect 1")
            assert view.budgets.spent.steps == 4
            poor = await found.submit("parent", limits=Limits(steps=3))
            view = await found.drive(poor)
            assert view.action("a1").state == "failed"
            assert "does not fit" in view.action("a1").reason

    asyncio.run(scenario())


def test_a_suspended_run_starts_nothing_until_it_is_resumed(place, socket):
    policy = scripted(turn(("ask", {"question": "?"})), turn(("idempotent", {})), said)

    async def scenario():
        async with agents(place, socket, policy=policy) as found:
            run_id = await found.submit("g")
            await found.drive(run_id)
            await found.suspend(run_id, by="ann")
            await found.answer(run_id, "w1", "yes")
            view = await found.drive(run_id)
            assert (view.state, view.owner) == ("suspended", None)
            assert view.action("a1").state == "ready"
            moves = [m["who"] for m in (await found.show(run_id)).next_moves]
            assert "person" in moves
            await found.resume(run_id, by="ann")
            view = await found.drive(run_id)
            assert (view.state, view.candidate) == ("done", "yes|effect 1")

    asyncio.run(scenario())


def test_handing_over_stops_what_is_ours_and_the_next_worker_goes_on(place, socket):
    async def scenario():
        door = Door()
        policy = scripted(turn(("gate", {})), said)
        pure = {"effect": Effect.PURE, "cancel": Cancel.NONE}
        async with agents(
            place, socket, policy=policy, tools=[gate(door, **pure)], timing=QUICK
        ) as found:
            run_id = await found.submit("g")
            driver = asyncio.create_task(found.drive(run_id))
            await door.reached.wait()
            assert found.hand_over(run_id)
            view = await driver
            assert (view.owner, view.action("a1").state) == (None, "ready")
            row = await found.setup.journal.run_row(run_id)
            assert row.owner is None
            assert not found.hand_over(run_id)
            door.opened.set()
        open_door = Door()
        open_door.opened.set()
        async with agents(
            place, socket, policy=policy, tools=[gate(open_door, **pure)], timing=QUICK
        ) as found:
            view = await found.drive(run_id)
            assert (view.state, view.candidate) == ("done", "through")
            assert view.action("a1").attempts == 2

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("attributes", "state", "told"),
    [
        ({"effect": Effect.PURE, "cancel": Cancel.COOPERATIVE}, "done", "[stopped before its end]"),
        ({"cancel": Cancel.PROCESS}, "done", "[stopped before its end]"),
        ({"cancel": Cancel.COOPERATIVE}, "stopped", "outcome is not known"),
        ({"cancel": Cancel.NONE}, "stopped", "outcome is not known"),
    ],
)
def test_a_time_out_is_known_only_when_the_stop_is(place, socket, attributes, state, told):
    async def scenario():
        door = Door()
        policy = scripted(turn(("gate", {})), said)
        tools = [gate(door, timeout_s=0.05, **attributes)]
        async with agents(place, socket, policy=policy, tools=tools, timing=QUICK) as found:
            run_id = await found.submit("g", on_unknown="tell_model")
            view = await found.drive(run_id)
            assert view.state == "done"
            assert view.action("a1").state == state
            assert told in view.candidate

    asyncio.run(scenario())


def test_processes_of_a_tool_are_stopped_up_the_ladder(place, socket):
    """The child ignores SIGINT; its group is gone before the time-out is a known result."""
    program = "import signal, sys, time\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\n"
    program += "sys.stdout.write('x'); sys.stdout.flush(); time.sleep(600)"
    started = []

    async def run_it(context):
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", program, stdout=subprocess.PIPE, start_new_session=True
        )
        started.append(process)
        await context.started_group(process.pid)
        await process.stdout.read(1)
        await process.wait()

    async def scenario():
        policy = scripted(turn(("gate", {})), said)
        tools = [gate(run_it, timeout_s=0.5, cancel=Cancel.PROCESS)]
        async with agents(place, socket, policy=policy, tools=tools, timing=QUICK) as found:
            run_id = await found.submit("g")
            view = await found.drive(run_id)
            assert view.action("a1").timed_out
            (process,) = await bodies(found, run_id, "process.started")
            assert process["pgid"] == started[0].pid
            rows = await found.setup.journal.read_rows("process", run_id)
            assert [r.values["pid"] for r in rows] == [started[0].pid]
            await started[0].wait()
            with pytest.raises(ProcessLookupError):
                os.killpg(started[0].pid, 0)

    asyncio.run(scenario())


def test_a_worker_whose_run_was_claimed_records_and_starts_nothing(place, socket):
    async def scenario():
        door = Door()
        policy = scripted(turn(("gate", {})), turn(("idempotent", {})), said)
        tools = [gate(door), *all_tools(socket)]
        async with agents(place, socket, policy=policy, tools=tools) as found:
            run_id = await found.submit("g")
            driver = asyncio.create_task(found.drive(run_id))
            await door.reached.wait()
            row = await found.setup.journal.run_row(run_id)
            other = await found.setup.journal.claim(run_id, "other", 30.0, dead_owner=row.owner)
            version = (await found.view(run_id)).version
            door.opened.set()
            with pytest.raises(LostRun):
                await driver
            assert (await found.view(run_id)).version == version
            row = await found.setup.journal.run_row(run_id)
            assert (row.owner, row.fence) == ("other", other.fence)

    asyncio.run(scenario())


def test_a_policy_that_fails_is_asked_again_and_then_the_run_fails(place, socket):
    class Broken(Policy):
        async def propose(self, messages, context):
            raise RuntimeError("no such model")

    async def scenario():
        async with agents(place, socket, policy=lambda task: Broken()) as found:
            view = await found.drive(await found.submit("g"))
            assert (view.state, view.aim_reason) == ("failed", "no reply: no such model")
            assert len(view.turns) == 3

    asyncio.run(scenario())


def test_what_a_policy_proposes_wrongly_is_no_action(place, socket):
    class Odd(Policy):
        async def propose(self, messages, context):
            return "text" if context.turn == 1 else Proposal("end")

    async def scenario():
        async with agents(place, socket, policy=lambda task: Odd()) as found:
            view = await found.drive(await found.submit("g"))
            assert (view.state, view.candidate) == ("done", "end")
            assert "not Proposal" in view.turn(1).reason

    asyncio.run(scenario())


@pytest.mark.parametrize("place", KINDS, indirect=True)
def test_several_workers_serve_one_journal_and_each_run_has_one_owner(place, socket):
    policy = scripted(turn(("non_repeatable", {}), ("ask", {"question": "?"})), said)

    async def scenario():
        stop = asyncio.Event()
        async with (
            agents(place, socket, policy=policy) as one,
            agents(place, socket, policy=policy) as two,
        ):
            serving = [asyncio.create_task(a.serve(stop)) for a in (one, two)]
            runs = [await one.submit("g") for _ in range(8)]
            for run_id in runs:
                async for event in two.watch(run_id):
                    if event.kind == "wait.opened":
                        await two.answer(run_id, event.body["wait"], "yes")
                        break
            for run_id in runs:
                async for _ in one.watch(run_id):
                    pass
            stop.set()
            await asyncio.gather(*serving)
            for run_id in runs:
                view = await consistent(one, run_id)
                assert view.candidate == "effect 1|yes"
                assert (await effects(socket, view))["a1"] == 1
                fences = [b["fence"] for b in await bodies(one, run_id, "run.claimed")]
                assert fences == sorted(set(fences))

    asyncio.run(scenario())


def test_a_run_that_cannot_be_driven_is_given_up_and_the_worker_goes_on(place, socket):
    def policy(task):
        if task["goal"] == "bad" and serving:
            raise RuntimeError("no such policy")
        return scripted(said)(task)

    serving = []

    async def scenario():
        stop = asyncio.Event()
        async with agents(place, socket, policy=policy) as found:
            bad, good = await found.submit("bad"), await found.submit("good")
            serving.append(True)
            worker = asyncio.create_task(found.serve(stop))
            async for _ in found.watch(good):
                pass
            stop.set()
            await worker
            assert str(found.failures[bad]) == "no such policy"
            shown = await found.show(bad)
            assert shown.view.state == "running"
            reason = shown.next_moves[0]["facts"]["reason"]
            assert reason.startswith("RuntimeError: no such policy; this worker ")
            assert (await found.setup.journal.run_row(bad)).owner is None

    asyncio.run(scenario())


def test_events_of_the_log_are_all_known():
    assert len(ev.KINDS) == len(set(ev.KINDS.values())) > 30
