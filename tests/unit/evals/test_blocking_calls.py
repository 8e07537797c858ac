"""Bounded calls of plug-in code, and the threads of code that blocks."""

import asyncio
import threading

import pytest

from proctor.evals.attempt import calls as calls_module
from proctor.evals.attempt.calls import Calls, DeadlineReached, StrayCancellation, ended
from proctor.evals.threads import TrackedThreads
from proctor.kernel.errors import RuntimeFault


@pytest.fixture
def calls():
    return Calls(TrackedThreads())


async def forever():
    await asyncio.Event().wait()


async def right(value):
    await asyncio.sleep(0)
    return value


def test_plain_functions_run_in_threads_and_coroutines_in_the_loop(calls):
    here = threading.get_ident()

    async def coroutine():
        return threading.get_ident()

    def returns_coroutine():
        return coroutine()

    async def main():
        in_thread = await calls.plugin("x", threading.get_ident, limit_s=10)
        in_loop = await calls.plugin("x", coroutine, limit_s=10)
        after = await calls.plugin("x", returns_coroutine, limit_s=None)
        return in_thread, in_loop, after

    in_thread, in_loop, after = asyncio.run(main())
    assert in_thread != here
    assert in_loop == after == here


@pytest.mark.parametrize("limit_s", [None, 10])
def test_results_and_exceptions_come_through(calls, limit_s):
    async def main():
        assert await calls.bounded("x", right(3), limit_s) == 3
        with pytest.raises(ZeroDivisionError):
            await calls.plugin("x", lambda: 1 / 0, limit_s=limit_s)
        with pytest.raises(RuntimeError, match="StopIteration"):
            await calls.plugin("x", lambda: next(iter(())), limit_s=limit_s)

    asyncio.run(main())


def test_a_limit_is_not_a_timeout_of_the_called_code(calls):
    async def times_out():
        raise TimeoutError("mine")

    async def main():
        with pytest.raises(DeadlineReached, match=r"the call reached its limit of 0\.01 s"):
            await calls.bounded("the call", forever(), 0.01)
        with pytest.raises(TimeoutError, match="mine"):
            await calls.bounded("the call", times_out(), 10)

    asyncio.run(main())


@pytest.mark.parametrize("limit_s", [None, 10])
def test_a_cancellation_that_nobody_asked_for_is_an_error(calls, limit_s):
    async def cancels_itself():
        asyncio.current_task().cancel()
        await asyncio.sleep(0)

    async def awaits_something_cancelled():
        future = asyncio.get_running_loop().create_future()
        future.cancel()
        await future

    def in_a_thread():
        raise asyncio.CancelledError

    async def main():
        for wrong in (cancels_itself(), awaits_something_cancelled()):
            with pytest.raises(StrayCancellation):
                await calls.bounded("the agent", wrong, limit_s)
        with pytest.raises(StrayCancellation):
            await calls.plugin("the agent", in_a_thread, limit_s=limit_s)
        assert asyncio.current_task().cancelling() == 0

    asyncio.run(main())


@pytest.mark.parametrize("limit_s", [None, 60])
def test_our_own_cancellation_reaches_the_code_and_propagates(calls, limit_s):
    unwound = []

    async def unwinds():
        try:
            await forever()
        finally:
            unwound.append(True)

    async def main():
        task = asyncio.ensure_future(calls.bounded("x", unwinds(), limit_s))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert unwound == [True]


@pytest.mark.parametrize("by", ["limit", "stop"])
def test_code_that_ignores_its_cancellation_is_left_behind(calls, monkeypatch, by):
    monkeypatch.setattr(calls_module, "CANCEL_GRACE_S", 0.05)
    release = asyncio.Event()

    async def ignores():
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                continue
        raise ValueError("late, and nobody listens")

    async def main():
        if by == "limit":
            with pytest.raises(DeadlineReached):
                await calls.bounded("x", ignores(), 0.01)
        else:
            task = asyncio.ensure_future(calls.bounded("x", ignores(), None))
            await asyncio.sleep(0.01)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        assert len(calls._left_behind) == 1
        release.set()
        for _ in range(5):
            await asyncio.sleep(0)
        assert calls._left_behind == set()

    asyncio.run(main())


def test_waiting_for_the_end_of_a_task():
    async def main():
        done = asyncio.ensure_future(right(1))
        assert await ended(done, None)
        assert await ended(done, 0)
        pending = asyncio.ensure_future(forever())
        assert not await ended(pending, 0.01)
        pending.cancel()
        assert await ended(pending, 10)

    asyncio.run(main())


# --- threads


def test_an_abandoned_thread_is_counted_and_its_late_result_ignored():
    release = threading.Event()

    async def main():
        threads = TrackedThreads()
        task = asyncio.ensure_future(threads.call("slow", release.wait, 60))
        await asyncio.sleep(0)  # it starts
        (call,) = threads.working
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert (threads.abandoned, threads.working) == (1, frozenset())
        release.set()
        await threads.settled([call], 30)
        assert call.ended.done()
        assert threads.abandoned == 0

    asyncio.run(main())


def test_too_many_abandoned_threads_refuse_more():
    release = threading.Event()

    async def main():
        threads = TrackedThreads(max_abandoned=2)
        calls = Calls(threads)
        for _ in range(2):
            with pytest.raises(DeadlineReached):
                await calls.plugin("slow", lambda: release.wait(60), limit_s=0.01)
        with pytest.raises(RuntimeFault, match="2 blocking calls are stuck") as caught:
            await threads.call("one more", release.wait, 60)
        assert caught.value.fault_code == "too_many_abandoned_threads"
        assert caught.value.permanent
        stuck = list(threads._abandoned)
        release.set()
        await threads.settled(stuck, 30)
        assert await threads.call("again", int, "3") == 3

    asyncio.run(main())


def test_waiting_for_threads_is_bounded():
    release = threading.Event()

    async def main():
        threads = TrackedThreads()
        task = asyncio.ensure_future(threads.call("slow", release.wait, 60))
        await asyncio.sleep(0)  # it starts
        working = threads.working
        await threads.settled(working, 0.01)
        await threads.settled(working, -1)
        assert not task.done()
        release.set()
        assert await task is True
        await threads.settled(working, 0)

    asyncio.run(main())


def test_a_thread_that_outlives_its_loop_harms_nobody():
    release, ended_ = threading.Event(), threading.Event()

    def slow():
        release.wait(60)
        ended_.set()

    async def main():
        calls = Calls(TrackedThreads())
        with pytest.raises(DeadlineReached):
            await calls.plugin("slow", slow, limit_s=0.01)

    asyncio.run(main())
    release.set()
    assert ended_.wait(30)
    for thread in threading.enumerate():
        if thread.name.startswith("proctor-slow"):
            thread.join(30)
            assert thread.daemon
