"""What is read from a journal, as functions of a session. The same for every database.

Names that are put into a statement are constants of the schema; a caller's values are only bound.
"""
# ruff: noqa: S608

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from proctor.kernel import jsontext
from proctor.kernel.errors import StorageError
from proctor.store.journal.contract import (
    Row,
    RunFilter,
    RunRow,
    Snapshot,
    StoredEvent,
    StoredMessage,
)
from proctor.store.journal.encoding import VIEW, microseconds, moment, read_row
from proctor.store.journal.errors import ConstraintBroken, UnreadableEvent
from proctor.store.journal.jobs import Session
from proctor.store.journal.operations import PART_BYTES, digest_of
from proctor.store.journal.upgrades import Upgrades
from proctor.store.schema.journal_columns import COLUMNS, KEYS

_RUN = (
    "SELECT run_id, task_id, parent_run_id, parent_action_id, state, version, fence, owner,"
    " lease_until, config_digest, permission_epoch, cancel_seq, created_at, body FROM run"
)
_DECODED_AT_ONCE = 500
_CALLED = (
    "(EXISTS (SELECT 1 FROM inbox i WHERE i.run_no = run.run_no AND i.applied_seq IS NULL)"
    " OR EXISTS (SELECT 1 FROM wait w WHERE w.run_no = run.run_no AND w.state = 'open'"
    " AND w.due_at <= ?))"
)
_PAGE_CHARS = 4 * 2**20  # of messages that are decoded at once


def run_row(session: Session, run_id: str) -> RunRow | None:
    """One run."""
    found = session.rows(f"{_RUN} WHERE run_id = ?", (run_id,))
    return _run(found[0]) if found else None


def runs(
    session: Session, which: RunFilter, after: str | None, limit: int, now: int
) -> list[RunRow]:
    """A page of runs."""
    where = ["run_no > coalesce((SELECT run_no FROM run WHERE run_id = ?), 0)"]
    bound: list[str | int] = [after or ""]
    for name, value in (("task_id", which.task_id), ("parent_run_id", which.parent_run_id)):
        if value is not None:
            where.append(f"{name} = ?")
            bound.append(value)
    if which.states is not None:
        where.append(f"state IN ({', '.join('?' * len(which.states)) or 'NULL'})")
        bound += which.states
    if which.claimable:
        where.append("(owner IS NULL OR lease_until <= ?)")
        bound.append(now)
    if which.with_mail:  # of the few messages, not of the many runs
        where.append("run_no IN (SELECT run_no FROM inbox WHERE applied_seq IS NULL)")
    if which.called_by is not None:
        where.append(_CALLED)
        bound.append(microseconds(which.called_by))
    sql = f"{_RUN} WHERE {' AND '.join(where)} ORDER BY run_no LIMIT ?"
    return [_run(values) for values in session.rows(sql, (*bound, limit))]


def _run(values: tuple[Any, ...]) -> RunRow:
    run_id, task_id, parent, parent_action, state, version, fence, owner = values[:8]
    lease_until, config_digest, permission_epoch, cancel_seq, created_at, body = values[8:]
    return RunRow(
        run_id, task_id, parent, parent_action, state, version, fence, owner,
        None if lease_until is None else moment(lease_until), config_digest, permission_epoch,
        cancel_seq, moment(created_at), jsontext.loads(body),
    )  # fmt: skip


def events(
    session: Session, run_id: str, after: int, limit: int | None, upgrades: Upgrades
) -> list[StoredEvent]:
    """A stretch of a run's log, upgraded, without a gap."""
    sql = (
        "SELECT seq, event_id, kind, version, fence, at, body FROM event"
        " WHERE run_no = (SELECT run_no FROM run WHERE run_id = ?) AND seq > ? ORDER BY seq"
    )
    bound: tuple[str | int, ...] = (run_id, after)
    if limit is not None:
        sql, bound = f"{sql} LIMIT ?", (*bound, limit)
    stored = session.rows(sql, bound)
    found = []
    for start in range(0, len(stored), _DECODED_AT_ONCE):
        part = stored[start : start + _DECODED_AT_ONCE]
        bodies = _bodies(run_id, part)
        for expected, values, body in zip(
            range(after + start + 1, after + start + len(part) + 1), part, bodies, strict=True
        ):
            seq, event_id, kind, version, fence, at, _ = values
            if seq != expected:
                raise UnreadableEvent(
                    f"the log of agent run {run_id!r} has a gap before event {seq}"
                )
            if upgrades.concerns(kind, version):
                version, body = upgrades.apply(kind, version, body)
            found.append(StoredEvent(event_id, kind, version, body, moment(at), run_id, seq, fence))
    return found


