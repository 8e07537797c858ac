"""What people say while a run waits, is judged, or is driven by somebody with other rules."""

import asyncio
import os
from contextlib import contextmanager
from datetime import timedelta

import pytest
from tests.scenarios.agent.places import agents, said
from tests.scenarios.agent.test_answers import Shifted, effects, scripted, turn
from tests.scenarios.agent.test_endings import Door, bodies, gate, kinds

from proctor.agent.context import messages
from proctor.agent.core.budgets import Limits
from proctor.agent.driving.claiming import OldPermissions
from proctor.agent.driving.recorder import LostRun
from proctor.agent.permissions import Permissions, Rule, Ruling
from proctor.agent.policy import Policy, Proposal
from proctor.agent.tools import Effect
from proctor.agent.workspace import FolderWorkspace
from proctor.kernel import faults

ASK = Permissions((Rule("non_repeatable", Ruling.ASK),), ask_expires_s=60.0)


class Crash(Exception):
    """The worker is gone here."""


@contextmanager
def crash_at(point, hit=1):
    """The hit-th time that `point` is passed raises Crash."""
    passed = 0

    def hook(name):
        nonlocal passed
        passed += name == point
        if name == point and passed == hit:
            raise Crash(point)

    faults.install(hook)
    try:
        yield
    finally:
        faults.install(None)


@pytest.fixture
def root(tmp_path):
    folder = tmp_path / "workspace"
    folder.mkdir()
    return folder


def test_an_approval_that_was_acknowledged_in_time_counts_though_nobody_looked(place, socket):
    clock = Shifted()
    policy = scripted(turn(("non_repeatable", {})), said)

    async def scenario():
        async with agents(place, socket, policy=policy, permissions=ASK, clock=clock) as found:
            run_id = await found.submit("g")
            await found.drive(run_id)
            clock.move(seconds=10)
            await found.approve(run_id, "w1")
            clock.move(seconds=3_600)
            view = await found.drive(run_id)
            assert (view.state, view.wait("w1").state) == ("done", "arrived")
            assert await effects(socket, view) == {"a1": 1}

    asyncio.run(scenario())


@pytest.mark.parametrize(
    "say",
    [
        lambda found, run: found.answer(run, "w1", "no, never"),
        lambda found, run: found.answer(run, "w1", {"scope": "once"}),
        lambda found, run: found.state(run, "w1", happened=False),
        lambda found, run: found.answer(run, "w1", {"scope": "run", "expires_ms": "soon"}),
        lambda found, run: found.approve(run, "w1", expires_ms=1),
    ],
)
def test_what_is_no_approval_approves_nothing_and_breaks_nothing(place, socket, say):
    policy = scripted(turn(("non_repeatable", {})), said)

    async def scenario():
        async with agents(place, socket, policy=policy, permissions=ASK) as found:
            run_id = await found.submit("g")
            await found.drive(run_id)
            await say(found, run_id)
            for _ in range(2):
                view = await found.drive(run_id)
                assert (view.state, view.wait("w1").state) == ("waiting", "open")
            assert await effects(socket, view) == {"a1": 0}
            assert len(await bodies(found, run_id, "message.refused")) == 1
            await found.approve(run_id, "w1")
            assert (await found.drive(run_id)).state == "done"

    asyncio.run(scenario())


def test_a_worker_with_older_rules_drives_nothing(place, socket):
    policy = scripted(turn(("ask", {"question": "?"})), turn(("non_repeatable", {})), said)
    new = Permissions((Rule("non_repeatable", Ruling.DENY),), epoch=2)

    async def scenario():
        async with agents(place, socket, policy=policy, permissions=new) as found:
            run_id = await found.submit("g")
            await found.drive(run_id)
            await found.answer(run_id, "w1", "yes")
        async with agents(place, socket, policy=policy, permissions=Permissions(epoch=1)) as old:
            with pytest.raises(OldPermissions, match="epoch 2, this worker has 1"):
                await old.drive(run_id)
            assert (await old.view(run_id)).owner is None
        async with agents(place, socket, policy=policy, permissions=new) as found:
            view = await found.drive(run_id)
            assert view.action("a2").reason == "not permitted"
            assert await effects(socket, view) == {"a1": 0, "a2": 0}

    asyncio.run(scenario())


