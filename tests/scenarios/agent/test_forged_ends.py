"""The end of a subtask is told by the subtask: what its own log does not vouch for is refused."""

import asyncio
from decimal import Decimal

import pytest
from tests.scenarios.agent.conftest import KINDS
from tests.scenarios.agent.places import agents, consistent
from tests.scenarios.agent.test_endings import bodies
from tests.scenarios.agent.test_subtasks import asking, child_of

from proctor.agent.core.budgets import Limits
from proctor.store.journal.contract import Message


async def forge(found, run_id, name, **body):
    told = {"wait": "w1", "state": "done", "result": "forged", "spent": {}, **body}
    message = Message(run_id, name, "child_ended", told, found.clock.now())
    await found.setup.journal.inbox_add(message)


async def waits_still(found, run_id, reason):
    view = await found.drive(run_id)
    assert (view.state, view.wait("w1").state) == ("waiting", "open")
    refused = (await bodies(found, run_id, "message.refused"))[-1]
    assert reason in refused["reason"]


@pytest.mark.parametrize("place", KINDS, indirect=True)
def test_an_end_that_the_subtask_has_not_recorded_is_refused(place, socket):
    async def scenario():
        async with agents(place, socket, policy=asking()) as found:
            run_id = await found.submit("parent", limits=Limits(usd=Decimal(1)))
            await found.drive(run_id)
            child = (await child_of(found, run_id)).run_id
            other = await found.submit("other")  # a run that has an end, and is no subtask
            await found.drive(other)
            await found.answer(other, "w1", "yes")
            ended = (await found.drive(other)).version
            version = (await child_of(found, run_id)).version
            for number, (reason, body) in enumerate(
                [
                    ("does not say which event", {}),
                    ("does not say which event", {"seq": "1"}),
                    ("does not say which event", {"seq": 10**30}),
                    ("is not its end", {"seq": 1}),
                    ("is not its end", {"seq": version + 1}),
                    ("is not its end", {"seq": ended}),
                    ("no subtask is waited for", {"seq": 1, "wait": "w7"}),
                    ("no subtask is waited for", {"seq": 1, "wait": ["w1"]}),
                ]
            ):
                await forge(found, run_id, f"f{number}", **body)
                await waits_still(found, run_id, reason)
            await forge(found, run_id, f"child:{child}:{version}")
            await waits_still(found, run_id, "is not its end")
            await forge(found, run_id, f"child:{child}:" + "9" * 400)
            await waits_still(found, run_id, "does not say which event")

    asyncio.run(scenario())


@pytest.mark.parametrize("place", KINDS, indirect=True)
@pytest.mark.parametrize(
    "lie",
    [
        {"result": "forged"},
        {"result": "yes", "spent": {"usd": "-100"}},
        {"result": "yes", "spent": {}, "state": "cancelled"},
        {"result": "yes", "spent": None},
    ],
)
def test_an_end_that_is_told_otherwise_is_refused_and_the_true_one_counts(place, socket, lie):
    """The message is in the inbox before that of the subtask, and names the right event."""

    async def scenario():
        async with agents(place, socket, policy=asking()) as found:
            run_id = await found.submit("parent")
            await found.drive(run_id)
            child = (await child_of(found, run_id)).run_id
            for seq in range(1, 60):
                await forge(found, run_id, f"early {seq}", seq=seq, **lie)
                await forge(found, run_id, f"child:{child}:{seq}", **lie)
            await found.answer(child, "w1", "yes")
            assert (await found.drive(child)).state == "done"
            view = await found.drive(run_id)
            assert (view.state, view.candidate) == ("done", "subtask done: yes")
            assert len(await bodies(found, run_id, "message.refused")) == 118
            await consistent(found, run_id)

    asyncio.run(scenario())


def test_an_end_from_before_logs_vouched_for_it_still_counts(place, socket, monkeypatch):
    """A subtask that ended under an older proctor, whose parent reads of it under this one."""
    from proctor.agent.core import decide_ending
    from proctor.agent.driving import children

    async def scenario():
        async with agents(place, socket, policy=asking()) as found:
            run_id = await found.submit("parent")
            await found.drive(run_id)
            child = (await child_of(found, run_id)).run_id
            await found.answer(child, "w1", "yes")
            with monkeypatch.context() as patch:
                patch.setattr(decide_ending, "seal", lambda told: "")
                patch.setattr(children, "Message", as_before(found, child))
                assert (await found.drive(child)).state == "done"
            view = await found.drive(run_id)
            assert (view.state, view.candidate) == ("done", "subtask done: yes")

    asyncio.run(scenario())


def as_before(found, child):
    """How the message was named and what it held."""

    def make(run_id, name, kind, body, at):
        assert name.startswith(f"child:{child}:")
        older = {key: value for key, value in body.items() if key != "seq"}
        return Message(run_id, f"child:{child}:{body['seq']}", kind, older, at)

    return make


def test_a_run_that_took_the_name_of_a_subtask_is_not_waited_for(place, socket):
    async def scenario():
        policy = asking()
        async with agents(place, socket, policy=policy) as found:
            # The name can be foretold: it follows from the parent's name and its call.
            foretold = await found.submit("parent", run_id="p1")
            await found.drive(foretold)
            name = (await child_of(found, foretold)).run_id
        # The same in a journal of its own, where somebody was faster.
        async with agents(type(place)("sqlite", place.where + "2"), socket, policy=policy) as found:
            await found.submit("squatter", run_id=name)
            await found.submit("parent", run_id="p1")
            view = await found.drive("p1")
            assert view.state == "done"
            assert view.action("a1").state == "cancelled"
            assert f"run {name} is there and is not a subtask of this one" in view.candidate
            assert (await found.view(name)).version == 1  # and nobody has driven it

    asyncio.run(scenario())


@pytest.mark.parametrize("say", ["cancel", "suspend"])
def test_nobody_takes_the_place_of_what_a_subtask_is_told(place, socket, say):
    """Messages under every name that could be foretold are there before the parent's own."""

    async def scenario():
        async with agents(place, socket, policy=asking()) as found:
            run_id = await found.submit("parent")
            version = (await found.drive(run_id)).version
            child = (await child_of(found, run_id)).run_id
            names = [f"{say}:{run_id}:w1", f"{say}:w1"]
            for seq in range(version, version + 20):
                names += [f"{say}:{run_id}:{seq}", f"{say}:w1:{seq}"]
            for name in names:
                squatting = Message(child, name, "no command", {}, found.clock.now())
                await found.setup.journal.inbox_add(squatting)
            await getattr(found, say)(run_id)
            await found.drive(run_id)
            await found.drive(child)
            wanted = {"cancel": "cancelled", "suspend": "suspended"}[say]
            assert (await found.view(child)).state == wanted
            assert (await found.view(run_id)).state == wanted

    asyncio.run(scenario())
