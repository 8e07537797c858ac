"""Journals as former versions left them: python -m tests.scenarios.journal.old_journals FILE

Writes a journal with one of everything as SQL text, for `tests/data/journals/vN.sql`. Done once for
each version of the tables, before the next one; the files are never changed afterwards.
"""

import asyncio
import sqlite3
import sys
import tempfile
from decimal import Decimal
from pathlib import Path

from proctor.store.journal.contract import Message, NewRun, Row, Snapshot
from proctor.store.journal.sqlite import open_sqlite
from proctor.testing.clock import FakeClock
from proctor.testing.conformance.journal_base import NOW, action, event, put, state_of

BODY = {"text": "naïve \0 \U0001f600", "numbers": [1, 2.5, 10**20], "none": None}
BLOB = bytes(range(256)) * 4


async def write(journal) -> None:
    """One of everything."""
    task = Row("task", {"task_id": "t"}, {"goal": "win", "scope": BODY, "created_at": NOW})
    first = [event("e1", BODY, "run.created")]
    await journal.create_run(NewRun("r", NOW, task_id="t", body=BODY), first, [task])
    await journal.create_run(NewRun("child", NOW, parent_run_id="r", parent_action_id="x"))
    lease = await journal.claim("r", "owner", 60)
    rows = [
        action("x", "running"),
        Row("attempt", {"action_id": "x", "number": 1}, {"fence": 1, "state": "running",
            "started_seq": 2, "started_at": NOW}),
        Row("wait", {"wait_id": "w"}, {"kind": "timer", "state": "open", "due_at": NOW}),
        Row("budget_entry", {"source_id": "x", "kind": "usd"}, {"state": "reserved",
            "reserved": Decimal("0.30")}),
        Row("workspace", {"workspace_id": "ws"}, {"kind": "local", "state": "open"}),
        Row("process", {"process_id": "p"}, {"host": "h", "pid": 7, "state": "alive"}),
    ]  # fmt: skip
    sent = [Message("child", "m", "cancel", BODY, NOW)]
    await put(journal, lease, 1, event("e2", BODY), event("e3"), rows=rows, deliveries=sent)
    await put(journal, lease, 3, event("e4"), rows=[state_of("x", "unknown")])
    await journal.save_snapshot("r", lease.fence, Snapshot(3, "1", BODY))
    await journal.put_blob(BLOB, "text/plain")


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "journal.sqlite"

        async def case() -> None:
            async with open_sqlite(path, clock=FakeClock()) as journal:
                await write(journal)

        asyncio.run(case())
        connection = sqlite3.connect(path)
        pragmas = [
            f"PRAGMA {name} = {connection.execute(f'PRAGMA {name}').fetchone()[0]};"
            for name in ("application_id", "user_version")
        ]
        Path(sys.argv[1]).write_text("\n".join([*pragmas, *connection.iterdump()]) + "\n", "utf-8")
        connection.close()


if __name__ == "__main__":
    main()
