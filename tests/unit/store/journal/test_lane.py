"""The thread between callers and a connection."""

import asyncio
import threading

import pytest

from proctor.kernel.errors import StorageError
from proctor.store.journal.errors import JournalClosed
from proctor.store.journal.jobs import Call
from proctor.store.journal.lane import GROUP, Lane
from proctor.store.journal.sqlite import open_sqlite
from proctor.testing.conformance.journal_base import contents, event, owned, put


@pytest.fixture
def lane():
    """A lane that answers with the size of the group, after the gate is opened."""
    gate = threading.Event()

    def work(jobs):
        gate.wait(10)
        for job in jobs:
            job.answer = len(jobs)

    made = Lane("test", lambda: work, lambda: None)
    made.gate = gate
    made.start()
    yield made
    gate.set()
    made.end()
    made.join()


def job() -> Call:
    return Call("test", lambda session: None)


def test_what_waits_meanwhile_is_one_group_up_to_a_limit(lane):
    async def case():
        first = asyncio.ensure_future(lane.do(job()))
        rest = [asyncio.ensure_future(lane.do(job())) for _ in range(GROUP + 9)]
        await asyncio.sleep(0)
        lane.gate.set()
        sizes = [await task for task in [first, *rest]]
        assert max(sizes) == GROUP
        assert len(set(sizes)) >= 2

    asyncio.run(case())


def test_a_lane_that_cannot_open_says_why():
    def fail():
        raise StorageError("no disk")

    with pytest.raises(StorageError, match="no disk"):
        Lane("test", fail, lambda: None).start()


def test_a_fault_of_the_work_is_told_to_everybody_and_does_not_end_the_lane():
    failures = [ValueError("a bug")]

    def work(jobs):
        if failures:
            raise failures.pop()
        for found in jobs:
            found.answer = "done"

    lane = Lane("test", lambda: work, lambda: None)
    lane.start()

    async def case():
        with pytest.raises(StorageError, match="ValueError: a bug"):
            await lane.do(job())
        assert await lane.do(job()) == "done"

    asyncio.run(case())
    lane.end()
    lane.join()


def test_a_loop_that_is_gone_disturbs_nobody(lane):
    loop = asyncio.new_event_loop()

    async def hand_in():
        task = loop.create_task(lane.do(job()))
        await asyncio.sleep(0)
        task.cancel()

    loop.run_until_complete(hand_in())
    loop.run_until_complete(asyncio.sleep(0))
    loop.close()
    lane.gate.set()
    assert asyncio.run(_do(lane))  # whether the two were one group or not


async def _do(lane):
    return await lane.do(job())


def test_after_its_end_a_lane_takes_nothing(lane):
    lane.gate.set()
    lane.end()
    with pytest.raises(JournalClosed):
        asyncio.run(_do(lane))


def test_one_journal_serves_several_loops(tmp_path):
    journal = open_sqlite(tmp_path / "journal.sqlite")
    found = {}

    def worker(name):
        async def case():
            lease = await owned(journal, name)
            for version in range(20):
                await put(journal, lease, version, event(f"{version}"))
            found[name] = await contents(journal, name)

        asyncio.run(case())

    threads = [threading.Thread(target=worker, args=(f"r{n}",)) for n in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    journal.close_now()
    assert found == {f"r{n}": [(i + 1, f"{i}") for i in range(20)] for n in range(3)}