def _bodies(run_id: str, part: Sequence[tuple[Any, ...]]) -> list[Mapping[str, Any]]:
    """The bodies of some events. One text is decoded in half the time of many."""
    try:
        found = jsontext.loads(f"[{','.join([values[-1] for values in part])}]")
        if len(found) == len(part):
            bodies: list[Mapping[str, Any]] = found
            return bodies
        reason = "a body is not one JSON value"
    except (jsontext.JsonError, TypeError) as error:
        reason = str(error)
    first, last = part[0][0], part[-1][0]
    raise UnreadableEvent(
        f"the log of agent run {run_id!r} is damaged between events {first} and {last}: {reason}",
        hint="restore the journal from a copy",
    )


def rows(session: Session, table: str, run_id: str) -> list[Row]:
    """A run's rows in a table of the view."""
    if table == "run":
        names = [c for c in COLUMNS["run"] if c not in ("run_no", "run_id")]
        sql = f"SELECT {', '.join(names)} FROM run WHERE run_id = ?"
    elif table == "task":
        names = list(COLUMNS["task"])
        of_run = "(SELECT task_id FROM run WHERE run_id = ?)"
        sql = f"SELECT {', '.join(names)} FROM task WHERE task_id = {of_run}"
    elif table in VIEW:
        names = [c for c in COLUMNS[table] if c != "run_no"]
        of_run = "(SELECT run_no FROM run WHERE run_id = ?)"
        order = "number" if table == "inbox" else ", ".join(KEYS[table])
        sql = f"SELECT {', '.join(names)} FROM {table} WHERE run_no = {of_run} ORDER BY {order}"
    else:
        raise ConstraintBroken(f"there is no table {table!r:.80} of rows")
    return [read_row(table, names, values) for values in session.rows(sql, (run_id,))]


def due_waits(session: Session, before: datetime, limit: int) -> list[tuple[str, Row]]:
    """Open waits whose time has come."""
    names = [c for c in COLUMNS["wait"] if c != "run_no"]
    found = session.rows(
        f"SELECT run_id, {', '.join(f'w.{n}' for n in names)} FROM wait w JOIN run USING (run_no)"
        " WHERE w.state = 'open' AND due_at IS NOT NULL AND due_at <= ? ORDER BY due_at LIMIT ?",
        (microseconds(before), limit),
    )
    return [(values[0], read_row("wait", names, values[1:])) for values in found]


def pending(session: Session, run_id: str, after: int, limit: int | None) -> list[StoredMessage]:
    """Messages that nobody applied, or a page of them that memory is sure to hold."""
    sql = (
        "SELECT message_id, kind, body, at, number FROM inbox WHERE applied_seq IS NULL"
        " AND run_no = (SELECT run_no FROM run WHERE run_id = ?) AND number > ? ORDER BY number"
    )
    bound: tuple[str | int, ...] = (run_id, after)
    if limit is not None:
        sql, bound = f"{sql} LIMIT ?", (*bound, limit)
    found: list[StoredMessage] = []
    chars = 0
    for name, kind, body, at, number in session.rows(sql, bound):
        chars += len(body)
        if limit is not None and found and chars > _PAGE_CHARS:
            break
        loaded = jsontext.loads(body)
        found.append(StoredMessage(run_id, name, kind, loaded, moment(at), number, None))
    return found


def snapshot(session: Session, run_id: str, version: str | None) -> Snapshot | None:
    """The newest snapshot."""
    of_run = "run_no = (SELECT run_no FROM run WHERE run_id = ?)"
    sql, bound = f"SELECT seq, version, body FROM snapshot WHERE {of_run}", (run_id,)
    if version is None:
        found = session.rows(f"{sql} ORDER BY seq DESC LIMIT 1", bound)
    else:
        found = session.rows(f"{sql} AND version = ? ORDER BY seq DESC LIMIT 1", (*bound, version))
    if not found:
        return None
    seq, named, body = found[0]
    return Snapshot(seq, named, jsontext.loads(body))


def blob(session: Session, digest: str, offset: int, length: int | None) -> bytes | None:
    """A range of a blob; a whole one is checked."""
    found = session.rows("SELECT size FROM blob WHERE digest = ?", (digest,))
    if not found:
        return None
    (size,) = found[0]
    end = size if length is None else min(size, offset + length)
    if end <= offset:
        return b"" if size else _checked(b"", digest)
    first = offset // PART_BYTES
    parts = session.rows(
        "SELECT data FROM blob_part WHERE digest = ? AND number >= ? AND number <= ?"
        " ORDER BY number",
        (digest, first, (end - 1) // PART_BYTES),
    )
    data = b"".join(part for (part,) in parts)
    begin = offset - first * PART_BYTES
    data = data[begin : begin + end - offset]
    return _checked(data, digest) if (offset, end) == (0, size) else data


def _checked(data: bytes, digest: str) -> bytes:
    if digest_of(data) != digest:
        raise StorageError(
            f"blob {digest} is damaged in the journal",
            hint="restore the journal from a copy, or run the action again",
        )
    return data
