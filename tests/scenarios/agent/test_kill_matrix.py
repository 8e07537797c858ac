"""A real worker is killed at named points; what follows is a table."""

import asyncio
import random

import pytest
from tests.scenarios.agent.conftest import KINDS
from tests.scenarios.agent.places import agents, consistent

from proctor.testing.otherside import ask

pytestmark = pytest.mark.slow

EFFECTS = ("pure", "idempotent", "queryable", "non_repeatable")

# How far the action had come when the worker died.
POINTS = {
    ("agent.claimed", 1): "not started",
    ("agent.recovery.done", 1): "not started",
    ("agent.turn.requested", 1): "not started",
    ("agent.turn.replied", 1): "not started",
    ("agent.attempt.intent", 1): "not started",
    ("agent.attempt.started", 1): "started",
    ("agent.execute.begin", 1): "started",
    ("tool.before_effect", 1): "started",
    ("tool.after_effect", 1): "happened",
    ("agent.execute.end", 1): "happened",
    ("agent.blob.begin", 1): "happened",
    ("agent.blob.kept", 1): "happened",
    ("agent.result.arrived", 1): "happened",
    ("agent.turn.requested", 2): "recorded",
    ("agent.turn.replied", 2): "recorded",
    ("agent.turn.recorded", 1): "recorded",  # of the last turn; one that acts is in the intent
    ("agent.judged", 1): "recorded",
    ("agent.finishing", 1): "recorded",
    ("agent.end.begin", 1): "recorded",
    ("agent.end.recorded", 1): "recorded",
    ("agent.release", 1): "recorded",
}

# The same for a policy that is not awaited: a result is recorded with the turn that follows it.
POINTS_AT_ONCE = {
    ("agent.turn.replied", 1): "not started",
    ("agent.attempt.intent", 1): "not started",
    ("agent.attempt.started", 1): "started",
    ("tool.after_effect", 1): "happened",
    ("agent.result.arrived", 1): "happened",
    ("agent.turn.replied", 2): "happened",
    ("agent.end.begin", 1): "recorded",
    ("agent.release", 1): "recorded",
}

# A tool that waits for nothing, below a policy that is not awaited either, and below one that is.
POINTS_NOW = {
    ("agent.attempt.intent", 1): "not started",
    ("agent.attempt.started", 1): "started",
    ("agent.execute.begin", 1): "started",
    ("tool.before_effect", 1): "started",
    ("tool.after_effect", 1): "happened",
    ("agent.execute.end", 1): "happened",
    ("agent.blob.begin", 1): "happened",
    ("agent.blob.kept", 1): "happened",
    ("agent.result.arrived", 1): "happened",
    ("agent.turn.replied", 2): "happened",
    ("agent.end.begin", 1): "recorded",
    ("agent.release", 1): "recorded",
}
POINTS_NOW_ASKED = {
    ("tool.after_effect", 1): "happened",
    ("agent.result.arrived", 1): "happened",
    ("agent.turn.requested", 2): "recorded",
    ("agent.turn.recorded", 1): "recorded",
}

# (executions seen by the other side, state of the action) when the next worker has gone as far as
# it can by itself. `queryable` and `idempotent` have one effect always, `non_repeatable` at most.
AFTER = {
    "not started": dict.fromkeys(EFFECTS, (1, "done")),
    "started": {
        "pure": (1, "done"),
        "idempotent": (1, "done"),
        "queryable": (1, "done"),
        "non_repeatable": (0, "stopped"),
    },
    "happened": {
        "pure": (2, "done"),
        "idempotent": (1, "done"),
        "queryable": (1, "done"),
        "non_repeatable": (1, "stopped"),
    },
    "recorded": dict.fromkeys(EFFECTS, (1, "done")),
}

