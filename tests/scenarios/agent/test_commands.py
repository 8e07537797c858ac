"""`proctor agent …` in processes of its own, while a worker here serves the journal."""

import asyncio
import json
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.acceptance.command import proctor
from tests.scenarios.agent.places import agents

from proctor.agent.permissions import Permissions, Rule, Ruling
from proctor.agent.policy import Proposal, ScriptedPolicy
from proctor.models.contract import ToolCall

pytestmark = pytest.mark.slow
LIMIT_S = 60
"""Only says that nothing hangs."""


def policy(task):
    """A goal of `question`, `approval`, `unknown`, `review` or `long`."""
    calls = {
        "question": ToolCall("c1", "ask", {"question": "which?"}),
        "approval": ToolCall("c1", "pure", {"path": "secret"}),
        "unknown": ToolCall("c1", "non_repeatable", {"path": "x", "answer": "lose"}),
    }
    call = calls.get(task["goal"])
    end = lambda conversation: Proposal("|".join(  # noqa: E731
        m["content"] for m in conversation[1:] if m["role"] != "assistant"
    ))  # fmt: skip
    return ScriptedPolicy([*([Proposal("", (call,))] if call else []), end, end])


@asynccontextmanager
async def serving(place, socket):
    """A worker that serves the journal for the time of the block."""
    rules = Permissions((Rule("pure", Ruling.ASK),))
    async with agents(place, socket, policy=policy, permissions=rules) as found:
        stop = asyncio.Event()
        serving = asyncio.create_task(found.serve(stop))
        try:
            async with asyncio.timeout(LIMIT_S):
                yield found
        finally:
            stop.set()
            await serving


async def until(found, run_id, *kinds):
    """Watch the run until it has had events of these kinds, in this order."""
    wanted = list(kinds)
    async for event in found.watch(run_id):
        if event.kind == wanted[0]:
            wanted.pop(0)
        if not wanted:
            return


async def command(place, *words, **more):
    where = {"PROCTOR_JOURNAL": place.where} | more
    return await asyncio.to_thread(proctor, "agent", *words, cwd=Path(place.where).parent, **where)


CASES = {
    "question": ("input", ["answer", "w1", "the blue one"], "the blue one"),
    "approval": ("approval", ["approve", "w1"], "read"),
    "unknown": (
        "statement", ["answer", "w1", "--happened", "it is in the ledger"], "it is in the ledger",
    ),
    "review": ("review", ["deny", "w1", "--reason", "too short"], "too short"),
}  # fmt: skip


@pytest.mark.parametrize("goal", CASES)
def test_what_a_run_waits_for_is_shown_and_answered_from_another_process(place, socket, goal):
    kind, (verb, wait, *words), told = CASES[goal]
    acceptance = [{"kind": "reviewer", "who": "ann"}] if goal == "review" else []

    async def scenario():
        async with serving(place, socket) as found:
            run_id = await found.submit(goal, acceptance=acceptance)
            await until(found, run_id, "wait.opened")

            shown = await command(place, "show", run_id, "--json")
            (move,) = json.loads(shown.out)["next_moves"]
            assert (move["who"], move["what"], move["facts"]["kind"]) == ("person", "w1", kind)
            listed = await command(place, "list")
            assert f"{run_id}" in listed.out
            assert "person" in listed.out
            text = (await command(place, "show", run_id)).out
            assert f"proctor agent {verb} {run_id} w1" in text

            done = await command(place, verb, run_id, wait, *words, "--by", "ann")
            assert (done.code, done.err) == (0, "")
            await until(found, run_id, "wait.closed")
            if goal == "review":  # the policy was told, and its next candidate is reviewed
                await until(found, run_id, "wait.opened", "wait.opened")
                done = await command(place, "approve", run_id, "w2", "--by", "ann")
                assert done.code == 0
            await until(found, run_id, "run.ended")
            view = await found.view(run_id)
            assert (view.state, view.wait("w1").by) == ("done", "ann")
            assert told in view.candidate
            again = await command(place, verb, run_id, wait, *words)
            assert again.code == 2
            assert "it was closed before" in again.err

    asyncio.run(scenario())


