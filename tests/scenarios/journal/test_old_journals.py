"""Journals of every former version of the tables open, are read whole, and go on."""

import asyncio
import hashlib
import sqlite3
from decimal import Decimal
from pathlib import Path

import pytest
from tests.scenarios.journal.old_journals import BLOB, BODY

from proctor.store.journal.contract import RunFilter
from proctor.store.journal.sqlite import open_sqlite
from proctor.store.schema.journal_columns import SCHEMA_VERSION
from proctor.testing.clock import FakeClock
from proctor.testing.conformance.journal_base import NOW, contents, event, put

DIGEST = "sha256:" + hashlib.sha256(BLOB).hexdigest()
FOLDER = Path(__file__).resolve().parents[2] / "data" / "journals"


def test_there_is_a_journal_of_every_version():
    assert {p.stem for p in FOLDER.glob("*.sql")} == {f"v{n + 1}" for n in range(SCHEMA_VERSION)}


@pytest.mark.parametrize("name", sorted(p.stem for p in FOLDER.glob("*.sql")))
def test_an_old_journal_is_read_and_continued(name, tmp_path):
    path = tmp_path / "journal.sqlite"
    connection = sqlite3.connect(path)
    connection.executescript((FOLDER / f"{name}.sql").read_text("utf-8"))
    connection.close()
    clock = FakeClock()

    async def case():
        async with open_sqlite(path, clock=clock) as journal:
            assert [(e.event_id, e.kind, e.at) for e in await journal.read_events("r")] == [
                ("e1", "run.created", NOW), ("e2", "noted", NOW),
                ("e3", "noted", NOW), ("e4", "noted", NOW),
            ]  # fmt: skip
            assert (await journal.read_events("r"))[1].body == BODY
            (child,) = await journal.runs(RunFilter(parent_run_id="r"))
            assert (child.run_id, child.parent_action_id) == ("child", "x")
            (message,) = await journal.inbox_pending("child")
            assert (message.kind, message.body, message.at) == ("cancel", BODY, NOW)
            (task,) = await journal.read_rows("task", "r")
            assert task.values["scope"] == BODY
            (row,) = await journal.read_rows("action", "r")
            assert row.values["state"] == "unknown"
            (entry,) = await journal.read_rows("budget_entry", "r")
            assert entry.values["reserved"] == Decimal("0.30")
            for table in ("attempt", "wait", "workspace", "process"):
                assert len(await journal.read_rows(table, "r")) == 1
            assert (await journal.load_snapshot("r")).body == BODY
            assert await journal.get_blob(DIGEST) == BLOB
            await go_on(journal)

    async def go_on(journal):
        assert await journal.claim("r", "other", 60) is None
        clock.advance(61)
        lease = await journal.claim("r", "other", 60)
        assert lease.fence == 2
        await put(journal, lease, 4, event("e5"))
        assert len(await contents(journal)) == 5

    asyncio.run(case())
