"""The gate of a provider: capacity, open rate, and turns between launches."""

import asyncio
import threading

import pytest

from proctor.environments.gates import Gate, GateLimits, gate_of


class Time:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def time():
    return Time()


def test_capacity_counts_permits_until_they_are_released(time):
    gate = Gate(GateLimits(capacity=2), time)
    first, second = gate.try_enter("a"), gate.try_enter("a")
    assert gate.try_enter("a") is None
    assert gate.inside == 2
    first.release()
    first.release()  # idempotent
    assert gate.inside == 1
    assert gate.try_enter("a") is not None
    second.release()


def test_capacity_0_is_unlimited(time):
    gate = Gate(GateLimits(), time)
    assert all(gate.try_enter("a") for _ in range(1_000))


def test_who_waits_is_told_once_a_place_is_free(time):
    gate, told = Gate(GateLimits(capacity=1), time), []
    permit = gate.try_enter("a")
    assert gate.when_free("b", lambda: told.append("b")) is None
    permit.release()
    assert told == ["b"]
    gate.try_enter("b").release()
    assert told == ["b"]


def test_a_launch_that_gave_a_place_back_leaves_it_to_those_that_wait(time):
    gate = Gate(GateLimits(capacity=1), time)
    permit = gate.try_enter("a")
    gate.when_free("b", lambda: None)
    permit.release()
    assert gate.try_enter("a") is None
    assert gate.when_free("a", lambda: None) == pytest.approx(0.05)
    other = gate.try_enter("b")
    assert other is not None
    other.release()  # and now B makes way for A, which waits
    assert gate.try_enter("b") is None
    time.now += 0.06
    assert gate.try_enter("a") is not None


def test_a_place_that_nobody_else_takes_is_free_again_soon(time):
    gate = Gate(GateLimits(capacity=1), time)
    permit = gate.try_enter("a")
    gate.when_free("b", lambda: None)
    permit.release()
    time.now += 0.06
    assert gate.try_enter("a") is not None


def test_nobody_makes_way_when_nobody_waits(time):
    gate = Gate(GateLimits(capacity=1), time)
    gate.try_enter("a").release()
    assert gate.try_enter("a") is not None


def test_who_is_forgotten_is_not_told_and_needs_no_way(time):
    gate, told = Gate(GateLimits(capacity=1), time), []
    permit = gate.try_enter("a")
    gate.when_free("b", lambda: told.append("b"))
    gate.forget("b")
    permit.release()
    assert told == []
    assert gate.try_enter("a") is not None


def test_under_an_open_rate_one_try_enters_at_a_time(time):
    gate = Gate(GateLimits(open_qps=2.0), time)
    first = gate.try_enter("a")
    assert gate.try_enter("a") is None  # the first has not opened yet
    assert gate.when_free("a", lambda: None) is None

    async def opens() -> None:
        await gate.open_turn()

    asyncio.run(opens())
    first.opened()
    assert gate.try_enter("a") is None  # too early
    assert gate.when_free("a", lambda: None) == pytest.approx(0.51)
    time.now += 0.52
    assert gate.try_enter("a") is not None


def test_a_try_that_ends_before_its_open_lets_the_next_one_in(time):
    gate = Gate(GateLimits(open_qps=2.0), time)
    gate.try_enter("a").release()
    assert gate.try_enter("a") is not None


def test_opens_are_spaced_by_when_they_happened_not_by_when_they_should_have(time):
    """A late open pushes the next ones back."""
    gate = Gate(GateLimits(open_qps=10.0), time)
    first, second = gate._reserve_turn(), gate._reserve_turn()
    time.now += 0.09  # the first one's timer is late
    assert gate._take_turn(first) == 0.0
    time.now += 0.02
    assert gate._take_turn(second) == pytest.approx(0.102 - 0.02)


def test_the_newest_setting_of_each_limit_holds(time):
    gate = Gate(GateLimits(capacity=2), time)
    permits = [gate.try_enter("a"), gate.try_enter("a")]
    gate.configure(open_qps=5.0)
    assert gate.limits == GateLimits(2, 5.0)
    gate.configure(capacity=1, open_qps=0.0)
    assert gate.limits == GateLimits(1, 0.0)
    permits[0].release()
    assert gate.try_enter("a") is None  # one is still inside
    permits[1].release()
    assert gate.try_enter("a") is not None


def test_raising_a_limit_tells_those_that_wait(time):
    gate, told = Gate(GateLimits(capacity=1), time), []
    gate.try_enter("a")
    gate.when_free("b", lambda: told.append("b"))
    gate.configure(capacity=2)
    assert told == ["b"]
    assert gate.try_enter("b") is not None


def test_docker_has_a_capacity_where_nobody_sets_one_and_local_has_none():
    assert gate_of("docker").limits == GateLimits(capacity=16)
    assert gate_of("local").limits == GateLimits()
    assert gate_of("docker") is gate_of("docker")


def test_permits_of_many_threads_never_exceed_the_capacity():
    gate = Gate(GateLimits(capacity=3))
    peak, lock = [], threading.Lock()
    start = threading.Barrier(8)

    def work(name: int) -> None:
        start.wait()
        taken = 0
        while taken < 200:
            permit = gate.try_enter(name)
            if permit is None:
                continue
            taken += 1
            with lock:
                peak.append(gate.inside)
            permit.release()

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert max(peak) <= 3
    assert gate.inside == 0
