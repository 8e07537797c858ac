"""The worker pool: order, back-off, failures, stops."""

import asyncio

import pytest

from proctor.evals.contracts import TaskSpec
from proctor.evals.pool import Pool
from proctor.evals.stopping import Stop
from proctor.evals.tasks import TaskState
from proctor.testing.clock import FakeClock


def states(count: int) -> list[TaskState]:
    return [TaskState(TaskSpec(f"t{n}", "q")) for n in range(1, count + 1)]


def test_tasks_are_taken_in_order_by_so_many_workers():
    order, running, most = [], 0, 0

    async def execute(task):
        nonlocal running, most
        order.append(task.spec.id)
        running += 1
        most = max(most, running)
        await asyncio.sleep(0)
        running -= 1

    asyncio.run(Pool(3, execute, FakeClock()).run(states(10)))
    assert order == [f"t{n}" for n in range(1, 11)]
    assert most == 3


def test_nothing_to_do_is_done():
    async def execute(task):
        raise AssertionError("nothing is there")

    asyncio.run(Pool(3, execute, FakeClock()).run([]))


def test_a_due_task_comes_before_new_ones_and_holds_no_worker_meanwhile():
    clock, order = FakeClock(), []

    async def execute(task):
        order.append(task.spec.id)
        if order.count("t1") == 1 and task.spec.id == "t1":
            return 5.0
        if task.spec.id == "t2":
            await clock.asleep(1)
            clock.advance(5)  # t1 becomes due while t2 has the only worker
            for _ in range(5):
                await asyncio.sleep(0)
        return None

    asyncio.run(Pool(1, execute, clock).run(states(4)))
    assert order == ["t1", "t2", "t1", "t3", "t4"]
    assert clock.slept == [5.0]


def test_workers_wait_for_a_task_in_back_off():
    clock = FakeClock(jump_at=1)
    tries = []

    async def execute(task):
        tries.append(clock.monotonic())
        return 7.0 if len(tries) < 3 else None

    asyncio.run(Pool(8, execute, clock).run(states(1)))
    assert tries == [0.0, 7.0, 14.0]


def test_what_a_worker_raises_stops_the_others_and_propagates():
    stopped = []

    async def execute(task):
        if task.spec.id == "t2":
            raise ZeroDivisionError
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            stopped.append(task.spec.id)
            raise

    with pytest.raises(ZeroDivisionError):
        asyncio.run(Pool(3, execute, FakeClock()).run(states(3)))
    assert sorted(stopped) == ["t1", "t3"]


def test_a_stopped_pool_leaves_no_timer():
    async def execute(task):
        return 1000.0

    async def main():
        clock = FakeClock()
        pool = Pool(2, execute, clock)
        running = asyncio.ensure_future(pool.run(states(2)))
        await clock.asleep(2)
        assert pool.waiting == 2
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(main())


def test_a_stop_reaches_every_loop_that_waits():
    async def main():
        stop = Stop()
        waiting = [asyncio.ensure_future(stop.wait()) for _ in range(3)]
        await asyncio.sleep(0)
        assert not stop.requested
        stop.request(15)
        stop.request(2)  # the first one counts
        await asyncio.gather(*waiting)
        await stop.wait()
        assert (stop.requested, stop.signal) == (True, 15)

    asyncio.run(main())


def test_a_stop_from_another_thread_is_heard():
    async def main():
        stop = Stop()
        waiting = asyncio.ensure_future(stop.wait())
        await asyncio.sleep(0)
        await asyncio.to_thread(stop.request)
        await waiting

    asyncio.run(main())
