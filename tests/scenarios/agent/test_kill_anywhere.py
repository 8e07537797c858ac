"""A run with parallel actions and a subtask is killed at the n-th fault point, for every n."""

import asyncio
import random

import pytest
from tests.scenarios.agent.places import agents, consistent

from proctor.testing.otherside import ask

pytestmark = pytest.mark.slow

HITS = 150
"""More than the points that an undisturbed run passes: the last ones do not kill it."""
SAMPLE = set(random.Random(3).sample(range(1, 100), 6))


async def effects(socket, view):
    keys = (await ask(socket, {"log": True}))["keys"]
    return {a.id: keys.count(a.op_key) for a in view.actions if a.effect != "pure"}


@pytest.mark.parametrize(
    "hit",
    [pytest.param(n, marks=() if n in SAMPLE else pytest.mark.full) for n in range(1, HITS, 2)]
    + [pytest.param(n) for n in sorted(SAMPLE) if n % 2 == 0],
)
def test_killed_at_any_point(place, worker, socket, hit):
    async def submit():
        async with agents(place, socket) as found:
            return await found.submit("mixed queryable")

    async def go_on(run_id):
        async with agents(place, socket) as found:
            await found.drive(run_id)
            runs = [row.run_id for row in await found.setup.journal.runs()]
            for name in runs:
                await settle(found, name)
            await found.drive(run_id)
            for name in runs:
                view = await consistent(found, name)
                assert view.state == "done"
                assert [a.state for a in view.actions] == ["done"] * len(view.actions)
                counted = await effects(socket, view)
                counted.pop(next((a.id for a in view.actions if a.tool == "subtask"), ""), None)
                assert set(counted.values()) == {1}
            assert len(runs) == 2

    async def settle(found, name):
        """State the truth, as the other side knows it."""
        view = await found.view(name)
        counted = await effects(socket, view)
        for wait in view.waiting("statement"):
            await found.state(name, wait.id, happened=counted[wait.action] == 1)

    run_id = asyncio.run(submit())
    worker(place, run_id, hit)
    asyncio.run(go_on(run_id))
