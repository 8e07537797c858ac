"""B44, events: a long run is opened by its snapshot, a large output is a blob."""

import asyncio

import pytest
from tests.properties.test_agent_runs import as_json
from tests.scenarios.agent.places import agents, consistent
from tests.scenarios.agent.test_answers import scripted, turn

from proctor.agent.core.locks import Access
from proctor.agent.core.view import View
from proctor.agent.driving.loading import load_view
from proctor.agent.driving.snapshots import is_due, load_snapshot
from proctor.agent.policy import Policy, Proposal
from proctor.agent.tools import Effect, Tool, ToolResult
from proctor.models.contract import ToolCall

ACTIONS = 250


class Here(Tool):
    """Has a result of the size that is asked for, without leaving the process."""

    name = "here"
    effect = Effect.IDEMPOTENT

    def resources(self, arguments) -> tuple[Access, ...]:
        return ()

    async def execute(self, op_key, arguments, context):
        return ToolResult("é" * arguments["size"])


class Long(Policy):
    async def propose(self, messages, context):
        if context.turn > ACTIONS:
            return Proposal("done")
        return Proposal("", (ToolCall("c1", "here", {"size": 10}),))


@pytest.mark.slow
def test_a_snapshot_and_its_tail_are_the_log(place, socket):
    async def scenario():
        async with agents(place, socket, policy=lambda task: Long(), tools=[Here()]) as found:
            run_id = await found.submit("g")
            view = await found.drive(run_id)
            assert (view.state, len(view.actions)) == ("done", ACTIONS)
            journal = found.setup.journal
            kept = await load_snapshot(journal, run_id)
            assert kept is not None
            assert view.version > 1200
            assert view.version - kept.version < 400
            whole = await load_view(journal, run_id, View())
            assert as_json(await load_view(journal, run_id)) == as_json(whole) == as_json(view)
            await consistent(found, run_id)

    asyncio.run(scenario())


def test_snapshots_cost_no_more_than_the_log():
    """Their sizes together, with one event as the unit, over a log of 100,000 events."""
    kept, cost = 0, 0
    for version in range(1, 100_001):
        if is_due(version, kept, leaving=False):
            kept, cost = version, cost + version
    assert cost < 6 * 100_000


def test_a_damaged_or_foreign_snapshot_is_passed_over(place, socket, monkeypatch):
    from proctor.agent.driving import snapshots

    async def scenario():
        async with agents(place, socket, policy=scripted(turn(("here", {"size": 1}))),
                          tools=[Here()]) as found:  # fmt: skip
            run_id = await found.submit("g")
            view = await found.drive(run_id)
            journal = found.setup.journal
            row = await journal.run_row(run_id)
            from proctor.store.journal.contract import Snapshot

            for body in ({}, {"version": 1}, snapshots.to_json(view) | {"run_id": "other"}):
                shot = Snapshot(view.version, snapshots.SHAPE, body)
                assert await journal.save_snapshot(run_id, row.fence, shot)
                assert await load_snapshot(journal, run_id) is None
                assert as_json(await load_view(journal, run_id)) == as_json(view)

    asyncio.run(scenario())


def test_a_large_output_is_a_blob_and_the_log_and_the_model_get_its_ends(place, socket):
    size = 3_000_000

    async def scenario():
        policy = scripted(turn(("here", {"size": size})), Proposal("done"))
        async with agents(place, socket, policy=policy, tools=[Here()]) as found:
            run_id = await found.submit("g")
            view = await found.drive(run_id)
            action = view.action("a1")
            assert len(action.text) < 17_000
            assert "characters left out" in action.text
            assert action.evidence["output_bytes"] == 2 * size
            data = await found.setup.journal.get_blob(action.evidence["output"])
            assert data.decode() == "é" * size
            events = await found.setup.journal.read_events(run_id)
            assert max(len(str(e.body)) for e in events) < 20_000

    asyncio.run(scenario())