def test_a_run_is_cancelled_from_another_process(place, socket):
    async def scenario():
        async with serving(place, socket) as found:
            run_id = await found.submit("question")
            await until(found, run_id, "wait.opened")
            done = await command(place, "cancel", run_id, "--reason", "not needed", "--json")
            assert json.loads(done.out)["said"] == "cancel"
            await until(found, run_id, "run.ended")
            view = await found.view(run_id)
            assert (view.state, view.cancel.reason) == ("cancelled", "not needed")
            assert (await command(place, "list")).out.startswith("no agent run is open")
            assert run_id in (await command(place, "list", "--all")).out
            refused = await command(place, "cancel", run_id)
            assert (refused.code, "has ended" in refused.err) == (2, True)

    asyncio.run(scenario())


def test_events_are_followed_to_the_end_of_the_run(place, socket):
    async def scenario():
        async with serving(place, socket) as found:
            run_id = await found.submit("question")
            await until(found, run_id, "wait.opened")
            following = asyncio.create_task(command(place, "show", run_id, "--follow"))
            await found.answer(run_id, "w1", "\x1b[2J")
            shown = await following
            kinds = [
                line.split()[3] for line in shown.out.splitlines() if line[:6].strip().isdigit()
            ]
            assert kinds == [event.kind async for event in found.watch(run_id)]
            assert "\x1b" not in shown.out
            log = json.loads((await command(place, "show", run_id, "--log", "--json")).out)
            assert [event["kind"] for event in log["events"]] == kinds
            assert log["state"] == "done"

    asyncio.run(scenario())


REFUSED = [
    (["show", "rum-1"], "did you mean run-1?"),
    (["answer", "run-1", "w9", "x"], "it waits for w1 (input)"),
    (["approve", "run-1", "w1"], "not met with approve"),
    (["answer", "run-1", "w1"], "give VALUE or --json-value"),
    (["answer", "run-1", "w1", "--happened"], "w1 asks for a value"),
    (["answer", "run-1", "w1", "--json-value", "{"], "is not JSON"),
    (["answer", "run-1", "w1", "x", "--json-value", "1"], "not both"),
    (
        ["list", "--journal", "nowhere.sqlite"],
        "there is no journal of agent runs at nowhere.sqlite",
    ),
    (["list", "--journal", "mysql://somebody:secret-word@there/db"], "a postgresql:// address"),
]


def test_what_cannot_be_said_is_refused_with_what_can_be_done(place, socket):
    async def scenario():
        async with agents(place, socket, policy=policy) as found:
            await found.submit("question", run_id="run-1")
            await found.drive("run-1")
            before = (await found.view("run-1")).version
            for words, hint in REFUSED:
                refused = await command(place, *words)
                assert (refused.code, refused.out) == (2, ""), words
                assert hint in refused.err, (words, refused.err)
                assert "secret-word" not in refused.err
            assert await found.setup.journal.inbox_pending("run-1") == []
            assert (await found.view("run-1")).version == before

    asyncio.run(scenario())


def test_a_file_that_is_no_journal_is_not_changed(place, tmp_path):
    other = tmp_path / "notes.sqlite"
    other.write_text("not a database, but somebody's notes")

    async def scenario():
        refused = await command(place, "list", "--journal", str(other))
        assert (refused.code, refused.out) == (3, "")
        assert "notes.sqlite" in refused.err

    asyncio.run(scenario())
    assert other.read_text() == "not a database, but somebody's notes"
    assert [path.name for path in tmp_path.iterdir()] == ["notes.sqlite"]


def test_a_suspended_run_is_shown_with_the_way_to_resume_it(place, socket):
    async def scenario():
        async with agents(place, socket, policy=policy) as found:
            await found.submit("question", run_id="run-1")
            await found.drive("run-1")
            refused = await command(place, "resume", "run-1")
            assert (refused.code, refused.out) == (2, "")
            assert "run-1 is waiting: nothing to resume" in refused.err
            await found.suspend("run-1")
            await found.drive("run-1")
            assert "proctor agent resume run-1" in (await command(place, "show", "run-1")).out
            done = await command(place, "resume", "run-1", "--by", "ann", "--reason", "go on")
            assert (done.code, done.err) == (0, "")
            assert "recorded: resume run-1" in done.out
            assert (await found.drive("run-1")).state == "waiting"
            moved = await found.setup.journal.read_events("run-1")
            said = [e.body for e in moved if e.body.get("event") == "resume"]
            assert [(body["by"], body["reason"]) for body in said] == [("ann", "go on")]

    asyncio.run(scenario())
