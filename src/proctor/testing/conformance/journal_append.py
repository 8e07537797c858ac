"""Cases: what append promises."""

import asyncio

import pytest

from proctor.store.journal.contract import (
    Appended,
    Conflict,
    Durability,
    Journal,
    NewRun,
    Row,
)
from proctor.store.journal.errors import UnknownRun
from proctor.testing.conformance.journal_base import (
    NOW,
    JournalCases,
    action,
    contents,
    event,
    message,
    owned,
    put,
    state_of,
    version_of,
)


class AppendCases(JournalCases):
    """Compare, swap, recognise, refuse."""

    def test_events_are_numbered_without_gaps_from_one(self) -> None:
        async def case(journal: Journal) -> None:
            lease = await owned(journal)
            version = await put(journal, lease, 0, event("a"), event("b"))
            version = await put(journal, lease, version, event("c"), durability=Durability.BARRIER)
            assert version == 3
            assert await contents(journal) == [(1, "a"), (2, "b"), (3, "c")]
            (stored, *_) = await journal.read_events("r")
            assert (stored.fence, stored.run_id, stored.at) == (lease.fence, "r", NOW)

        self.check(case)

    def test_another_version_or_fence_changes_nothing(self) -> None:
        async def case(journal: Journal) -> None:
            lease = await owned(journal)
            await put(journal, lease, 0, event("a"), rows=[action("x")])
            for version, fence in ((0, lease.fence), (2, lease.fence), (1, 0), (1, 2)):
                found = await journal.append(
                    "r", version, fence, [event("z")], [state_of("x", "done")],
                    deliveries=[message("r", "m")],
                )  # fmt: skip
                assert found == Conflict(1, lease.fence)
            assert await contents(journal) == [(1, "a")]
            (row,) = await journal.read_rows("action", "r")
            assert row.values["state"] == "ready"
            assert await journal.inbox_pending("r") == []

        self.check(case)

    def test_the_same_append_answers_the_same_version_for_ever(self) -> None:
        async def case(journal: Journal) -> None:
            lease = await owned(journal)
            first = [event("a"), event("b")]
            for durability in (Durability.LAZY, Durability.BARRIER, Durability.LAZY):
                found = await journal.append("r", 0, lease.fence, first, durability=durability)
                assert found == Appended(2)
            await put(journal, lease, 2, event("c"))
            assert await journal.append("r", 0, lease.fence, first) == Appended(2)
            await journal.claim("r", "one", 60)
            assert await journal.append("r", 0, lease.fence, first) == Appended(2)
            other = await journal.append("r", 0, lease.fence, [event("a"), event("z")])
            assert isinstance(other, Conflict)
            longer = await journal.append("r", 2, lease.fence, [event("c"), event("d")])
            assert isinstance(longer, Conflict)
            assert len(await contents(journal)) == 3

        self.check(case)

    def test_an_append_to_a_run_that_is_not_there_is_an_error(self) -> None:
        async def case(journal: Journal) -> None:
            with pytest.raises(UnknownRun, match="'nobody'"):
                await journal.append("nobody", 0, 0, [event("a")])
            lease = await owned(journal)
            with pytest.raises(UnknownRun, match="'nobody'"):
                await put(journal, lease, 0, event("a"), deliveries=[message("nobody", "m")])
            assert await contents(journal) == []

        self.check(case)

    def test_an_append_without_events_compares_and_keeps_the_version(self) -> None:
        async def case(journal: Journal) -> None:
            lease = await owned(journal)
            await put(journal, lease, 0, event("a"), rows=[action("x")])
            assert await put(journal, lease, 1, rows=[state_of("x", "running")]) == 1
            found = await journal.append("r", 0, lease.fence, [], [state_of("x", "done")])
            assert found == Conflict(1, lease.fence)

        self.check(case)

    def test_creating_a_run_again_finds_the_same_run(self) -> None:
        async def case(journal: Journal) -> None:
            new = NewRun("child", NOW, parent_run_id="r", task_id="t", body={"a": 1})
            task = Row("task", {"task_id": "t"}, {"goal": "win", "created_at": NOW})
            made = await journal.create_run(new, [event("a")], [task, action("x")])
            assert made == Appended(1)
            assert await journal.create_run(new, [event("a")], [task]) == Appended(1)
            other = await journal.create_run(new, [event("b")])
            assert other == Conflict(1, 0)
            (found,) = await journal.read_rows("task", "child")
            assert found.values["goal"] == "win"
            run = await journal.run_row("child")
            assert run is not None
            assert (run.parent_run_id, run.version, run.fence, run.owner) == ("r", 1, 0, None)
            assert run.body == {"a": 1}

        self.check(case)

    def test_appends_of_many_runs_at_once_all_arrive_in_order(self) -> None:
        async def one(journal: Journal, name: str) -> None:
            lease = await owned(journal, name)
            version = 0
            for number in range(20):
                rows = [action("x", op_key=name)] if number == 0 else [state_of("x", "done")]
                durability = Durability.BARRIER if number % 2 else Durability.LAZY
                version = await put(
                    journal, lease, version, event(f"{number}"), rows=rows, durability=durability
                )

        async def case(journal: Journal) -> None:
            names = [f"run-{n}" for n in range(20)]
            await asyncio.gather(*(one(journal, name) for name in names))
            for name in names:
                assert await contents(journal, name) == [(n + 1, f"{n}") for n in range(20)]

        self.check(case)

    def test_of_two_appends_at_once_one_is_done(self) -> None:
        async def case(journal: Journal) -> None:
            lease = await owned(journal)
            for version in range(10):
                found = await asyncio.gather(
                    *(
                        journal.append("r", version, lease.fence, [event(f"{version}-{n}")])
                        for n in range(4)
                    )
                )
                assert sorted(type(answer).__name__ for answer in found) == [
                    "Appended", "Conflict", "Conflict", "Conflict",
                ]  # fmt: skip
            assert [seq for seq, _ in await contents(journal)] == list(range(1, 11))

        self.check(case)

    def test_a_cancelled_append_is_done_once_or_not_at_all(self) -> None:
        async def case(journal: Journal) -> None:
            lease = await owned(journal)
            given = (0, lease.fence, [event("a"), event("b")])
            task = asyncio.create_task(journal.append("r", *given))
            await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert version_of(await journal.append("r", *given)) == 2
            assert await contents(journal) == [(1, "a"), (2, "b")]

        self.check(case)
