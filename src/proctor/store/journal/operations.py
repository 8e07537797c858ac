"""What changes a journal beside appends, as functions of a session. The same for every database."""

import hashlib
from collections.abc import Sequence

from proctor.store.journal.contract import (
    MOST_BODY_CHARS,
    MOST_NAME_CHARS,
    Appended,
    AppendResult,
    Conflict,
    Lease,
    Message,
    NewRun,
    Snapshot,
)
from proctor.store.journal.encoding import (
    integer,
    json_object,
    message_cells,
    microseconds,
    moment,
    text,
)
from proctor.store.journal.errors import MessageTooLong, RunIsOver, UnknownRun
from proctor.store.journal.jobs import Append, Params, Session

PART_BYTES = 256 * 1024
"""How large the parts of a blob are."""

_ADD_MESSAGE = (
    "INSERT INTO inbox (run_no, message_id, kind, body, at)"
    " SELECT run_no, ?, ?, ?, ? FROM run WHERE run_id = ?"
)
_ONCE = " ON CONFLICT (run_no, message_id) DO NOTHING RETURNING number"
TOUCH = "UPDATE schema_version SET version = version RETURNING version"
"""Changes nothing and must be committed: what a barrier without another change consists of."""


def unknown_run(run_id: str) -> UnknownRun:
    """The error that names the run."""
    return UnknownRun(
        f"there is no agent run {run_id!r} in this journal",
        hint="`runs` lists those that are there",
    )


def create(session: Session, run: NewRun, first: Append) -> AppendResult:
    """Make the run and append its beginning, or recognise it."""
    made = session.rows(
        "INSERT INTO run (run_id, created_at, state, task_id, parent_run_id, parent_action_id,"
        " config_digest, permission_epoch, body) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
        " ON CONFLICT (run_id) DO NOTHING RETURNING run_no",
        _new_run(run),
    )
    if not made:
        return instead(session, first)
    session.append([first])
    return first.answer or Appended(0)


def _new_run(run: NewRun) -> Params:
    optional = [
        None if value is None else text(value)
        for value in (run.task_id, run.parent_run_id, run.parent_action_id)
    ]
    return (
        text(run.run_id), microseconds(run.created_at), text(run.state), *optional,
        text(run.config_digest), integer(run.permission_epoch), json_object(run.body),
    )  # fmt: skip


def instead(session: Session, job: Append) -> Appended | Conflict:
    """The answer to an append whose comparison failed: done before, or a conflict."""
    found = session.rows("SELECT run_no, version, fence FROM run WHERE run_id = ?", (job.run_id,))
    if not found:
        raise unknown_run(job.run_id)
    run_no, version, fence = found[0]
    if job.events and version >= job.version:
        stored = session.rows(
            "SELECT event_id FROM event WHERE run_no = ? AND seq > ? AND seq <= ? ORDER BY seq",
            (run_no, job.expected, job.version),
        )
        if [event_id for (event_id,) in stored] == [event[1] for event in job.events]:
            return Appended(job.version)
    return Conflict(version, fence)


def claim(
    session: Session, wanted: tuple[str, str], ttl_s: float, dead_owner: str | None, now: int
) -> Lease | None:
    """Take a run; `wanted` is (run_id, owner)."""
    run_id, owner = wanted
    until = now + round(ttl_s * 1_000_000)
    found = session.rows(
        "UPDATE run SET fence = fence + 1, owner = ?, lease_until = ? WHERE run_id = ?"
        " AND (owner IS NULL OR lease_until <= ? OR owner = ? OR owner = ?) RETURNING fence",
        (owner, until, run_id, now, owner, owner if dead_owner is None else dead_owner),
    )
    if found:
        return Lease(run_id, owner, found[0][0], moment(until))
    if not session.rows("SELECT 1 FROM run WHERE run_id = ?", (run_id,)):
        raise unknown_run(run_id)
    return None


def renew(session: Session, lease: Lease, ttl_s: float, now: int) -> Lease | None:
    """Move the end of a lease whose fence is still the run's."""
    until = now + round(ttl_s * 1_000_000)
    found = session.rows(
        "UPDATE run SET lease_until = ? WHERE run_id = ? AND fence = ? AND owner = ?"
        " RETURNING fence",
        (until, lease.run_id, lease.fence, lease.owner),
    )
    return Lease(lease.run_id, lease.owner, lease.fence, moment(until)) if found else None


