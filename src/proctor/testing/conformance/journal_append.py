"""Cases: what append promises."""

import asyncio
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any

import pytest

from proctor.store.journal.contract import (
    AnyRow,
    Appended,
    Conflict,
    Durability,
    Encoded,
    Event,
    Form,
    FormedRow,
    Journal,
    NewRun,
    Row,
)
from proctor.store.journal.errors import ConstraintBroken, UnknownRun
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

HOSTILE = "a\0b \ud800 \U0001f600 ' \" ; DROP TABLE event; -- %s ? \\ \r\n\u2028"


_ATTEMPT = Form("attempt", ("action_id", "number"), ("fence", "state", "started_seq", "started_at"))
_TURNED = Form("attempt", _ATTEMPT.keys[::-1], _ATTEMPT.values)


class Autumn(tzinfo):
    """A zone in the night in which the clocks are set back: its second half past two is later."""

    def utcoffset(self, moment: datetime | None) -> timedelta:
        return timedelta(hours=1 if moment is not None and moment.fold else 2)

    def dst(self, moment: datetime | None) -> timedelta:
        return self.utcoffset(moment) - timedelta(hours=1)

    def tzname(self, moment: datetime | None) -> str:
        return "local"


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

    def test_rows_follow_their_events_and_keep_what_is_not_given(self) -> None:
        async def case(journal: Journal) -> None:
            lease = await owned(journal)
            changes = {"state": "running", "config_digest": "sha256:1", "cancel_seq": 1}
            rows = [action("x"), state_of("x", "waiting"), Row("run", {}, changes)]
            await put(journal, lease, 0, event("a"), rows=rows)
            more = Row("action", {"action_id": "x"}, {"attempts": 2, "call_id": "c"})
            await put(
                journal, lease, 1, event("b"), rows=[more, Row("run", {}, {"body": {"b": 2}})]
            )
            (row,) = await journal.read_rows("action", "r")
            assert row.key == {"action_id": "x"}
            assert row.values["state"] == "waiting"
            assert (row.values["attempts"], row.values["call_id"]) == (2, "c")
            assert (row.values["resources"], row.values["tool"]) == ([], "shell")
            run = await journal.run_row("r")
            assert run is not None
            assert (run.state, run.config_digest, run.cancel_seq) == ("running", "sha256:1", 1)
            assert run.body == {"b": 2}

        self.check(case)

    def test_rows_of_a_form_and_texts_of_json_are_as_if_they_were_named(self) -> None:
        new = Form("action", ("action_id",), (
            "op_key", "tool", "effect", "arguments_digest", "state", "attempts", "resources",
        ))  # fmt: skip
        moved = Form("action", ("action_id",), ("state",))

        async def case(journal: Journal) -> None:
            lease = await owned(journal)
            places = Encoded('[["write","a/ü"]]')
            cells = ("x", "op-x", "shell", "pure", "sha256:0", "ready", 1, places)
            rows = [
                FormedRow(new, cells),
                FormedRow(_ATTEMPT, ("x", 1, lease.fence, "running", 2, NOW)),
                FormedRow(moved, ("x", "running")),
                Row("action", {"action_id": "x"}, {"call_id": "c"}),
            ]
            body = Encoded('{"text":"ü","n":[1,2.5,null]}')
            await put(journal, lease, 0, Event("a", "noted", 1, body, NOW), rows=rows)
            (stored,) = await journal.read_events("r")
            assert stored.body == {"text": "ü", "n": [1, 2.5, None]}
            (row,) = await journal.read_rows("action", "r")
            assert (row.values["state"], row.values["call_id"]) == ("running", "c")
            assert (row.values["attempts"], row.values["resources"]) == (1, [["write", "a/ü"]])
            (attempt,) = await journal.read_rows("attempt", "r")
            assert attempt.key == {"action_id": "x", "number": 1}
            assert (attempt.values["state"], attempt.values["started_at"]) == ("running", NOW)

        self.check(case)

    def test_an_hour_that_comes_twice_is_two_moments(self) -> None:
        autumn = datetime(2025, 10, 26, 2, 30, tzinfo=Autumn())
        moments = [autumn, autumn.replace(fold=1), autumn.astimezone(UTC)]

        async def case(journal: Journal) -> None:
            lease = await owned(journal)
            events = [Event(f"e{n}", "noted", 1, {}, at) for n, at in enumerate(moments)]
            await put(journal, lease, 0, *events)
            hours = [stored.at.astimezone(UTC).hour for stored in await journal.read_events("r")]
            assert hours == [0, 1, 0]

        self.check(case)

    def test_what_the_tables_refuse_changes_nothing_and_disturbs_nobody(self) -> None:
        async def case(journal: Journal) -> None:
            good, bad = await owned(journal, "good"), await owned(journal, "bad")
            await put(journal, good, 0, event("a"), rows=[action("x", op_key="the key")])
            refused: list[list[AnyRow]] = [
                [action("y", op_key="the key")],
                [action("y", state="asleep")],
                [state_of("y", "done")],
                [Row("run", {}, {"state": "asleep"})],
                [Row("event", {}, {"body": {}})],
                [Row("run", {}, {"fence": 9})],
                [Row("action", {"action_id": "y"}, {"state; DROP TABLE run": "x"})],
                [Row("action", {"action_id": "y\0"}, {"state": "done"})],
                [Row("wait", {"wait_id": "w"}, {"kind": "timer", "state": "open", "due_at": 5})],
                [Row("attempt", {"action_id": "y", "number": 2**63}, {"state": "ok"})],
                [FormedRow(_ATTEMPT, ("y", 2**63, 1, "ok", 1, NOW))],
                [FormedRow(_ATTEMPT, ("y", "1", 1, "ok", 1, NOW))],
                [FormedRow(_ATTEMPT, ("y", 1, 1, "o\0k", 1, NOW))],
                [FormedRow(_ATTEMPT, ("y", 1, 1, "ok", 1, NOW.replace(tzinfo=None)))],
                [FormedRow(_ATTEMPT, ("y", 1, 1, "ok", 1))],
                [FormedRow(_ATTEMPT, ("y", 1, 1, "ok", 1))] * 2,
                [FormedRow(_ATTEMPT, ("y", 1, 1, None, 1, NOW))],
                [FormedRow(_TURNED, (1, "y", 1, "ok", 1, NOW))],
                [FormedRow(Form("action", ("action_id",), ("state; DROP TABLE run",)), ("y", "x"))],
                [FormedRow(Form("event", ("seq",), ("body",)), (1, {}))],
                [Row("action", {"action_id": "y"}, {"body": Encoded('"\ud800"')})],
            ]
            for version, rows in enumerate(refused, 1):
                done, problem = await asyncio.gather(
                    journal.append("good", version, good.fence, [event(f"e{version}")]),
                    journal.append("bad", 0, bad.fence, [event("b")], rows),
                    return_exceptions=True,
                )
                assert done == Appended(version + 1)
                assert isinstance(problem, ConstraintBroken), (rows, problem)
            assert await contents(journal, "bad") == []

        self.check(case)

    def test_text_of_agents_comes_back_as_it_went_in(self) -> None:
        async def case(journal: Journal) -> None:
            lease = await owned(journal)
            body: dict[str, Any] = {
                "text": HOSTILE,
                HOSTILE: [1, 2.5, None, True, 10**30, {"": []}],
            }
            await put(journal, lease, 0, event("a", body), rows=[action("x")])
            row = Row("action", {"action_id": "x"}, {"body": body})
            await put(journal, lease, 1, rows=[row])
            (stored,) = await journal.read_events("r")
            assert stored.body == body
            (found,) = await journal.read_rows("action", "r")
            assert found.values["body"] == body

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
