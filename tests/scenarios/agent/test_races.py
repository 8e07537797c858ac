"""Two things at once, in every order that a seeded scheduler finds.

The event loop's ready callbacks are shuffled by a seed, so the same code meets its events in other
orders; for each race both outcomes have to occur over the seeds, and each has to be right.
"""

import asyncio
import random
from collections import Counter

import pytest
from tests.scenarios.agent.places import agents, consistent, said
from tests.scenarios.agent.test_answers import effects, scripted, turn
from tests.scenarios.agent.test_endings import QUICK, Door, gate

from proctor.agent.tools import Cancel
from proctor.kernel.errors import UsageError
from proctor.testing.agenttools import all_tools

SEEDS = 6


class ShuffledLoop(asyncio.SelectorEventLoop):
    """Runs what is ready in an order of its own, the same for the same seed."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self._random = random.Random(seed)

    def _run_once(self) -> None:
        ready = list(self._ready)
        self._ready.clear()
        self._random.shuffle(ready)
        self._ready.extend(ready)
        super()._run_once()


def run(seed, scenario):
    with asyncio.Runner(loop_factory=lambda: ShuffledLoop(seed)) as runner:
        return runner.run(scenario(random.Random(seed)))


async def at_once(rng, *doings):
    """Start these in a random order, with random steps of the loop between them."""
    doings = list(doings)
    rng.shuffle(doings)
    tasks = []
    for doing in doings:
        tasks.append(asyncio.ensure_future(doing()))
        for _ in range(rng.choice([0, 0, 1, 5, 50])):
            await asyncio.sleep(0)
    await asyncio.gather(*tasks)


async def taken(saying):
    """Say something to a run; False if it had ended, and whoever said it was told so."""
    try:
        await saying
    except UsageError as error:
        assert "has ended" in str(error)  # noqa: PT017 - one of two right answers
        return False
    return True


async def kinds(found, run_id):
    return [e.kind for e in await found.setup.journal.read_events(run_id)]


def test_cancel_against_completion(tmp_path, socket, new_place):
    seen = Counter()
    for seed in range(SEEDS * 2):

        async def scenario(rng):
            door = Door()
            policy = scripted(turn(("gate", {})), said)
            tools = [gate(door, cancel=Cancel.NONE)]
            async with agents(
                new_place(), socket, policy=policy, tools=tools, timing=QUICK
            ) as found:
                run_id = await found.submit("g")
                driver = asyncio.create_task(found.drive(run_id))
                await door.reached.wait()

                acknowledged = []

                async def complete():
                    door.opened.set()

                async def cancel():
                    acknowledged.append(await taken(found.cancel(run_id)))

                await at_once(rng, complete, cancel)
                await driver
                await found.drive(run_id)  # a cancel that came too late is taken note of
                view = await consistent(found, run_id)
                log = await kinds(found, run_id)
                assert view.action("a1").state == "done"
                if view.state == "cancelled":
                    assert acknowledged == [True]
                    assert view.action("a1").effects in ("done", "")
                    return "cancelled"
                assert view.state == "done"
                assert log.count("message.refused") == acknowledged.count(True)
                return "done"

        seen[run(seed, scenario)] += 1
    assert set(seen) == {"cancelled", "done"} or seen["cancelled"] == SEEDS * 2, seen


def test_two_answers_at_once(tmp_path, socket, new_place):
    seen = Counter()
    for seed in range(SEEDS):

        async def scenario(rng):
            policy = scripted(turn(("ask", {"question": "?"})), said)
            async with agents(new_place(), socket, policy=policy) as found:
                run_id = await found.submit("g")
                await found.drive(run_id)
                await at_once(
                    rng,
                    lambda: found.answer(run_id, "w1", "one"),
                    lambda: found.answer(run_id, "w1", "two"),
                    lambda: found.drive(run_id),
                )
                await found.drive(run_id)
                view = await consistent(found, run_id)
                assert (await kinds(found, run_id)).count("message.refused") == 1
                assert (view.state, len(view.actions)) == ("done", 1)
                return view.candidate

        seen[run(seed, scenario)] += 1
    assert set(seen) == {"one", "two"}, seen


def test_approval_against_cancel(tmp_path, socket, new_place):
    from tests.scenarios.agent.test_answers import ASK_FOR_IT

    seen = Counter()
    for seed in range(SEEDS):

        async def scenario(rng):
            policy = scripted(turn(("non_repeatable", {})), said)
            async with agents(new_place(), socket, policy=policy, permissions=ASK_FOR_IT) as found:
                run_id = await found.submit("g")
                await found.drive(run_id)
                await at_once(
                    rng,
                    lambda: taken(found.approve(run_id, "w1")),
                    lambda: taken(found.cancel(run_id)),
                    lambda: found.drive(run_id),
                )
                await found.drive(run_id)
                view = await consistent(found, run_id)
                count = (await effects(socket, view))["a1"]
                action = view.action("a1")
                assert view.state in ("cancelled", "done")
                assert count == (1 if action.state == "done" else 0)
                assert action.state in ("done", "cancelled")
                return action.state

        seen[run(seed, scenario)] += 1
    assert seen["cancelled"] > 0


def test_spawn_against_cancel(tmp_path, socket, new_place):
    def policy(task):
        if task["goal"] == "parent":
            return scripted(turn(("subtask", {"goal": "child"})), said)(task)
        return scripted(turn(("ask", {"question": "?"})), said)(task)

    seen = Counter()
    for seed in range(SEEDS):

        async def scenario(rng):
            async with agents(new_place(), socket, policy=policy, timing=QUICK) as found:
                run_id = await found.submit("parent")
                await at_once(rng, lambda: found.cancel(run_id), lambda: found.drive(run_id))
                await found.drive(run_id)
                view = await consistent(found, run_id)
                assert view.state == "cancelled"
                journal = found.setup.journal
                children = [r for r in await journal.runs() if r.parent_run_id == run_id]
                assert {c.state for c in children} <= {"cancelled"}
                return len(children)

        seen[run(seed, scenario)] += 1
    assert set(seen) <= {0, 1}
    assert sum(seen.values()) == SEEDS


def test_a_late_result_against_cancel(tmp_path, socket, new_place):
    """The execution's end comes after its time is up, around the time the run is cancelled."""
    seen = Counter()
    for seed in range(SEEDS):

        async def scenario(rng):
            door = Door()
            policy = scripted(turn(("gate", {}), ("ask", {"question": "?"})), said)
            tools = [gate(door, cancel=Cancel.NONE, timeout_s=0.03), *all_tools(socket)]
            async with agents(
                new_place(), socket, policy=policy, tools=tools, timing=QUICK
            ) as found:
                run_id = await found.submit("g")
                await found.drive(run_id)
                assert (await found.view(run_id)).action("a1").state == "stopped"

                async def end():
                    door.opened.set()

                await at_once(rng, end, lambda: found.cancel(run_id), lambda: found.drive(run_id))
                await found.drive(run_id)
                view = await consistent(found, run_id)
                # It is stopped: only a person settles it, and the list says so.
                assert (view.state, view.action("a1").state) == ("cancelled", "stopped")
                assert view.action("a1").effects == "unknown"
                assert [u["action"] for u in view.unsettled] == ["a1"]
                return view.state

        seen[run(seed, scenario)] += 1
    assert seen == {"cancelled": SEEDS}


