"""Cases: pages, rows, waits, snapshots, blobs, upgrades."""

import asyncio
import hashlib
from collections.abc import Mapping
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from proctor.store.journal.contract import (
    Event,
    Journal,
    NewRun,
    Row,
    RunFilter,
    Snapshot,
)
from proctor.store.journal.errors import ConstraintBroken, UnreadableEvent
from proctor.store.journal.upgrades import Upgrades
from proctor.testing.clock import FakeClock
from proctor.testing.conformance.journal_base import (
    NOW,
    JournalCases,
    event,
    message,
    owned,
    put,
)


class ReadingCases(JournalCases):
    """What comes back."""

    def test_events_come_in_pages(self) -> None:
        async def case(journal: Journal) -> None:
            lease = await owned(journal)
            await put(journal, lease, 0, *(event(f"{n}") for n in range(1, 26)))
            seen, after = [], 0
            while page := await journal.read_events("r", after, 10):
                assert len(page) <= 10
                seen += [stored.event_id for stored in page]
                after = page[-1].seq
            assert seen == [f"{n}" for n in range(1, 26)]
            assert await journal.read_events("nobody") == []
            assert await journal.run_row("nobody") is None

        self.check(case)

    def test_runs_come_in_pages_by_creation(self) -> None:
        clock = FakeClock()

        async def case(journal: Journal) -> None:
            for n in range(7):
                parent = "r0" if n in (2, 4) else None
                state = "done" if n == 6 else "ready"
                await journal.create_run(NewRun(f"r{n}", NOW, state, "t", parent))
            await journal.claim("r1", "one", 60)
            first = await journal.runs(limit=4)
            rest = await journal.runs(after=first[-1].run_id, limit=4)
            assert [run.run_id for run in first + rest] == [f"r{n}" for n in range(7)]
            children = await journal.runs(RunFilter(parent_run_id="r0"))
            assert [run.run_id for run in children] == ["r2", "r4"]
            done = await journal.runs(RunFilter(states=["done", "failed"], task_id="t"))
            assert [run.run_id for run in done] == ["r6"]
            assert await journal.runs(RunFilter(states=[])) == []
            free = RunFilter(states=["ready"], claimable=True)
            assert "r1" not in [run.run_id for run in await journal.runs(free)]
            clock.advance(60)
            assert "r1" in [run.run_id for run in await journal.runs(free)]

        self.check(case, clock)

    def test_runs_that_something_calls_for_are_found_at_once(self) -> None:
        async def case(journal: Journal) -> None:
            leases = {name: await owned(journal, name) for name in ("mail", "read", "due", "later")}
            for name, minutes in (("due", 1), ("later", 9)):
                values = {
                    "kind": "timer",
                    "state": "open",
                    "due_at": NOW + timedelta(minutes=minutes),
                }
                wait = Row("wait", {"wait_id": "w1"}, values)
                await put(journal, leases[name], 0, event("a"), rows=[wait])
            for name in ("mail", "read"):
                await journal.inbox_add(message(name, "m"))
            applied = Row("inbox", {"message_id": "m"}, {"applied_seq": 1})
            await put(journal, leases["read"], 0, event("a"), rows=[applied])
            called = RunFilter(called_by=NOW + timedelta(minutes=1))
            assert [run.run_id for run in await journal.runs(called)] == ["mail", "due"]
            free = RunFilter(claimable=True, called_by=NOW + timedelta(minutes=1))
            assert await journal.runs(free) == []
            await journal.release(leases["due"])
            assert [run.run_id for run in await journal.runs(free)] == ["due"]
            shut = Row("wait", {"wait_id": "w1"}, {"state": "arrived"})
            again = await journal.claim("due", "two", 60)
            assert again is not None
            await put(journal, again, 1, event("b"), rows=[shut])
            assert [run.run_id for run in await journal.runs(called)] == ["mail"]

        self.check(case)

    def test_every_table_of_the_view_keeps_its_values(self) -> None:
        given = [
            Row("attempt", {"action_id": "x", "number": 1}, {"fence": 1, "state": "running",
                "started_seq": 1, "started_at": NOW, "external_ref": "job 7"}),
            Row("wait", {"wait_id": "w"}, {"kind": "approval", "state": "open", "action_id": "x",
                "due_at": NOW, "subject_digest": "sha256:1", "body": {"text": "go?"}}),
            Row("budget_entry", {"source_id": "x/1", "kind": "usd"}, {"state": "reserved",
                "reserved": Decimal("0.10000000000000000001"), "settled": Decimal("0.07")}),
            Row("workspace", {"workspace_id": "ws"}, {"kind": "local", "state": "open",
                "revision": "sha256:2"}),
            Row("process", {"process_id": "p"}, {"host": "h", "pid": 7, "start_time": "9",
                "state": "alive", "body": []}),
        ]  # fmt: skip

        async def case(journal: Journal) -> None:
            lease = await owned(journal)
            await put(journal, lease, 0, event("a"), rows=given)
            for row in given:
                (found,) = await journal.read_rows(row.table, "r")
                assert found.key == row.key
                assert {name: found.values[name] for name in row.values} == row.values
            for table in ("event", "blob", "sqlite_master", "run; DROP TABLE run"):
                with pytest.raises(ConstraintBroken):
                    await journal.read_rows(table, "r")
            (run,) = await journal.read_rows("run", "r")
            assert run.values["version"] == 1

        self.check(case)

    def test_due_waits_of_all_runs_come_by_time(self) -> None:
        def wait(name: str, minutes: int | None, state: str = "open") -> Row:
            due = None if minutes is None else NOW + timedelta(minutes=minutes)
            values = {"kind": "timer", "state": state, "due_at": due}
            return Row("wait", {"wait_id": name}, {**values})

        async def case(journal: Journal) -> None:
            one, two = await owned(journal, "one"), await owned(journal, "two")
            rows = [wait("w3", 3), wait("w1", 1), wait("never", None), wait("old", 0, "answered")]
            await put(journal, one, 0, event("a"), rows=rows)
            await put(journal, two, 0, event("a"), rows=[wait("w2", 2), wait("w9", 9)])
            due = await journal.due_waits(NOW + timedelta(minutes=3))
            found = [(run_id, row.key["wait_id"]) for run_id, row in due]
            assert found == [("one", "w1"), ("two", "w2"), ("one", "w3")]
            assert len(await journal.due_waits(NOW + timedelta(minutes=3), limit=1)) == 1
            await put(journal, one, 1, rows=[wait("w1", 1, "fired")])
            assert len(await journal.due_waits(NOW + timedelta(minutes=3))) == 2

        self.check(case)

    def test_the_newest_snapshot_of_a_version_is_found(self) -> None:
        async def case(journal: Journal) -> None:
            lease = await owned(journal)
            assert await journal.load_snapshot("r") is None
            await put(journal, lease, 0, *(event(f"{n}") for n in range(5)))
            for seq, version in ((1, "old"), (2, "old"), (4, "new")):
                assert await journal.save_snapshot("r", 1, Snapshot(seq, version, {"at": seq}))
            assert not await journal.save_snapshot("r", 1, Snapshot(6, "new", {}))
            assert not await journal.save_snapshot("r", 0, Snapshot(5, "new", {}))
            assert await journal.load_snapshot("r") == Snapshot(4, "new", {"at": 4})
            old = await journal.load_snapshot("r", version="old")
            assert old == Snapshot(2, "old", {"at": 2})
            assert await journal.load_snapshot("r", version="other") is None
            assert await journal.save_snapshot("r", 1, Snapshot(5, "new", {}))
            assert await journal.load_snapshot("r", version="old") is None  # two are kept

        self.check(case)

    @pytest.mark.parametrize("size", [0, 1, 262_144, 262_145, 1_000_000])
    def test_a_blob_comes_back_whole_or_in_ranges(self, size: int) -> None:
        data = (bytes(range(256)) * (size // 256 + 1))[:size]

        async def case(journal: Journal) -> None:
            digests = await asyncio.gather(*(journal.put_blob(data, "text/x") for _ in range(2)))
            assert set(digests) == {"sha256:" + hashlib.sha256(data).hexdigest()}
            digest = digests[0]
            assert await journal.get_blob(digest) == data
            for offset, length in ((0, 10), (262_140, 10), (size - 3, 100), (size, 5), (5, 0)):
                start = max(0, offset)
                found = await journal.get_blob(digest, offset=offset, length=length)
                assert found == data[start : start + length]
            assert await journal.get_blob("sha256:" + "0" * 64) is None

        self.check(case)

    def test_old_events_are_read_as_new_ones(self) -> None:
        def named(body: Mapping[str, Any]) -> Mapping[str, Any]:
            return {"name": body["n"], "tags": []}

        def tagged(body: Mapping[str, Any]) -> Mapping[str, Any]:
            return {**body, "tags": {}}

        upgrades = Upgrades({"noted": 3}, {("noted", 1): named, ("noted", 2): tagged})

        async def write(journal: Journal) -> None:
            lease = await owned(journal)
            two = Event("b", "noted", 2, {"name": "B", "tags": [1]}, NOW)
            three = Event("c", "noted", 3, {"name": "C", "tags": {}}, NOW)
            other = Event("d", "other", 1, {"n": 1}, NOW)
            await put(journal, lease, 0, event("a", {"n": "A"}), two, three, other)

        async def read() -> None:
            journal = self.open(FakeClock(), upgrades=upgrades)
            found = await journal.read_events("r")
            await journal.close()
            assert [e.version for e in found] == [3, 3, 3, 1]
            assert [e.body.get("name") for e in found] == ["A", "B", "C", None]
            older = self.open(FakeClock(), upgrades=Upgrades({"noted": 2}, {("noted", 1): named}))
            with pytest.raises(UnreadableEvent, match="version 3"):
                await older.read_events("r")
            assert len(await older.read_events("r", 0, 2)) == 2
            await older.close()

        self.check(write)
        asyncio.run(read())
