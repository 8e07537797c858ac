"""A run that kills its worker is given up by everybody after a while; one that goes on is not."""

import asyncio
import subprocess
import sys

import pytest
from tests.scenarios.agent.conftest import KINDS, ROOT
from tests.scenarios.agent.dying import TURNS, Charge, Harmless, policy_of
from tests.scenarios.agent.places import agents, consistent
from tests.scenarios.agent.test_endings import bodies, kinds

from proctor.agent.core.deaths import MOST_RETRIES
from proctor.agent.driving.claiming import OldPermissions
from proctor.agent.permissions import Permissions
from proctor.agent.policy import Proposal, ScriptedPolicy
from proctor.models.contract import ToolCall
from proctor.store.leases import is_dead, owner_name
from proctor.testing.agenttools import all_tools
from proctor.testing.otherside import ask

pytestmark = pytest.mark.slow
MOST_DEATHS = MOST_RETRIES + 1
SAMPLED = ["sqlite", pytest.param("postgresql", marks=pytest.mark.full)]
"""Processes take their time: by default some cases are tried on one database only."""


def worked(place, socket, tmp_path, *what):
    """A worker to its end; whether it died."""
    argv = [sys.executable, "-m", "tests.scenarios.agent.dying", place.text(), socket]
    done = subprocess.run(
        [*argv, str(tmp_path), *what],
        cwd=ROOT, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode in (0, 9, -9), done.stderr
    return done.returncode != 0


def deaths(place, socket, tmp_path, *what):
    """How many workers die one after the other before one does not."""
    count = 0
    while worked(place, socket, tmp_path, *what):
        count += 1
        assert count < 20
    return count


def mended(task):
    """What the deadly policy should have been."""
    if task["goal"].startswith("tool"):
        return policy_of("")(task)
    return ScriptedPolicy([Proposal("", (ToolCall("c1", "pure", {"path": "x"}),))])


def healthy(place, socket):
    """Nothing here kills anybody."""
    return agents(place, socket, policy=mended)


WAYS = ("policy", "tool", "asked", "tool_at_once", "factory")


@pytest.mark.parametrize(
    ("place", "goal"),
    [
        pytest.param(kind, goal, marks=pytest.mark.full if n > 1 and kind != "sqlite" else ())
        for kind in KINDS
        for n, goal in enumerate(WAYS)
    ],
    indirect=["place"],
)
def test_a_run_that_kills_its_workers_is_suspended_until_somebody_resumes_it(
    place, goal, socket, tmp_path
):
    async def submitted():
        async with healthy(place, socket) as found:
            return await found.submit(goal)

    async def looked_at(run_id):
        async with healthy(place, socket) as found:
            view = await consistent(found, run_id)
            assert (view.state, view.owner) == ("suspended", None)
            (given_up,) = await bodies(found, run_id, "run.given_up")
            assert f"{MOST_DEATHS} workers in a row" in given_up["reason"]
            move = (await found.show(run_id)).next_moves[0]
            assert (move["what"], move["who"]) == ("run", "person")
            assert move["facts"]["reason"] == given_up["reason"]
            assert await found._claimable({}) == []
            return view.version

    async def mend(run_id):
        tools = [Harmless(), *all_tools(socket)]
        async with agents(place, socket, policy=mended, tools=tools) as found:
            await found.resume(run_id, by="ann")
            view = await found.drive(run_id)
            assert (view.state, view.deaths) == ("done", 0)
            await consistent(found, run_id)

    run_id = asyncio.run(submitted())
    assert deaths(place, socket, tmp_path, "drive", run_id) == MOST_DEATHS
    before = asyncio.run(looked_at(run_id))
    assert not worked(place, socket, tmp_path, "drive", run_id)  # nothing of it is executed
    assert asyncio.run(looked_at(run_id)) == before + 2  # claimed and released
    asyncio.run(mend(run_id))


@pytest.mark.parametrize("place", SAMPLED, indirect=True)
def test_what_is_said_to_a_suspended_one_is_kept_and_kills_nobody(place, socket, tmp_path):
    async def said_to(*calls):
        async with healthy(place, socket) as found:
            run_id = await found.submit("factory", run_id="r")
            for verb, *words in calls:
                await getattr(found, verb)(run_id, *words)

    asyncio.run(said_to())
    assert deaths(place, socket, tmp_path, "drive", "r") == MOST_DEATHS
    asyncio.run(said_to(("tell", "hello")))
    assert not worked(place, socket, tmp_path, "serve")

    async def looked_at(state):
        async with healthy(place, socket) as found:
            view = await consistent(found, "r")
            assert view.state == state
            assert not await found.setup.journal.inbox_pending("r")
            assert "message.received" in await kinds(found, "r")

    asyncio.run(looked_at("suspended"))
    asyncio.run(said_to(("cancel",)))
    assert not worked(place, socket, tmp_path, "drive", "r")
    asyncio.run(looked_at("cancelled"))


@pytest.mark.parametrize("place", KINDS, indirect=True)
def test_a_run_that_makes_progress_between_deaths_is_never_held_back(place, socket, tmp_path):
    async def submitted():
        async with healthy(place, socket) as found:
            return await found.submit("each_turn")

    async def looked_at():
        async with healthy(place, socket) as found:
            view = await consistent(found, run_id)
            assert (view.state, len(view.actions)) == ("done", TURNS)
            assert await bodies(found, run_id, "run.given_up") == []
            done = (await ask(socket, {"log": True}))["keys"]
            assert [done.count(action.op_key) for action in view.actions] == [1] * TURNS

    run_id = asyncio.run(submitted())
    assert deaths(place, socket, tmp_path, "drive", run_id) == TURNS + 1 > MOST_DEATHS
    asyncio.run(looked_at())


@pytest.mark.parametrize("place", KINDS, indirect=True)
def test_those_that_were_driven_beside_it_are_not_held_back(place, socket, tmp_path):
    """Everything a worker drove dies with it. Only the run that kills is suspended."""

    async def submitted():
        async with healthy(place, socket) as found:
            bad = await found.submit("late")
            return bad, [await found.submit("none") for _ in range(4)]

    async def looked_at():
        async with healthy(place, socket) as found:
            assert (await consistent(found, bad)).state == "suspended"
            for run_id in good:
                view = await consistent(found, run_id)
                assert (view.state, view.deaths) == ("done", 0)
                assert await bodies(found, run_id, "run.given_up") == []
                assert (await found.setup.journal.run_row(run_id)).body == {}
            assert (await found.setup.journal.run_row(bad)).body == {"deaths": MOST_DEATHS}

    bad, good = asyncio.run(submitted())
    assert deaths(place, socket, tmp_path, "serve") == MOST_DEATHS
    asyncio.run(looked_at())


@pytest.mark.parametrize("place", SAMPLED, indirect=True)
def test_workers_that_die_while_they_read_the_log_are_counted_too(place, socket, worker):
    """The first of them leaves no trace in the log; the next ones record their claim before they
    read it."""

    async def submitted():
        async with agents(place, socket) as found:
            return await found.submit("quick pure")

    async def looked_at(run_id, count, *, called):
        async with agents(place, socket) as found:
            row = await found.setup.journal.run_row(run_id)
            assert (row.state, row.body) == ("suspended", {"deaths": count})
            await until_free(found, run_id)
            assert [r.run_id for r in await found._claimable({})] == [run_id] * called
            if not called:
                await found.tell(run_id, "hello")

    async def until_free(found, run_id):
        """Its last owner is dead: as if its lease had run out."""
        row = await found.setup.journal.run_row(run_id)
        lease = await found.setup.journal.claim(run_id, "nobody", 60, dead_owner=row.owner)
        assert await found.setup.journal.release(lease)

    async def mend(run_id):
        async with agents(place, socket) as found:
            await found.resume(run_id)
            view = await found.drive(run_id)
            assert (view.state, view.deaths) == ("done", 0)
            assert len(await bodies(found, run_id, "run.given_up")) == 1
            assert len([t for kind, t in view.items if kind == "message"]) == 1
            await consistent(found, run_id)

    run_id = asyncio.run(submitted())
    for _ in range(MOST_DEATHS + 1):
        assert worker(place, run_id, "agent.log.begin", 1) == -9
    asyncio.run(looked_at(run_id, MOST_DEATHS, called=False))
    for _ in range(MOST_DEATHS):  # for the message
        assert worker(place, run_id, "agent.log.begin", 1) == -9
    asyncio.run(looked_at(run_id, 2 * MOST_DEATHS - 1, called=True))
    assert worker(place, run_id, "agent.log.begin", 1) == -9
    assert worker(place, run_id, "agent.log.begin", 1) == -9
    asyncio.run(nobody_claims(place, socket, run_id))
    asyncio.run(mend(run_id))


async def nobody_claims(place, socket, run_id):
    async with agents(place, socket) as found:
        row = await found.setup.journal.run_row(run_id)
        assert row.body == {"deaths": 2 * MOST_DEATHS}
        lease = await found.setup.journal.claim(run_id, "nobody", 60, dead_owner=row.owner)
        assert await found.setup.journal.release(lease)
        assert await found.setup.journal.inbox_pending(run_id)
        assert await found._claimable({}) == []


@pytest.mark.parametrize("place", SAMPLED, indirect=True)
def test_a_run_that_kills_while_it_is_ended_ends_without_what_kills(place, socket, tmp_path):
    """The tool kills when it is asked how its effect is undone: the effect stays `done`."""

    async def cancelled():
        async with agents(place, socket, policy=policy_of(""), tools=tools) as found:
            run_id = await found.submit("charge")
            assert (await found.drive(run_id)).state == "waiting"
            await found.cancel(run_id, compensate=True)
            return run_id

    async def looked_at():
        async with healthy(place, socket) as found:
            view = await consistent(found, run_id)
            assert (view.state, view.action("a1").effects) == ("cancelled", "done")
            (given_up,) = await bodies(found, run_id, "run.given_up")
            assert f"{MOST_DEATHS} workers in a row" in given_up["reason"]

    tools = [Charge(), *all_tools(socket)]
    run_id = asyncio.run(cancelled())
    assert deaths(place, socket, tmp_path, "drive", run_id) == MOST_DEATHS
    asyncio.run(looked_at())


def dead_owner():
    """The name of an owner whose process has ended: another has its number now."""
    parts = owner_name().split("/")
    name = "/".join([*parts[:5], "1", parts[6]])
    assert is_dead(name)
    return name


@pytest.mark.parametrize("place", KINDS, indirect=True)
def test_a_worker_that_died_after_it_had_let_the_run_go_is_no_death_of_the_run(place, socket):
    async def scenario():
        async with agents(place, socket) as found:
            run_id = await found.submit("ask pure")
            journal, release = found.setup.journal, found.setup.journal.release
            found.owner = dead_owner()
            journal.release = kept
            assert (await found.drive(run_id)).state == "waiting"
            assert (await journal.run_row(run_id)).owner == found.owner
            journal.release = release
            found.owner = owner_name()
            view = await found.drive(run_id)
            assert (view.state, view.deaths) == ("waiting", 0)
            assert [b.get("recovered", False) for b in
                    await bodies(found, run_id, "run.claimed")] == [False, False]  # fmt: skip

    async def kept(lease):
        return True

    asyncio.run(scenario())


@pytest.mark.parametrize("place", KINDS, indirect=True)
def test_a_worker_that_died_before_it_recorded_anything_is_a_death(place, socket):
    async def scenario():
        async with agents(place, socket) as found:
            run_id = await found.submit("ask pure")
            claims = []
            for _ in range(2):
                assert await found.setup.journal.claim(run_id, dead_owner(), 60)
                driver = asyncio.create_task(found.drive(run_id))
                claims.append((await driver).state)
            assert claims == ["waiting", "waiting"]
            assert [b.get("recovered", False) for b in
                    await bodies(found, run_id, "run.claimed")] == [True, True]  # fmt: skip
            view = await consistent(found, run_id)
            assert view.deaths == 0  # it came to rest

    asyncio.run(scenario())


@pytest.mark.parametrize("place", KINDS, indirect=True)
def test_old_permissions_do_not_even_claim_a_run_whose_owner_is_gone(place, socket):
    async def scenario():
        async with agents(place, socket, permissions=Permissions(epoch=3)) as found:
            run_id = await found.submit("ask pure")
            await found.drive(run_id)
            before = (await found.view(run_id)).version
            assert await found.setup.journal.claim(run_id, dead_owner(), 60)
        async with agents(place, socket, permissions=Permissions(epoch=2)) as found:
            with pytest.raises(OldPermissions):
                await found.drive(run_id)
            assert (await found.view(run_id)).version == before
            assert (await found.setup.journal.run_row(run_id)).owner is None

    asyncio.run(scenario())
