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

from proctor.store.journal.encoding import RUN_COLUMNS, Shape
from proctor.store.journal.jobs import Append
from proctor.store.schema.journal_columns import COLUMNS, KEYS

UNKNOWN_RUN_STATE = "P0002"
"""The SQL state with which a delivery to a run that is not there ends."""

_INTEGERS = frozenset(["integer", "moment"])
_EVENT = ("seq", "event_id", "kind", "version", "at", "body")
_MESSAGE = ("message_id", "kind", "body", "at")
Columns = tuple[str, ...]
"""The types of the columns of an array for each, in PostgreSQL's words."""


def _types(table: str, names: Sequence[str]) -> Columns:
    kinds = COLUMNS[table]
    return tuple("bigint" if kinds[name][0] in _INTEGERS else "text" for name in names)


_EVENT_TYPES = ("bigint", *_types("event", _EVENT))
_MESSAGE_TYPES = ("bigint", "text", *_types("inbox", _MESSAGE))


def group_statement(jobs: Sequence[Append], *, synced: bool) -> tuple[bytes, list[str]]:
    """The statement for `jobs` (of different runs) and its values. It gives the position in `jobs`
    of each append that was done. `synced`: its commit waits for the disk."""
    rows: dict[Shape, list[tuple[Any, ...]]] = {}
    events, deliveries = [], []
    changed = _changed(jobs)
    for item, job in enumerate(jobs):
        events += [(item, *event[:4], *event[5:]) for event in job.events]  # the fence is the run's
        for of, values in job.rows:
            rows.setdefault(of, []).append((item, *values))
        deliveries += [(item, run_id, *cells) for run_id, cells in job.deliveries]
    shapes = tuple(sorted(rows, key=lambda of: (of.table, of.columns)))  # fewer different texts
    moves = [
        (item, job.run_id, job.expected, job.fence, job.version, *map(job.run_changes.get, changed))
        for item, job in enumerate(jobs)
    ]
    found = _arrays(moves, _moved_types(changed))
    if events:
        found += _arrays(events, _EVENT_TYPES)
    for of in shapes:
        found += _arrays(rows[of], _given_types(of))
    if deliveries:
        found += _arrays(deliveries, _MESSAGE_TYPES)
    found.append("on" if synced else "off")
    return _text(changed, shapes, bool(events), bool(deliveries)), found


def _changed(jobs: Sequence[Append]) -> tuple[str, ...]:
    """The columns of runs that some of `jobs` change."""
    names = {name for job in jobs for name in job.run_changes}
    return tuple(name for name in RUN_COLUMNS if name in names)


@lru_cache(maxsize=64)
def _moved_types(changed: tuple[str, ...]) -> Columns:
    return ("bigint", "text", "bigint", "bigint", "bigint", *_types("run", changed))


@lru_cache(maxsize=1024)
def _given_types(of: Shape) -> Columns:
    return ("bigint", *_types(of.table, of.columns))


def _arrays(rows: Sequence[tuple[Any, ...]], types: Columns) -> list[str]:
    """Array literals, column by column. Written here because the driver's way to write a list
    costs several times as much."""
    columns = zip(*rows, strict=True)
    return [
        _array_of_text(column) if kind == "text" else _array_of_numbers(column)
        for column, kind in zip(columns, types, strict=True)
    ]


def _array_of_numbers(cells: Sequence[Any]) -> str:
    if None in cells:
        cells = ["NULL" if cell is None else cell for cell in cells]
    return "{" + ",".join(map(str, cells)) + "}"


def _array_of_text(cells: Sequence[Any]) -> str:
    """All in one go: no text holds NUL, so that it can separate them until quotes are escaped."""
    if None in cells:
        quoted = ["NULL" if cell is None else _array_of_text((cell,))[1:-1] for cell in cells]
        return "{" + ",".join(quoted) + "}"
    joined = "\0".join(cells).replace("\\", "\\\\").replace('"', '\\"')
    return '{"' + joined.replace("\0", '","') + '"}'


@lru_cache(maxsize=512)
def _text(
    changed: tuple[str, ...], shapes: tuple[Shape, ...], events: bool, deliveries: bool
) -> bytes:
    parts, checks = [_moved(changed)], []
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
    # Once for the statement, not for each run; holds for this transaction only.
    once = ", ".join(("set_config('synchronous_commit', %s, true)", *checks))
    return (
        f"WITH {', '.join(parts)}, once AS MATERIALIZED (SELECT {once})"
        " SELECT item FROM once CROSS JOIN moved"
    ).encode()


def _unnest(types: Columns) -> str:
    return f"unnest({', '.join(f'%s::{kind}[]' for kind in types)})"


def _moved(changed: tuple[str, ...]) -> str:
    changes = "".join(f", {name} = coalesce(a.{name}, run.{name})" for name in changed)
    names = ", ".join(("item", "run_id", "expected", "fence", "version", *changed))
    return (
        f"moved AS (UPDATE run SET version = a.version{changes}"
        f" FROM {_unnest(_moved_types(changed))} AS a({names})"
        " WHERE run.run_id = a.run_id AND run.version = a.expected AND run.fence = a.fence"
        " RETURNING run.run_no, run.fence, a.item)"
    )


def _logged() -> str:
    names = ", ".join(_EVENT)
    given = ", ".join(f"e.{name}" for name in _EVENT)
    return (
        f"logged AS (INSERT INTO event (run_no, fence, {names}) SELECT m.run_no, m.fence, {given}"
        f" FROM {_unnest(_EVENT_TYPES)} AS e(item, {names}) JOIN moved m USING (item))"
    )


def _given(name: str, of: Shape) -> str:
    columns = ", ".join(("item", *of.columns))
    return f"{name} AS (SELECT * FROM {_unnest(_given_types(of))} AS g({columns}))"


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
    names = ", ".join(("item", "run_id", *_MESSAGE))
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