class Told(Policy):
    """Gives its result at once, and again when it reads a message."""

    def __init__(self):
        self.read = []

    async def propose(self, conversation, context):
        self.read.append([m["content"] for m in conversation])
        return Proposal(f"result {len(self.read)}")


def test_a_message_during_a_review_is_read_and_the_new_result_is_reviewed(place, socket):
    policy = Told()

    async def scenario():
        async with agents(place, socket, policy=lambda task: policy) as found:
            run_id = await found.submit("g", acceptance=[{"kind": "reviewer", "who": "ann"}])
            await found.drive(run_id)
            await found.tell(run_id, "also do the other thing")
            view = await found.drive(run_id)
            assert "also do the other thing" in policy.read[1]
            assert [w.state for w in view.waits] == ["superseded", "open"]
            await found.answer(run_id, "w1", True)  # it was about the first result
            assert (await found.drive(run_id)).state == "waiting"
            await found.answer(run_id, "w2", "no, this is wrong")
            assert (await found.drive(run_id)).state == "waiting"
            await found.approve(run_id, "w2")
            view = await found.drive(run_id)
            assert (view.state, view.candidate, view.open_waits) == ("done", "result 2", ())

    asyncio.run(scenario())


@pytest.mark.parametrize("word", ["cancel", "tell"])
def test_a_check_that_takes_its_time_keeps_nobody_waiting(place, socket, root, word):
    os.mkfifo(root / "begun")
    check = {"kind": "command", "argv": ["sh", "-c", "echo x > begun; exec sleep 50"]}
    policy = Told()

    async def scenario():
        async with agents(
            place, socket, policy=lambda task: policy, workspace=FolderWorkspace(root)
        ) as found:
            run_id = await found.submit("g", acceptance=[check])
            driver = asyncio.create_task(found.drive(run_id))
            await asyncio.to_thread((root / "begun").read_bytes)
            if word == "tell":
                await found.tell(run_id, "wait")
                await asyncio.to_thread((root / "begun").read_bytes)  # it is checked anew
                assert len(policy.read) == 2
            await found.cancel(run_id, by="ann")
            assert (await driver).state == "cancelled"
            assert "message.refused" not in await kinds(found, run_id)

    asyncio.run(asyncio.wait_for(scenario(), 30))


def test_a_check_that_writes_is_not_made_again_by_the_review_of_what_it_wrote(place, socket, root):
    write = "echo x >> report; echo made"
    checks = [{"kind": "command", "argv": ["sh", "-c", write]}, {"kind": "reviewer"}]

    async def scenario():
        async with agents(
            place, socket, policy=scripted(), workspace=FolderWorkspace(root)
        ) as found:
            run_id = await found.submit("g", acceptance=checks)
            await found.drive(run_id)
            await found.approve(run_id, "w1", by="ann")
            view = await found.drive(run_id)
            assert (view.state, len(view.waits)) == ("done", 1)
            assert (root / "report").read_text() == "x\n"
            assert [check["accepted"] for check in view.checks] == [True, True]

    asyncio.run(scenario())


def test_a_review_is_of_the_files_that_it_is_about(place, socket, root):
    checks = [{"kind": "command", "argv": ["sh", "-c", "cat out"]}, {"kind": "reviewer"}]
    (root / "out").write_text("good")

    async def scenario():
        async with agents(
            place, socket, policy=scripted(), workspace=FolderWorkspace(root)
        ) as found:
            run_id = await found.submit("g", acceptance=checks)
            await found.drive(run_id)
            (root / "out").write_text("changed since")
            await found.approve(run_id, "w1", by="ann")
            view = await found.drive(run_id)
            assert [w.kind for w in view.waiting()] == ["workspace"]
            await found.approve(run_id, "w2", by="ann")
            view = await found.drive(run_id)
            assert [w.kind for w in view.waiting()] == ["review"]  # of these files
            await found.approve(run_id, "w3", by="ann")
            assert (await found.drive(run_id)).state == "done"

    asyncio.run(scenario())


