"""Cases: what append does with rows, texts and moments."""

import asyncio
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any

from proctor.store.journal.contract import (
    AnyRow,
    Appended,
    Encoded,
    Event,
    Form,
    FormedRow,
    Journal,
    Row,
)
from proctor.store.journal.errors import ConstraintBroken
from proctor.testing.conformance.journal_base import (
    NOW,
    JournalCases,
    action,
    contents,
    event,
    owned,
    put,
    state_of,
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


class RowCases(JournalCases):
    """Rows follow their events, and what the tables refuse changes nothing."""

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
