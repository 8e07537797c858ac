"""An inbox may be as long as the disk: it is read in pages, in order, to its end."""

import asyncio

import pytest
from tests.scenarios.agent.conftest import KINDS
from tests.scenarios.agent.places import agents, appended, consistent, said
from tests.scenarios.agent.test_answers import scripted, turn
from tests.scenarios.agent.test_called_away import CarefulSender, cancelled_while_looking
from tests.scenarios.agent.test_commands import command
from tests.scenarios.agent.test_endings import Door, bodies, gate

from proctor.agent.driving.intake import PAGE
from proctor.agent.tools import Cancel
from proctor.kernel.errors import UsageError
from proctor.store.journal.contract import MOST_BODY_CHARS

COUNT = 2 * PAGE + 20


async def filled(found, run_id, count=COUNT):
    """Texts in the inbox of a run; in the order of their arrival."""
    await asyncio.gather(*(found.tell(run_id, f"text {n}") for n in range(count)))
    pending = await found.setup.journal.inbox_pending(run_id)
    assert len(pending) == count
    return [message.body["text"] for message in pending]


def texts(view):
    return [text for kind, text in view.items if kind == "message"]


def kept_pages(journal):
    """The lengths of the pages that are read from now on."""
    pages, pending = [], journal.inbox_pending

    async def counted(run_id, **how):
        page = await pending(run_id, **how)
        pages.append(len(page))
        return page

    journal.inbox_pending = counted
    return pages


@pytest.mark.parametrize("place", KINDS, indirect=True)
def test_each_page_is_one_append_and_all_of_them_come_before_the_first_turn(place, socket):
    async def scenario():
        async with agents(place, socket, policy=scripted(said)) as found:
            run_id = await found.submit("g")
            told = await filled(found, run_id)
            pages = kept_pages(found.setup.journal)
            view, appends = await appended(found, run_id)
            assert (view.state, texts(view)) == ("done", told)
            assert max(pages) == PAGE
            counts = [kinds.count("message.received") for kinds in appends]
            assert [n for n in counts if n] == [PAGE, PAGE, COUNT - 2 * PAGE]
            first_turn = next(n for n, kinds in enumerate(appends) if "turn.requested" in kinds)
            assert sum(counts[:first_turn]) == COUNT
            assert not await found.setup.journal.inbox_pending(run_id)

    asyncio.run(scenario())


@pytest.mark.parametrize("place", KINDS, indirect=True)
def test_a_cancel_at_the_end_of_a_long_inbox_starts_nothing(place, socket):
    """It all comes while a tool's own code is asked whether the action may start."""

    async def scenario():
        tool = CarefulSender()
        tool.look = Door()
        policy = scripted(turn(("send", {})), said)
        async with (
            agents(place, socket, policy=policy, tools=[tool]) as found,
            agents(place, socket, policy=policy, tools=[tool]) as other,
        ):
            run_id = await found.submit("g")
            told = []

            async def fill_and_cancel():
                told.extend(await filled(other, run_id))
                await other.cancel(run_id)

            view = await cancelled_while_looking(found, tool, run_id, fill_and_cancel())
            assert (view.state, tool.sent, texts(view)) == ("cancelled", [], told)
            await consistent(found, run_id)

    asyncio.run(scenario())


@pytest.mark.parametrize("place", KINDS, indirect=True)
def test_a_worker_that_dies_between_two_pages_loses_and_repeats_nothing(place, socket, worker):
    async def fill():
        async with agents(place, socket) as found:
            run_id = await found.submit("quick pure")
            return run_id, await filled(found, run_id)

    async def go_on(run_id, told):
        async with agents(place, socket) as found:
            assert texts(await found.view(run_id)) == told[: 2 * PAGE]
            await found.drive(run_id)
            view = await consistent(found, run_id)
            assert (view.state, texts(view)) == ("done", told)

    run_id, told = asyncio.run(fill())
    assert worker(place, run_id, "agent.inbox.applied", 2) == -9
    asyncio.run(go_on(run_id, told))


def test_who_leaves_leaves_the_rest_of_the_inbox(place, socket):
    async def scenario():
        async with agents(place, socket, policy=scripted(said)) as found:
            run_id = await found.submit("g")
            told = await filled(found, run_id)
            journal, pending = found.setup.journal, found.setup.journal.inbox_pending

            async def leaving(run_id, **how):
                found.hand_over(run_id)
                return await pending(run_id, **how)

            journal.inbox_pending = leaving
            coordinator = asyncio.create_task(found._drive_one(run_id))
            view = await asyncio.wait_for(coordinator, 30)
            journal.inbox_pending = pending
            applied = len(texts(view))
            assert (view.state, view.owner, applied % PAGE) == ("running", None, 0)
            assert 0 < applied < COUNT
            view = await found.drive(run_id)
            assert (view.state, texts(view)) == ("done", told)

    asyncio.run(scenario())


def test_what_ends_while_a_run_is_handed_over_does_not_keep_the_others_from_ending(place, socket):
    """Two executions that cannot be stopped: the second ends only after the first is taken in."""

    async def scenario():
        doors = {"a": Door(), "b": Door()}
        tools = [
            type(f"Gate{n}", (type(gate(door, cancel=Cancel.NONE)),), {"name": n})(door)
            for n, door in doors.items()
        ]
        policy = scripted(turn(("a", {}), ("b", {})), said)
        async with agents(place, socket, policy=policy, tools=tools) as found:
            run_id = await found.submit("g")
            driver = asyncio.create_task(found._drive_one(run_id))
            for door in doors.values():
                await door.reached.wait()
            found.hand_over(run_id)
            doors["a"].opened.set()
            async for event in found.watch(run_id):
                if event.kind == "attempt.ended":
                    break
            doors["b"].opened.set()
            view = await asyncio.wait_for(driver, 30)
            assert [a.state for a in view.actions] == ["done", "done"]
            assert [body.get("outcome", "result") for body in
                    await bodies(found, run_id, "attempt.ended")] == ["result"] * 2  # fmt: skip

    asyncio.run(scenario())


def test_a_message_that_is_too_long_is_refused_where_it_is_said(place, socket):
    async def scenario():
        long = "x" * MOST_BODY_CHARS
        async with agents(place, socket) as found:
            run_id = await found.submit("ask pure", run_id="run-1")
            await found.drive(run_id)
            before = (await found.view(run_id)).version
            for say in (
                found.tell(run_id, long),
                found.answer(run_id, "w1", long),
                found.cancel(run_id, reason=long),
                found.answer(run_id, "w1", "x", message_id="m" * 501),
            ):
                with pytest.raises(UsageError, match="at most"):
                    await say
            # As JSON this argument is six times as long.
            refused = await command(place, "answer", run_id, "w1", "\x01" * (100 * 1024))
            assert (refused.code, refused.out) == (2, "")
            assert "262,144" in refused.err
            assert await found.setup.journal.inbox_pending(run_id) == []
            assert (await found.view(run_id)).version == before

    asyncio.run(scenario())