def test_approval_against_expiry_is_decided_by_the_log(tmp_path, socket, new_place):
    from tests.scenarios.agent.test_answers import ASK_FOR_IT, Shifted

    from proctor.agent.permissions import Permissions

    for late in (False, True):

        async def scenario(rng, late=late):
            clock = Shifted()
            permissions = Permissions(ASK_FOR_IT.rules, ask_expires_s=60)
            policy = scripted(turn(("non_repeatable", {})), said)
            async with agents(
                new_place(), socket, policy=policy, permissions=permissions, clock=clock
            ) as found:
                run_id = await found.submit("g")
                await found.drive(run_id)
                if late:
                    clock.move(seconds=61)
                await at_once(
                    rng,
                    lambda: taken(found.approve(run_id, "w1")),
                    lambda: found.drive(run_id),
                )
                await found.drive(run_id)
                view = await consistent(found, run_id)
                assert view.wait("w1").state == ("expired" if late else "arrived")
                assert (await effects(socket, view))["a1"] == (0 if late else 1)

        for seed in range(SEEDS):
            run(seed, scenario)


@pytest.fixture
def new_place(tmp_path):
    """A fresh journal at each call."""
    from tests.scenarios.agent.places import Place

    numbers = iter(range(1000))
    return lambda: Place("sqlite", str(tmp_path / f"{next(numbers)}.sqlite"))
