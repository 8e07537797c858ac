"""The threads that write evidence."""

import asyncio
import threading

import pytest

from proctor.evals.results import hands as module
from proctor.evals.results.hands import MOST_THREADS, TOGETHER, Hands
from proctor.kernel.errors import StorageError

PATIENCE_S = 60.0


def test_jobs_of_one_turn_share_a_thread_and_keep_their_order():
    done = []

    async def main():
        hands = Hands("test")
        jobs = [hands.run(lambda n=n: done.append((n, threading.get_ident()))) for n in range(100)]
        await asyncio.gather(*jobs)
        assert hands.threads == 1
        hands.close()
        assert hands.threads == 0

    asyncio.run(main())
    assert [n for n, _ in done] == list(range(100))
    assert len({ident for _, ident in done}) == 1


def test_the_loop_hears_of_few_jobs_a_turn():
    """However many jobs have ended meanwhile, one turn of the loop hands on at most `TOGETHER`."""
    last = threading.Event()
    turns = []

    async def main():
        hands = Hands("test")
        jobs = [hands.run(int) for _ in range(100)] + [hands.run(last.set)]
        await asyncio.sleep(0)  # they are handed over
        assert last.wait(PATIENCE_S)  # all have ended while the loop was held up
        while not all(job.done() for job in jobs):
            before = sum(job.done() for job in jobs)
            await asyncio.sleep(0)
            turns.append(sum(job.done() for job in jobs) - before)
        hands.close()

    asyncio.run(main())
    assert sum(turns) == 101
    assert max(turns) <= TOGETHER


def test_what_is_told_after_a_pause_is_heard_of():
    async def main():
        hands = Hands("test")
        for _ in range(3):
            await asyncio.wait_for(hands.run(int), PATIENCE_S)
        hands.close()

    asyncio.run(main())


def test_values_and_errors_reach_whoever_asked():
    async def main():
        hands = Hands("test")
        value, error = hands.run(int, "7"), hands.run(int, "seven")
        assert await value == 7
        with pytest.raises(ValueError, match="seven"):
            await error
        hands.close()

    asyncio.run(main())


def test_a_slow_disk_gets_more_threads_which_go_when_it_is_done(monkeypatch):
    """Every job waits until all threads that may be are at work: with fewer it would hang."""
    monkeypatch.setattr(module, "LATE_S", 0.0)
    meeting = threading.Barrier(MOST_THREADS, timeout=PATIENCE_S)

    async def main():
        hands = Hands("test")
        jobs = []
        for _ in range(MOST_THREADS):
            jobs.append(hands.run(meeting.wait))
            await asyncio.sleep(0)  # each in a turn of its own, or they share a thread
        await asyncio.sleep(0)
        for _ in range(MOST_THREADS):  # more work: a late batch adds a thread
            jobs.append(hands.run(int))
            await asyncio.sleep(0)
        await asyncio.wait_for(asyncio.gather(*jobs), PATIENCE_S)
        hands.close()
        assert hands.threads == 0

    asyncio.run(main())


def test_one_thread_is_enough_while_nothing_is_late(monkeypatch):
    monkeypatch.setattr(module, "LATE_S", 3600.0)
    go = threading.Event()

    async def main():
        hands = Hands("test")
        first = hands.run(go.wait, PATIENCE_S)
        await asyncio.sleep(0)
        rest = []
        for _ in range(20):
            rest.append(hands.run(int))
            await asyncio.sleep(0)
        assert hands.threads == 1
        go.set()
        assert await first
        await asyncio.gather(*rest)
        assert hands.threads == 1
        hands.close()

    asyncio.run(main())


def test_close_waits_for_what_was_handed_over_and_refuses_what_comes_later():
    go, done = threading.Event(), []

    async def main():
        hands = Hands("test")
        hands.run(lambda: (go.wait(PATIENCE_S), done.append(1)))
        await asyncio.sleep(0)
        closing = asyncio.create_task(asyncio.to_thread(hands.close))
        go.set()
        await closing
        assert done == [1]
        with pytest.raises(asyncio.CancelledError):
            await hands.run(int)
        hands.close()

    asyncio.run(main())


def test_where_no_thread_can_start_whoever_asked_is_told(monkeypatch):
    def refuse(thread):
        raise RuntimeError("can't start new thread")

    async def main():
        hands = Hands("test")
        monkeypatch.setattr(threading.Thread, "start", refuse)
        with pytest.raises(StorageError, match="cannot start a thread"):
            await asyncio.wait_for(hands.run(int), PATIENCE_S)
        monkeypatch.undo()
        assert await hands.run(int) == 0  # the next one may
        hands.close()

    asyncio.run(main())


def test_nobody_is_told_when_the_loop_is_gone():
    """The job still runs to its end: what was handed over is written."""
    go, done = threading.Event(), threading.Event()
    hands = Hands("test")

    async def main():
        hands.run(lambda: (go.wait(PATIENCE_S), done.set()))
        await asyncio.sleep(0)

    asyncio.run(main())
    go.set()
    assert done.wait(PATIENCE_S)
    hands.close()


def test_a_driver_that_never_closes_can_still_exit():
    async def main():
        hands = Hands("test")
        await hands.run(int)
        return [t for t in threading.enumerate() if t.name == "test"]

    threads = asyncio.run(main())
    assert threads
    assert all(thread.daemon for thread in threads)
