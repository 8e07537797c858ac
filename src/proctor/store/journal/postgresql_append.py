"""Compare-and-append on PostgreSQL: one statement for all appends of a group.

The statement moves the versions of the runs that are as expected, and everything else in it joins
with what was moved: a run that was not as expected leaves no trace, and does not disturb the
others. Each list of values is an array, so the text depends on the tables only, not on the number
of rows, and is prepared once.

Names that are put into a statement are constants of the schema; a caller's values are only bound.
"""
# ruff: noqa: S608

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from proctor.store.journal.encoding import RUN_COLUMNS, Cell, Shape
from proctor.store.journal.jobs import Append
from proctor.store.schema.journal_columns import COLUMNS, KEYS

UNKNOWN_RUN_STATE = "P0002"
"""The SQL state with which a delivery to a run that is not there ends."""

_TYPES = {"integer": "bigint", "moment": "bigint"}
_RUN_TYPES = tuple(_TYPES.get(COLUMNS["run"][name][0], "text") for name in RUN_COLUMNS)
_EVENT = ("seq", "event_id", "kind", "version", "fence", "at", "body")
_EVENT_TYPES = tuple(_TYPES.get(COLUMNS["event"][name][0], "text") for name in _EVENT)
_MESSAGE = ("run_id", "message_id", "kind", "body", "at")
_MESSAGE_TYPES = ("text", "text", "text", "text", "bigint")


def group_statement(jobs: Sequence[Append]) -> tuple[str, list[str]]:
    """The statement for `jobs` (of different runs) and its arrays. It gives the position in `jobs`
    of each append that was done."""
    rows: dict[Shape, list[tuple[Any, ...]]] = {}
    runs, events, deliveries = [], [], []
    nothing = [None] * len(RUN_COLUMNS)
    for item, job in enumerate(jobs):
        changes: Sequence[Cell] = job.run_changes or nothing
        runs.append((item, job.run_id, job.expected, job.fence, job.version, *changes))
        events += [(item, *event) for event in job.events]
        for of, values in job.rows:
            rows.setdefault(of, []).append((item, *values))
        deliveries += [(item, run_id, *cells) for run_id, cells in job.deliveries]
    shapes = tuple(sorted(rows, key=lambda of: (of.table, of.columns)))  # fewer different texts
    arrays = _arrays(runs, 5 + len(RUN_COLUMNS))
    if events:
        arrays += _arrays(events, 1 + len(_EVENT))
    for of in shapes:
        arrays += _arrays(rows[of], 1 + len(of.columns))
    if deliveries:
        arrays += _arrays(deliveries, 1 + len(_MESSAGE))
    return _text(shapes, bool(events), bool(deliveries)), arrays


def _arrays(rows: Sequence[tuple[Any, ...]], width: int) -> list[str]:
    """Array literals, column by column. Written here because the driver's way to write a list
    costs several times as much."""
    return [
        "{" + ",".join([_element(row[column]) for row in rows]) + "}" for column in range(width)
    ]


def _element(cell: Cell) -> str:
    if isinstance(cell, str):
        return '"' + cell.replace("\\", "\\\\").replace('"', '\\"') + '"'
    return "NULL" if cell is None else str(cell)


@lru_cache(maxsize=512)
def _text(shapes: tuple[Shape, ...], events: bool, deliveries: bool) -> str:
    parts, checks = [_moved()], []
    if events:
        parts.append(_logged())
    for number, of in enumerate(shapes):
        parts.append(_given(f"given{number}", of))
        parts.append(_upsert(number, of) if of.complete else _update(number, of))
        if not of.complete:
            checks.append(_check(f"put{number}", f"given{number}", "23514"))
    if deliveries:
        parts += _delivered()
        checks.append(_check("known", "delivered", UNKNOWN_RUN_STATE))
    return f"WITH {', '.join(parts)} SELECT {', '.join(['item', *checks])} FROM moved"


def _unnest(types: Sequence[str]) -> str:
    return f"unnest({', '.join(f'%s::{kind}[]' for kind in ('bigint', *types))})"


def _moved() -> str:
    types = ("text", "bigint", "bigint", "bigint", *_RUN_TYPES)
    changes = ", ".join(f"{name} = coalesce(a.{name}, run.{name})" for name in RUN_COLUMNS)
    names = ", ".join(("item", "run_id", "expected", "fence", "version", *RUN_COLUMNS))
    return (
        f"moved AS (UPDATE run SET version = a.version, {changes}"
        f" FROM {_unnest(types)} AS a({names})"
        " WHERE run.run_id = a.run_id AND run.version = a.expected AND run.fence = a.fence"
        " RETURNING run.run_no, a.item)"
    )


def _logged() -> str:
    names = ", ".join(_EVENT)
    given = ", ".join(f"e.{name}" for name in _EVENT)
    return (
        f"logged AS (INSERT INTO event (run_no, {names}) SELECT m.run_no, {given}"
        f" FROM {_unnest(_EVENT_TYPES)} AS e(item, {names}) JOIN moved m USING (item))"
    )


def _given(name: str, of: Shape) -> str:
    types = [_TYPES.get(COLUMNS[of.table][column][0], "text") for column in of.columns]
    columns = ", ".join(("item", *of.columns))
    return f"{name} AS (SELECT * FROM {_unnest(types)} AS g({columns}))"


def _upsert(number: int, of: Shape) -> str:
    columns = ("run_no", *of.columns) if of.of_run else of.columns
    given = ", ".join(f"m.{c}" if c == "run_no" else f"g.{c}" for c in columns)
    changes = ", ".join(f"{name} = excluded.{name}" for name in of.values)
    return (
        f"put{number} AS (INSERT INTO {of.table} ({', '.join(columns)}) SELECT {given}"
        f" FROM given{number} g JOIN moved m USING (item)"
        f" ON CONFLICT ({', '.join(KEYS[of.table])}) DO UPDATE SET {changes} RETURNING 1)"
    )


def _update(number: int, of: Shape) -> str:
    changes = ", ".join(f"{name} = g.{name}" for name in of.values)
    keys = ("run_no", *of.keys) if of.of_run else of.keys
    where = " AND ".join(f"t.{name} = g.{name}" for name in keys)
    # OFFSET 0 keeps the planner from joining the table by a part of its key, run by run.
    return (
        f"put{number} AS (UPDATE {of.table} t SET {changes}"
        f" FROM (SELECT g.*, m.run_no FROM given{number} g JOIN moved m USING (item) OFFSET 0) g"
        f" WHERE {where} RETURNING 1)"
    )


def _delivered() -> list[str]:
    names = ", ".join(("item", *_MESSAGE))
    return [
        f"delivered AS (SELECT * FROM {_unnest(_MESSAGE_TYPES)} AS d({names}))",
        "known AS (SELECT run.run_no, d.message_id, d.kind, d.body, d.at"
        " FROM delivered d JOIN moved USING (item) JOIN run ON run.run_id = d.run_id)",
        "sent AS (INSERT INTO inbox (run_no, message_id, kind, body, at)"
        " SELECT run_no, message_id, kind, body, at FROM known"
        " ON CONFLICT (run_no, message_id) DO NOTHING)",
    ]


def _check(found: str, given: str, state: str) -> str:
    """Ends the statement with an error if some of what was given met no row."""
    wanted = f"(SELECT count(*) FROM {given} JOIN moved USING (item))"
    return f"require_rows((SELECT count(*) FROM {found}), {wanted}, '{state}')"