def test_files_changed_while_nobody_judged_are_a_wait_and_not_a_result(place, socket, root):
    policy = scripted(turn(("pure", {})), said)
    (root / "out").write_text("good")

    async def scenario():
        async with agents(place, socket, policy=policy, workspace=FolderWorkspace(root)) as found:
            run_id = await found.submit("g", acceptance=[{"kind": "file", "path": "out"}])
            with crash_at("agent.judged"), pytest.raises(Crash):
                await found.drive(run_id)
            assert (await found.view(run_id)).state == "verifying"
            (root / "out").write_text("changed while nobody worked")
            view = await found.drive(run_id)
            assert (view.state, [w.kind for w in view.waiting()]) == ("waiting", ["workspace"])
            (root / "out").write_text("good")  # restored: then nobody has to be asked
            await found.tell(run_id, "they are as they were")
            view = await found.drive(run_id)
            assert (view.state, view.wait("w1").state) == ("done", "superseded")

    asyncio.run(scenario())


def test_a_lost_action_that_declared_no_file_explains_no_change_of_files(place, socket, root):
    policy = scripted(turn(("pure", {})), turn(("non_repeatable", {"path": "mail"})), said)
    (root / "out").write_text("1")

    async def scenario():
        async with agents(place, socket, policy=policy, workspace=FolderWorkspace(root)) as found:
            run_id = await found.submit("g")
            with crash_at("agent.attempt.started", 2), pytest.raises(Crash):
                await found.drive(run_id)
            (root / "out").write_text("a person's edit")
            view = await found.drive(run_id)
            assert sorted(w.kind for w in view.waiting()) == ["statement", "workspace"]

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("list", "[1]", "is not a JSON object"),
        ("counts", '{"tests": "many", "failures": 0}', "numbers from 0"),
        ("huge", '{"tests": 1e400}', "out of range"),
        ("deep", "[" * 100_000, "cannot be checked"),
        ("fifo", None, "is not a file"),
    ],
)
def test_what_an_agent_writes_into_its_report_is_data(place, socket, root, name, content, reason):
    if content is None:
        os.mkfifo(root / "report.json")
    else:
        (root / "report.json").write_text(content)

    async def scenario():
        async with agents(
            place, socket, policy=scripted(), workspace=FolderWorkspace(root)
        ) as found:
            check = {"kind": "report", "path": "report.json"}
            run_id = await found.submit("g", acceptance=[check], max_corrections=0)
            view = await found.drive(run_id)
            assert (view.state, view.checks[0]["accepted"]) == ("failed", False)
            assert reason in view.checks[0]["reason"]

    asyncio.run(asyncio.wait_for(scenario(), 20))


def test_a_call_that_the_model_did_again_is_not_started_by_a_statement(place, socket):
    pay = ("non_repeatable", {"path": "x", "answer": "lose"})
    policy = scripted(turn(pay), turn(("non_repeatable", {"path": "x"})), said)

    async def scenario():
        async with agents(place, socket, policy=policy) as found:
            run_id = await found.submit("g", on_unknown="tell_model")
            view = await found.drive(run_id)
            counted = await effects(socket, view)
            assert (view.action("a1").state, counted["a2"]) == ("stopped", 1)
            await found.state(run_id, "w1", happened=False, by="ann")
            view = await found.drive(run_id)
            assert view.action("a1").state == "failed"
            assert await effects(socket, view) == counted
            assert not (await found.show(run_id)).next_moves

    asyncio.run(scenario())


def test_the_wall_clock_may_be_set_while_a_run_is_driven(place, socket):
    clock = Shifted()

    async def scenario():
        door = Door()
        policy = scripted(turn(("gate", {})), said)
        tools = [gate(door, effect=Effect.PURE)]
        async with agents(place, socket, policy=policy, tools=tools, clock=clock) as found:
            run_id = await found.submit("g", limits=Limits(wall_ms=60_000))
            driver = asyncio.create_task(found.drive(run_id))
            await door.reached.wait()
            clock.move(hours=1)
            door.opened.set()
            view = await driver
            assert view.state == "done"
            assert view.budgets.spent.wall_ms < 60_000

    asyncio.run(scenario())