# A second worker dies while it recovers from a death after the effect.
SECOND = [
    ("agent.claimed", 1), ("agent.recovery.lost", 1), ("agent.recovery.settled", 1),
    ("agent.recovered", 1), ("agent.recovery.done", 1), ("agent.query.begin", 1),
    ("tool.queried", 1), ("agent.query.end", 1),
]  # fmt: skip
QUERY_ONLY = {"agent.query.begin", "tool.queried", "agent.query.end"}


def cases(scripts, twice, title=""):
    """Deaths at one point of each script, and deaths of two workers one after the other."""
    once = [
        pytest.param(
            kind, f"{script} {effect}", [point], phase,
            id=f"{kind}-{script}-{effect}-{point[0]}:{point[1]}",
        )
        for kind in KINDS
        for effect in EFFECTS
        for script, points in scripts.items()
        for point, phase in points.items()
    ]  # fmt: skip
    return once + [
        pytest.param(
            kind, f"{twice} {effect}", [("tool.after_effect", 1), second], "happened",
            id=f"{kind}-{title}{effect}-twice-{second[0]}",
        )
        for kind in KINDS
        for effect in EFFECTS
        for second in SECOND
        if effect == "queryable" or second[0] not in QUERY_ONLY
    ]  # fmt: skip


def sample(found, count):
    """The same ones everywhere."""
    return set(random.Random(6).sample([case.id for case in found], count))


AWAITED = cases({"one": POINTS, "quick": POINTS_AT_ONCE}, "one")
AT_ONCE = cases({"quick_now": POINTS_NOW, "one_now": POINTS_NOW_ASKED}, "quick_now", "now-")
CASES = AWAITED + AT_ONCE
SAMPLE = sample(AWAITED, 32) | sample(AT_ONCE, 24)


async def executions(socket, action):
    keys = (await ask(socket, {"log": True}))["keys"]
    return keys.count(action.op_key) + keys.count(f"read {action.op_key}")


@pytest.mark.parametrize(
    ("place", "goal", "faults", "phase"),
    [
        pytest.param(*case.values, id=case.id, marks=() if case.id in SAMPLE else pytest.mark.full)
        for case in CASES
    ],
    indirect=["place"],
)
def test_killed_at(place, goal, faults, phase, worker, socket):
    effect = goal.split()[1]

    async def submit():
        async with agents(place, socket) as found:
            return await found.submit(goal)

    async def go_on(run_id):
        async with agents(place, socket) as found:
            await found.drive(run_id)
            view = await consistent(found, run_id)
            action = view.action("a1")
            seen = await executions(socket, action)
            assert (seen, action.state) == AFTER[phase][effect]
            if action.state == "stopped":
                await state_the_truth(found, view, seen)
                view = await consistent(found, run_id)
            assert view.state == "done"
            assert view.action("a1").state == "done"
            assert await executions(socket, action) == (2 if AFTER[phase][effect][0] == 2 else 1)
            assert len({a.op_key for a in view.actions}) == len(view.actions) == 1

    async def state_the_truth(found, view, seen):
        assert view.state == "waiting"
        (move,) = (await found.show(view.run_id)).next_moves
        assert (move["who"], move["facts"]["op_key"]) == ("person", view.action("a1").op_key)
        await found.state(view.run_id, move["what"], happened=seen == 1)
        await found.drive(view.run_id)

    run_id = asyncio.run(submit())
    for fault in faults:
        assert worker(place, run_id, *fault) == -9
    asyncio.run(go_on(run_id))


@pytest.mark.parametrize("found", [AWAITED, AT_ONCE], ids=["awaited", "at once"])
def test_the_sample_has_everything_of_the_table(found):
    """The seeded sample goes over every phase, effect and both databases."""
    phases = {c.values[3] for c in found if c.id in SAMPLE}
    kinds = {c.values[0] for c in found if c.id in SAMPLE}
    effects = {c.values[1].split()[1] for c in found if c.id in SAMPLE}
    assert (phases, kinds, effects) == (set(AFTER), set(KINDS), set(EFFECTS))
