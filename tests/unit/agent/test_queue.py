"""A queue behind somebody who needs everything."""

from proctor.agent.core.locks import EVERYTHING, Access, Mode, startable, startable_in_turn

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