@pytest.mark.parametrize("owned", [True, False])
def test_a_machine_that_slept_asks_the_journal_whether_it_still_owns(
    place, socket, monkeypatch, owned
):
    """Its monotonic clock may have stood still; its wall clock has not."""
    clock = Shifted()

    def slept(name):
        if name == "agent.attempt.started":
            clock.move(hours=1)

    async def scenario():
        policy = scripted(turn(("non_repeatable", {})), said)
        async with agents(place, socket, policy=policy, clock=clock) as found:
            run_id = await found.submit("g")
            journal, renew, asked = found.setup.journal, found.setup.journal.renew, []

            async def renewed(lease, ttl_s):
                asked.append(lease)
                return await renew(lease, ttl_s) if owned else None

            monkeypatch.setattr(journal, "renew", renewed, raising=False)
            faults.install(slept)
            try:
                if owned:
                    view = await found.drive(run_id)
                    assert view.state == "done"
                else:
                    with pytest.raises(LostRun):
                        await found.drive(run_id)
                    view = await found.view(run_id)
            finally:
                faults.install(None)
            assert asked
            assert await effects(socket, view) == {"a1": int(owned)}

    asyncio.run(scenario())


def test_the_time_for_asking_what_happened_is_not_given_again_to_the_next_worker(place, socket):
    from proctor.agent.tools import Answer, QueryAnswer
    from proctor.testing.agenttools import QueryableTool

    clock, asked = Shifted(), []

    class Silent(QueryableTool):
        async def query(self, op_key, arguments):
            asked.append(op_key)
            return QueryAnswer(Answer.UNKNOWN)

    async def scenario():
        policy = scripted(turn(("queryable", {"answer": "lose"})), said)
        tools = [Silent(socket)]
        async with agents(place, socket, policy=policy, tools=tools, clock=clock) as found:
            run_id = await found.submit("g")
            driver = asyncio.create_task(found.drive(run_id))
            async for event in found.watch(run_id):
                if event.kind == "attempt.ended":
                    break
            found.hand_over(run_id)
            await driver
            assert (await found.view(run_id)).action("a1").state == "unknown"
            clock.move(seconds=found.setup.timing.query_deadline_s + 1)
            before = len(asked)
            view = await found.drive(run_id)
            assert (view.action("a1").state, len(asked) - before) == ("stopped", 1)

    asyncio.run(scenario())


class Slept(Shifted):
    """A clock that also counts the time by which it was moved."""

    __slots__ = ()

    def monotonic(self):
        return super().monotonic() + getattr(self, "by", timedelta()).total_seconds()


def test_a_run_that_has_used_its_time_starts_nothing_for_the_next_worker(place, socket):
    clock = Slept()

    def asked(conversation):
        clock.move(seconds=20)  # shorter than a lease
        return turn(("ask", {"question": "?"}), ("non_repeatable", {"path": "x"}))

    async def scenario():
        policy = scripted(asked, said)
        async with agents(place, socket, policy=policy, permissions=ASK, clock=clock) as found:
            run_id = await found.submit("g", limits=Limits(wall_ms=10_000))
            await found.drive(run_id)
            await found.approve(run_id, "w2")
            view = await found.drive(run_id)
            assert (view.state, view.aim_reason) == ("failed", "budget wall_ms is spent")
            assert await effects(socket, view) == {"a1": 0, "a2": 0}

    asyncio.run(scenario())


def test_the_rows_of_a_task_say_what_it_was(place, socket):
    async def scenario():
        async with agents(place, socket, policy=scripted()) as found:
            check = {"kind": "action", "tool": "pure"}
            run_id = await found.submit("g", acceptance=[check], scope={"folder": "src"})
            (row,) = await found.setup.journal.read_rows("task", run_id)
            assert row.values["acceptance"] == [check]
            assert row.values["scope"] == {"folder": "src"}
            assert (await found.view(run_id)).task["scope"] == {"folder": "src"}
            view = await found.drive(run_id)
            assert any("never executed" in m["content"] for m in messages(view))

    asyncio.run(scenario())
