"""A journal whose write-ahead log was cut or damaged at any byte opens, and is a true beginning.

The two files are copied while the journal is at work, as a loss of power leaves them: the file as
of the last checkpoint, the log up to some byte. What is then read must be the first events of each
run, with the rows that belong to exactly them, and work must go on from there.
"""

import asyncio
import random
import shutil
import sqlite3

import pytest

from proctor.store.journal.contract import Access, Durability, RunFilter
from proctor.store.journal.sqlite import open_sqlite
from proctor.testing.conformance.journal_base import action, event, message, owned, put, state_of

RUNS = ("one", "two", "three")
STEPS = 14
PAGE = 4096


async def work(journal) -> None:
    """Three runs in turns; the state of run and action is a function of the version."""
    leases = [await owned(journal, name) for name in RUNS]
    for step in range(STEPS):
        for lease in leases:
            state = "running" if step % 2 else "waiting"
            rows = [state_of("x", state)] if step else [action("x", state, lease.run_id)]
            durability = Durability.BARRIER if step % 3 == 0 else Durability.LAZY
            names = [event(f"{step}", {"pad": "x" * 300 * (step % 4)})]
            sent = [message("one", f"{lease.run_id}-{step}")] if step == 5 else []
            await put(
                journal, lease, step, *names, rows=rows, durability=durability, deliveries=sent
            )


@pytest.fixture(scope="module")
def at_work(tmp_path_factory):
    """(file, log) of a journal at work whose log was never folded into the file."""
    folder = tmp_path_factory.mktemp("at-work")
    path = folder / "journal.sqlite"

    async def case():
        async with open_sqlite(path) as journal:
            await work(journal)
            return path.read_bytes(), path.with_name("journal.sqlite-wal").read_bytes()

    file, log = asyncio.run(case())
    assert len(log) > 200_000
    return file, log


async def check(journal) -> int:
    """The journal is consistent; the number of its events."""
    total = 0
    runs = {run.run_id: run for run in await journal.runs(RunFilter())}
    assert list(runs) == list(RUNS)[: len(runs)]
    for name, run in runs.items():
        events = await journal.read_events(name)
        total += len(events)
        assert [e.event_id for e in events] == [f"{n}" for n in range(len(events))]
        assert run.version == len(events)
        rows = await journal.read_rows("action", name)
        states = [row.values["state"] for row in rows]
        last = len(events) - 1
        assert states == ([] if last < 0 else ["running" if last % 2 else "waiting"])
        sent = {m.message_id for m in await journal.inbox_pending("one")}
        assert (f"{name}-5" in sent) == (len(events) > 5)
    return total


async def go_on(journal) -> None:
    """Another owner takes what is there and appends."""
    for run in await journal.runs():
        lease = await journal.claim(run.run_id, "two", 60, dead_owner="one")
        assert lease.fence == run.fence + 1
        assert await put(journal, lease, run.version, event(f"{run.version}")) == run.version + 1


def opened(place, file: bytes, log: bytes) -> int:
    """Put the files there and see what a fresh opening finds."""
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()
    path = place / "journal.sqlite"
    path.write_bytes(file)
    path.with_name("journal.sqlite-wal").write_bytes(log)

    async def case() -> int:
        async with open_sqlite(path) as journal:
            found = await check(journal)
            await go_on(journal)
        return found

    found = asyncio.run(case())
    with sqlite3.connect(path) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    connection.close()
    return found


def edges(log: bytes) -> list[int]:
    """Ends of the log's frames, and the bytes around them and in the middle of headers."""
    ends = range(32, len(log) + 1, 24 + PAGE)
    return sorted({n for end in ends for n in (end - 1, end, end + 1, end + 12) if n <= len(log)})


def go_through(lengths, at_work, tmp_path) -> list[int]:
    file, log = at_work
    found = []
    for length in sorted(lengths):
        found.append(opened(tmp_path / "cut", file, log[:length]))
        assert found == sorted(found), "a longer log holds less"
    return found


def test_a_log_that_is_cut_at_some_byte_opens(at_work, tmp_path):
    log = at_work[1]
    sample = random.Random(7).sample(edges(log), 60) + random.Random(8).sample(range(len(log)), 40)
    found = go_through({*sample, 0, len(log)}, at_work, tmp_path)
    assert found[0] == 0
    assert found[-1] == STEPS * len(RUNS)
    assert len(set(found)) > 20


@pytest.mark.full
@pytest.mark.slow
def test_a_log_that_is_cut_anywhere_opens(at_work, tmp_path):
    log = at_work[1]
    lengths = {*edges(log), *random.Random(9).sample(range(len(log)), 800)}
    found = go_through(lengths, at_work, tmp_path)
    assert set(found) == set(range(STEPS * len(RUNS) + 1))


def test_a_log_with_a_damaged_byte_opens_before_the_damage(at_work, tmp_path):
    file, log = at_work
    chance = random.Random(11)
    for place in chance.sample(range(32, len(log)), 25):
        damaged = bytearray(log)
        damaged[place] ^= 1 << chance.randrange(8)
        before = opened(tmp_path / "cut", file, log[: place - (place - 32) % (24 + PAGE)])
        assert opened(tmp_path / "damaged", file, bytes(damaged)) == before


def test_the_copy_is_read_without_an_owner_too(at_work, tmp_path):
    path = tmp_path / "journal.sqlite"
    path.write_bytes(at_work[0])
    path.with_name("journal.sqlite-wal").write_bytes(at_work[1][: len(at_work[1]) // 2])

    async def case():
        async with open_sqlite(path, access=Access.READ) as journal:
            return await check(journal)

    assert 0 < asyncio.run(case()) < STEPS * len(RUNS)
