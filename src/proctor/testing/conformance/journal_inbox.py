"""Cases: what others may put in, and what an opening may do at all."""

import asyncio
from datetime import timedelta

import pytest
from msgspec.structs import replace

from proctor.store.journal.contract import (
    MOST_BODY_CHARS,
    MOST_NAME_CHARS,
    Access,
    Journal,
    NewRun,
    Row,
    RunFilter,
    Snapshot,
)
from proctor.store.journal.errors import (
    JournalClosed,
    JournalReadOnly,
    MessageTooLong,
    RunIsOver,
    UnknownRun,
)
from proctor.testing.clock import FakeClock
from proctor.testing.conformance.journal_base import (
    NOW,
    JournalCases,
    contents,
    event,
    message,
    owned,
    put,
)


class InboxCases(JournalCases):
    """Messages, deliveries, access, closing."""

    def test_a_message_counts_once_and_waits_until_it_is_applied(self) -> None:
        async def case(journal: Journal) -> None:
            lease = await owned(journal)
            assert await journal.inbox_add(message("r", "m1", {"yes": True}))
            assert await journal.inbox_add(message("r", "m2"))
            assert not await journal.inbox_add(message("r", "m1", {"yes": False}))
            first, second = await journal.inbox_pending("r")
            assert (first.message_id, first.kind, first.body) == ("m1", "answer", {"yes": True})
            assert (first.applied_seq, second.message_id) == (None, "m2")
            assert first.number < second.number
            applied = Row("inbox", {"message_id": "m1"}, {"applied_seq": 1})
            await put(journal, lease, 0, event("a"), rows=[applied])
            assert [m.message_id for m in await journal.inbox_pending("r")] == ["m2"]
            assert not await journal.inbox_add(message("r", "m1"))
            (row, _) = await journal.read_rows("inbox", "r")
            assert row.values["applied_seq"] == 1

        self.check(case)

    def test_messages_are_read_in_pages(self) -> None:
        """However many wait, whoever reads them holds a page."""

        async def case(journal: Journal) -> None:
            await owned(journal)
            await owned(journal, "other")
            for number in range(7):
                await journal.inbox_add(message("r", f"m{number}"))
                await journal.inbox_add(message("other", f"o{number}"))
            assert await journal.inbox_pending("r", limit=0) == []
            seen, after = [], 0
            while page := await journal.inbox_pending("r", after=after, limit=3):
                assert len(page) <= 3
                seen += [m.message_id for m in page]
                after = page[-1].number
            assert seen == [f"m{number}" for number in range(7)]
            assert [m.message_id for m in await journal.inbox_pending("r", limit=1)] == ["m0"]
            assert len(await journal.inbox_pending("r")) == 7

        self.check(case)

    def test_a_page_of_long_messages_is_short_and_never_empty(self) -> None:
        async def case(journal: Journal) -> None:
            lease = await owned(journal)
            long = {"text": "x" * 3 * 2**20}  # a delivery: of other runs, without a limit
            sent = [message("r", f"m{number}", long) for number in range(3)]
            await put(journal, lease, 0, event("a"), deliveries=sent)
            first = await journal.inbox_pending("r", limit=100)
            assert [m.message_id for m in first] == ["m0"]
            rest = await journal.inbox_pending("r", after=first[-1].number, limit=100)
            assert [m.message_id for m in rest] == ["m1"]
            assert len(await journal.inbox_pending("r")) == 3

        self.check(case)

    def test_a_message_has_a_length_that_everybody_can_read(self) -> None:
        async def case(journal: Journal) -> None:
            await owned(journal)
            room = MOST_BODY_CHARS - len('{"text":""}')
            assert await journal.inbox_add(message("r", "m1", {"text": "x" * room}))
            with pytest.raises(MessageTooLong, match="at most 262,144"):
                await journal.inbox_add(message("r", "m2", {"text": "x" * (room + 1)}))
            assert await journal.inbox_add(message("r", "n" * MOST_NAME_CHARS))
            with pytest.raises(MessageTooLong, match="at most 500"):
                await journal.inbox_add(message("r", "n" * (MOST_NAME_CHARS + 1)))
            with pytest.raises(MessageTooLong):
                await journal.inbox_add(replace(message("r", "m3"), kind="k" * 501))
            assert len(await journal.inbox_pending("r")) == 2

        self.check(case)

    def test_a_message_to_nobody_is_an_error(self) -> None:
        async def case(journal: Journal) -> None:
            with pytest.raises(UnknownRun, match="'nobody'"):
                await journal.inbox_add(message("nobody", "m"))

        self.check(case)

    def test_a_message_is_dated_by_the_journal(self) -> None:
        """Whatever its sender says: a sender's clock is not to decide what came in time."""
        clock = FakeClock()

        async def case(journal: Journal) -> None:
            await owned(journal)
            early, late = NOW - timedelta(days=999), NOW + timedelta(days=999)
            await journal.inbox_add(replace(message("r", "m1"), at=late))
            clock.advance(90.0)
            await journal.inbox_add(replace(message("r", "m2"), at=early))
            first, second = await journal.inbox_pending("r")
            assert second.at - first.at == timedelta(seconds=90)

        self.check(case, clock)

    def test_a_message_to_a_run_in_an_excluded_state_is_refused(self) -> None:
        async def case(journal: Journal) -> None:
            lease = await owned(journal)
            over = ("done", "failed")
            assert await journal.inbox_add(message("r", "m1"), unless=over)
            await put(journal, lease, 0, event("a"), rows=[Row("run", {}, {"state": "done"})])
            with pytest.raises(RunIsOver, match="'r' has ended: done"):
                await journal.inbox_add(message("r", "m2"), unless=over)
            assert not await journal.inbox_add(message("r", "m1"), unless=over)  # there already
            with pytest.raises(UnknownRun):
                await journal.inbox_add(message("nobody", "m"), unless=over)
            assert await journal.inbox_add(message("r", "m3"))
            assert [m.message_id for m in await journal.inbox_pending("r")] == ["m1", "m3"]

        self.check(case)

    def test_a_message_and_the_end_that_excludes_it_never_miss_each_other(self) -> None:
        """Of many messages that race with the end, each is refused, or is there to be found by
        whoever has just appended the end."""

        async def case(journal: Journal) -> None:
            other = self.open(clock, Access.CONTROL)
            try:
                for number in range(10):
                    await self._race(journal, other, f"r{number}")
            finally:
                await other.close()

        clock = FakeClock()
        self.check(case, clock)

    async def _race(self, journal: Journal, other: Journal, run_id: str) -> None:
        lease = await owned(journal, run_id)

        added, found = set[str](), set[str]()

        async def say(name: str) -> None:
            try:
                await other.inbox_add(message(run_id, name), unless=("done",))
            except RunIsOver:
                return
            added.add(name)

        async def end() -> None:
            await put(journal, lease, 0, event("a"), rows=[Row("run", {}, {"state": "done"})])
            found.update(m.message_id for m in await journal.inbox_pending(run_id))

        await asyncio.gather(say("m0"), end(), *(say(f"m{n}") for n in range(1, 5)))
        assert added == found

    def test_runs_with_mail_are_listed(self) -> None:
        async def case(journal: Journal) -> None:
            for name in ("r1", "r2", "r3"):
                lease = await owned(journal, name)
            await journal.inbox_add(message("r2", "m"))
            await journal.inbox_add(message("r3", "m"))
            applied = Row("inbox", {"message_id": "m"}, {"applied_seq": 1})
            await put(journal, lease, 0, event("a"), rows=[applied])
            found = await journal.runs(RunFilter(with_mail=True))
            assert [row.run_id for row in found] == ["r2"]

        self.check(case)

    def test_two_answers_at_once_are_both_kept_in_some_order(self) -> None:
        async def case(journal: Journal) -> None:
            await owned(journal)
            found = await asyncio.gather(
                *(journal.inbox_add(message("r", f"m{n % 3}")) for n in range(9))
            )
            assert found.count(True) == 3
            pending = await journal.inbox_pending("r")
            assert sorted(m.message_id for m in pending) == ["m0", "m1", "m2"]

        self.check(case)

    def test_deliveries_come_with_their_append_or_not_at_all(self) -> None:
        async def case(journal: Journal) -> None:
            parent, child = await owned(journal, "parent"), await owned(journal, "child")
            sent = [message("parent", "result", {"ok": 1}), message("child", "self")]
            await put(journal, child, 0, event("a"), deliveries=sent)
            await put(journal, child, 1, event("b"), deliveries=sent)  # there already: passed over
            (arrived,) = await journal.inbox_pending("parent")
            assert (arrived.message_id, arrived.body) == ("result", {"ok": 1})
            assert len(await journal.inbox_pending("child")) == 1
            assert parent.fence == 1

        self.check(case)

    def test_every_opening_of_a_journal_has_its_identity(self) -> None:
        clock = FakeClock()

        async def case(journal: Journal) -> None:
            other = self.open(clock, Access.READ)
            try:
                assert journal.identity == other.identity != ""
            finally:
                await other.close()

        self.check(case, clock)

    def test_a_control_opening_reads_and_adds_to_inboxes_only(self) -> None:
        clock = FakeClock()

        async def case(journal: Journal) -> None:
            lease = await owned(journal)
            await put(journal, lease, 0, event("a"))
            other = self.open(clock, Access.CONTROL)
            try:
                assert other.access is Access.CONTROL
                assert await contents(other) == [(1, "a")]
                assert await other.inbox_add(message("r", "m"))
                assert not await other.inbox_add(message("r", "m"))
                await self._refuses_to_write(other)
            finally:
                await other.close()
            assert [m.message_id for m in await journal.inbox_pending("r")] == ["m"]
            assert await contents(journal) == [(1, "a")]

        self.check(case, clock)

    def test_a_reading_opening_only_reads(self) -> None:
        clock = FakeClock()

        async def case(journal: Journal) -> None:
            lease = await owned(journal)
            other = self.open(clock, Access.READ)
            try:
                await put(journal, lease, 0, event("a"))
                assert await contents(other) == [(1, "a")]
                await self._refuses_to_write(other)
                with pytest.raises(JournalReadOnly):
                    await other.inbox_add(message("r", "m"))
            finally:
                await other.close()

        self.check(case, clock)

    async def _refuses_to_write(self, journal: Journal) -> None:
        lease_of = journal.claim("r", "thief", 60, dead_owner="one")
        for attempt in (
            journal.append("r", 1, 1, [event("z")]),
            journal.create_run(NewRun("new", NOW)),
            lease_of,
            journal.save_snapshot("r", 1, Snapshot(0, "1", {})),
            journal.put_blob(b"x"),
            journal.sync(),
        ):
            with pytest.raises(JournalReadOnly, match=r"opened for (control|read)"):
                await attempt

    def test_closing_finishes_what_was_handed_in(self) -> None:
        clock = FakeClock()
        journal = self.open(clock)

        async def run() -> None:
            lease = await owned(journal)
            task = asyncio.create_task(put(journal, lease, 0, event("a")))
            await asyncio.sleep(0)
            await journal.close()
            assert await task == 1
            await journal.close()
            for attempt in (contents(journal), put(journal, lease, 1, event("b"))):
                with pytest.raises(JournalClosed):
                    await attempt

        asyncio.run(run())
        assert self.check(contents, clock) == [(1, "a")]