def release(session: Session, lease: Lease) -> bool:
    """Take the owner's name off the run."""
    found = session.rows(
        "UPDATE run SET owner = NULL, lease_until = NULL"
        " WHERE run_id = ? AND fence = ? AND owner = ? RETURNING fence",
        (lease.run_id, lease.fence, lease.owner),
    )
    return bool(found)


def bounded(message: Message) -> tuple[str, str, str]:
    """Id, kind and body of a message for an inbox. Raises MessageTooLong."""
    name, kind, body, _ = message_cells(message)
    if len(body) > MOST_BODY_CHARS:
        raise MessageTooLong(
            f"a message of {len(body):,} characters of JSON, at most {MOST_BODY_CHARS:,} are taken",
            hint="say it shorter, or name a file or an address that holds it",
        )
    if max(len(name), len(kind)) > MOST_NAME_CHARS:
        raise MessageTooLong(f"the id and kind of a message have at most {MOST_NAME_CHARS} letters")
    return name, kind, body


def add_message(session: Session, run_id: str, cells: Params, unless: Sequence[str] = ()) -> bool:
    """Put a message into an inbox, unless the run is in one of these states. Either whoever moves
    the run there finds the message afterwards, or it is refused: the row is held meanwhile."""
    condition = ""
    if unless:
        condition = f" AND state NOT IN ({', '.join('?' * len(unless))}){session.holding_rows}"
    if session.rows(_ADD_MESSAGE + condition + _ONCE, (*cells, run_id, *unless)):
        return True
    found = session.rows("SELECT run_no, state FROM run WHERE run_id = ?", (run_id,))
    if not found:
        raise unknown_run(run_id)
    run_no, state = found[0]
    there = "SELECT 1 FROM inbox WHERE run_no = ? AND message_id = ?"
    if state in unless and not session.rows(there, (run_no, cells[0])):
        raise RunIsOver(
            f"agent run {run_id!r} has ended: {state}",
            hint="nobody reads what is said to it any more; submit another run",
        )
    session.rows(TOUCH)  # it is acknowledged now, and may have come lazily before
    return False


def save_snapshot(session: Session, run_id: str, fence: int, snapshot: Snapshot) -> bool:
    """Keep a snapshot and the one before it."""
    found = session.rows(
        "INSERT INTO snapshot (run_no, seq, version, body)"
        " SELECT run_no, ?, ?, ? FROM run WHERE run_id = ? AND fence = ? AND version >= ?"
        " ON CONFLICT (run_no, seq) DO UPDATE SET version = excluded.version, body = excluded.body"
        " RETURNING run_no",
        (
            integer(snapshot.seq), text(snapshot.version), json_object(snapshot.body),
            run_id, fence, snapshot.seq,
        ),
    )  # fmt: skip
    if not found:
        return False
    (run_no,) = found[0]
    session.rows(
        "DELETE FROM snapshot WHERE run_no = ? AND seq <"
        " (SELECT seq FROM snapshot WHERE run_no = ? ORDER BY seq DESC LIMIT 1 OFFSET 1)"
        " RETURNING seq",
        (run_no, run_no),
    )
    return True


def has_blob(session: Session, digest: str) -> bool:
    """Whether the whole blob is there."""
    return bool(session.rows("SELECT 1 FROM blob WHERE digest = ?", (digest,)))


def put_part(session: Session, digest: str, number: int, data: bytes) -> bool:
    """Keep a part of a blob."""
    session.rows(
        "INSERT INTO blob_part (digest, number, data) VALUES (?, ?, ?)"
        " ON CONFLICT (digest, number) DO NOTHING RETURNING number",
        (digest, number, data),
    )
    return True


def finish_blob(session: Session, digest: str, size: int, media_type: str) -> bool:
    """Say that all parts are there."""
    session.rows(
        "INSERT INTO blob (digest, size, media_type) VALUES (?, ?, ?)"
        " ON CONFLICT (digest) DO NOTHING RETURNING digest",
        (digest, size, media_type),
    )
    return True


def digest_of(data: bytes) -> str:
    """`sha256:…` of a blob, computed where it is called (it is long work for large blobs)."""
    return "sha256:" + hashlib.sha256(data).hexdigest()
