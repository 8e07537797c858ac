"""A queue behind somebody who needs everything."""

import random

from proctor.agent.core.locks import (
    EVERYTHING,
    Access,
    LockTable,
    Mode,
    startable,
    startable_in_turn,
)

FILE = (Access(Mode.WRITE, "ws/a"),)


def test_only_who_needs_nothing_gets_past_somebody_who_needs_everything():
    queue = [FILE, EVERYTHING, FILE, (), (Access(Mode.READ, ""),), ()]
    assert startable([], queue) == (0, 3, 5)
    assert startable([EVERYTHING], queue) == (3, 5)


class Counted(tuple):
    """Accesses that count how often they are looked at."""

    looks = 0

    def __iter__(self):
        Counted.looks += 1
        return super().__iter__()


def test_a_queue_of_those_who_need_everything_costs_no_look_at_each():
    queue = [Counted(EVERYTHING) for _ in range(1_000)]
    assert list(startable_in_turn([], queue)) == [0]
    assert Counted.looks < 10


def test_those_who_wait_for_the_same_are_looked_at_once(monkeypatch):
    """A turn of a thousand calls on one file asks once for each of them."""
    asked = []
    fits = LockTable.fits
    monkeypatch.setattr(
        LockTable, "fits", lambda table, accesses: asked.append(1) or fits(table, accesses)
    )
    other = (Access(Mode.WRITE, "ws/b"),)
    queue = [FILE] * 1_000 + [other] + [(Access(Mode.READ, "ws/a"),)] * 1_000 + [other]
    assert startable([], queue) == (0, 1_000)
    assert startable([FILE], queue) == (1_000,)
    assert len(asked) < 20


def test_the_short_way_gives_what_the_long_way_gives():
    rng = random.Random(7)
    paths = ["", "ws", "ws/a", "ws/a/b", "net"]
    for _ in range(300):
        queue = [
            tuple(
                Access(rng.choice(list(Mode)), rng.choice(paths)) for _ in range(rng.randrange(3))
            )
            for _ in range(12)
        ]
        held = queue[: rng.randrange(2)]
        table, expected = LockTable(), []
        for number, accesses in enumerate(held):
            table.hold(("held", number), accesses)
        for place, accesses in enumerate(queue):
            expected += [place] * table.fits(accesses)
            table.hold(place, accesses)
        assert startable(held, queue) == tuple(expected)
