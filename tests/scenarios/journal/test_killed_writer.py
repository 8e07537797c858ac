"""A writer killed by SIGKILL at a named point: nothing acknowledged is lost, work goes on at once.

The points are found by a run that is left alone; each is then hit in a process of its own. By
default a seeded sample of them for each database, with --full all.
"""

import asyncio
import json
import os
import random
import secrets
import subprocess
import sys
from pathlib import Path

import pytest
from tests.scenarios.journal.killed_writer import BLOB, open_it

from proctor.store.journal.contract import Appended
from proctor.store.leases import is_dead
from proctor.testing.conformance.journal_base import event, put

ROOT = Path(__file__).resolve().parents[3]
SAMPLE = 7


def started(given):
    """The lines that the writer got out, and its exit code."""
    command = [sys.executable, "-m", "tests.scenarios.journal.killed_writer", json.dumps(given)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    assert not done.stderr, done.stderr
    return [line.split(" ", 2) for line in done.stdout.splitlines()], done.returncode


async def check(journal, lines) -> None:
    """All that was acknowledged is there, and what is there is a whole beginning."""
    logs = {}
    for name in ("parent", "child"):
        row = await journal.run_row(name)
        logs[name] = await journal.read_events(name) if row else []
        assert [e.event_id for e in logs[name]] == [f"{n}" for n in range(len(logs[name]))]
        assert row is None or row.version == len(logs[name])
    rows = await journal.read_rows("action", "child")
    last = min(len(logs["child"]) - 1, 5)
    states = [] if last < 1 else ["running" if last % 2 else "waiting"]
    assert [row.values["state"] for row in rows] == states
    pending = {m.message_id for m in await journal.inbox_pending("parent")}
    assert {f"from-child-{n}" for n in range(1, last + 1)} <= pending
    for kind, *facts in lines:
        if kind == "event":
            assert len(logs[facts[0]]) >= int(facts[1])
        elif kind == "fence":
            row = await journal.run_row(facts[0])
            assert row.fence == int(facts[1])
        elif kind == "message":
            assert facts[0] in pending
        elif kind == "snapshot":
            snapshot = await journal.load_snapshot("child")
            assert snapshot.seq >= int(facts[0])
        elif kind == "blob":
            assert await journal.get_blob(facts[0]) == BLOB
        elif kind == "released":
            assert (await journal.run_row(facts[0])).owner is None


async def go_on(journal) -> None:
    """A new owner takes the run although its lease is not over, and repeats the last append."""
    row = await journal.run_row("child")
    if row is None or not row.version:
        return
    dead = row.owner if row.owner is not None and is_dead(row.owner) else None
    assert (row.owner is None) == (dead is None), "the killed owner is not known to be dead"
    lease = await journal.claim("child", "successor", 60, dead_owner=dead)
    assert lease.fence == row.fence + 1
    last = event(f"{row.version - 1}")
    assert await journal.append("child", row.version - 1, row.fence, [last]) == Appended(
        row.version
    )
    stale = await journal.append("child", row.version, row.fence, [event("stale")])
    assert stale.fence == lease.fence
    await put(journal, lease, row.version, event("next"))


def inspected(given, lines) -> None:
    async def case() -> None:
        async with open_it(given) as journal:
            await check(journal, lines)
            await go_on(journal)

    asyncio.run(case())


def kill_at_points(places, chance, count) -> None:
    """`places()` gives an empty journal; every point is hit once in the first, middle or last."""
    given = places()
    lines, code = started(given)
    assert code == 0
    points = json.loads(lines.pop()[1] if len(lines[-1]) == 2 else " ".join(lines.pop()[1:]))
    inspected(given, lines)
    assert len(points) >= 18, points
    chosen = sorted(points) if count is None else chance.sample(sorted(points), count)
    for name in chosen:
        given = places()
        lines, code = started({**given, "at": name, "hit": chance.randint(1, points[name])})
        assert code == -9, name
        inspected(given, lines)


@pytest.fixture
def files(tmp_path):
    """A new path each time."""
    names = iter(range(1000))
    return lambda: {"where": str(tmp_path / f"{next(names)}.sqlite")}


@pytest.fixture
def schemas(postgresql_url):
    """A new schema each time; all are removed."""
    import psycopg

    made = []

    def new():
        made.append(f"test_{secrets.token_hex(8)}")
        return {"where": postgresql_url, "schema": made[-1]}

    yield new
    with psycopg.connect(postgresql_url, autocommit=True) as connection:
        for name in made:
            connection.execute(f"DROP SCHEMA IF EXISTS {name} CASCADE")


@pytest.mark.slow
def test_sqlite_loses_nothing(files):
    kill_at_points(files, random.Random(1), SAMPLE)


@pytest.mark.slow
def test_postgresql_loses_nothing(schemas):
    kill_at_points(schemas, random.Random(2), SAMPLE)


@pytest.mark.full
@pytest.mark.slow
@pytest.mark.parametrize("seed", [3, 4])
def test_sqlite_loses_nothing_at_any_point(files, seed):
    kill_at_points(files, random.Random(seed), None)


@pytest.mark.full
@pytest.mark.slow
@pytest.mark.parametrize("seed", [5, 6])
def test_postgresql_loses_nothing_at_any_point(schemas, seed):
    kill_at_points(schemas, random.Random(seed), None)
