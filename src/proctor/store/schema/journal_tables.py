"""The tables of the journal. Imported to generate the shipped files, never to run a journal.

Moments are microseconds since 1970 in UTC. JSON and exact decimals are text, because they must
come back as they went in: a database's own JSON type refuses NUL and changes numbers.

`run_no` stands for the run inside the database: it is short, and every table and index repeats it.
"""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Column,
    Identity,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    UniqueConstraint,
    text,
)

from proctor.kernel.agent_states import ACTION_STATES, ENDED_RUN_STATES, RUN_STATES

METADATA = MetaData()
EFFECTS = ("pure", "idempotent", "queryable", "non_repeatable")
_BY_KEY: dict[str, Any] = {"sqlite_with_rowid": False}
"""Rows lie where their key is: one tree of SQLite less to change with each action."""
_ROOM: dict[str, Any] = {"postgresql_with": {"fillfactor": 60}}
"""Room in each page for the next version of a row, so that a change of it touches no index."""
_NUMBER = BigInteger().with_variant(Integer(), "sqlite")  # SQLite numbers rows by INTEGER only


def _text(name: str, default: str | None = None, *, primary_key: bool = False) -> Column[Any]:
    """Text that is there; without a default it may not be empty either."""
    if default is None:
        check = CheckConstraint(f"{name} <> ''")
        return Column(name, Text, check, nullable=False, primary_key=primary_key)
    return Column(name, Text, nullable=False, server_default=text(f"'{default}'"))


def _optional(name: str) -> Column[Any]:
    return Column(name, Text)


def _integer(name: str, default: int | None = None, *, primary_key: bool = False) -> Column[Any]:
    given = None if default is None else text(str(default))
    return Column(
        name, BigInteger, nullable=False, server_default=given, primary_key=primary_key,
        autoincrement=False,
    )  # fmt: skip


def _optional_integer(name: str, kind: str = "integer") -> Column[Any]:
    return Column(name, BigInteger, info={"kind": kind})


def _moment(name: str) -> Column[Any]:
    return Column(name, BigInteger, nullable=False, info={"kind": "moment"})


def _json(name: str, default: str = "{}") -> Column[Any]:
    given = text(f"'{default}'")
    return Column(name, Text, nullable=False, server_default=given, info={"kind": "json"})


def _run_no(*, primary_key: bool = True) -> Column[Any]:
    """The run of a row. No foreign key: it is read from the run's own row in the same statement,
    runs are never deleted, and a check of each row would cost more than writing it."""
    return _integer("run_no", primary_key=primary_key)


def _numbered(name: str) -> Column[Any]:
    return Column(name, _NUMBER, Identity(), primary_key=True)


def _one_of(name: str, values: Sequence[str]) -> CheckConstraint:
    return CheckConstraint(f"{name} IN ({', '.join(repr(v) for v in values)})")


TASK = Table(
    "task", METADATA,
    _text("task_id", primary_key=True), _text("goal", ""), _json("scope"), _json("acceptance"),
    _json("body"), _moment("created_at"),
)  # fmt: skip

RUN = Table(
    "run", METADATA,
    _numbered("run_no"), _text("run_id"), _optional("task_id"), _optional("parent_run_id"),
    _optional("parent_action_id"), _text("state"), _integer("version", 0), _integer("fence", 0),
    _optional("owner"), _optional_integer("lease_until", "moment"), _text("config_digest", ""),
    _integer("permission_epoch", 0), _optional_integer("cancel_seq"), _json("body"),
    _moment("created_at"),
    UniqueConstraint("run_id"),
    _one_of("state", RUN_STATES),
    CheckConstraint("version >= 0 AND fence >= 0"),
    CheckConstraint("(owner IS NULL) = (lease_until IS NULL)"),
    **_ROOM,
)  # fmt: skip
Index("run_by_parent", RUN.c.parent_run_id, postgresql_where=RUN.c.parent_run_id.isnot(None),
      sqlite_where=RUN.c.parent_run_id.isnot(None))  # fmt: skip
_ENDED = [s for s in RUN_STATES if s in ENDED_RUN_STATES]
_OPEN_RUN = text(f"state NOT IN ({', '.join(repr(s) for s in _ENDED)})")
Index("run_open", RUN.c.state, sqlite_where=_OPEN_RUN, postgresql_where=_OPEN_RUN)

EVENT = Table(
    "event", METADATA,
    _run_no(primary_key=False), _integer("seq"), _text("event_id"), _text("kind"),
    _integer("version"), _integer("fence"), _moment("at"), _json("body"),
    UniqueConstraint("run_no", "seq"),
    CheckConstraint("seq > 0 AND version > 0"),
)  # fmt: skip

ACTION = Table(
    "action", METADATA,
    _run_no(), _text("action_id", primary_key=True), _text("op_key"), _text("tool"),
    _text("tool_version", ""), _text("effect"), _text("arguments_digest"), _text("state"),
    _integer("attempts", 0), _json("resources", "[]"), _optional("call_id"),
    _integer("last_seq", 0), _json("body"),
    UniqueConstraint("op_key"),
    _one_of("effect", EFFECTS),
    _one_of("state", ACTION_STATES),
    **_BY_KEY, **_ROOM,
)  # fmt: skip
ATTEMPT = Table(
    "attempt", METADATA,
    _run_no(), _text("action_id", primary_key=True), _integer("number", primary_key=True),
    _integer("fence"), _text("state"), _integer("started_seq"), _moment("started_at"),
    _optional_integer("ended_seq"), _optional_integer("ended_at", "moment"),
    _optional("external_ref"), _optional("process_id"), _json("body"),
    CheckConstraint("number > 0"),
    **_BY_KEY, **_ROOM,
)  # fmt: skip

WAIT = Table(
    "wait", METADATA,
    _run_no(), _text("wait_id", primary_key=True), _optional("action_id"), _text("kind"),
    _text("state"), _optional_integer("due_at", "moment"), _optional("subject_digest"),
    _json("body"),
)  # fmt: skip
_DUE = text("state = 'open' AND due_at IS NOT NULL")
Index("wait_due", WAIT.c.due_at, sqlite_where=_DUE, postgresql_where=_DUE)

INBOX = Table(
    "inbox", METADATA,
    _numbered("number"), _run_no(primary_key=False), _text("message_id"), _text("kind"),
    _json("body"), _moment("at"), _optional_integer("applied_seq"),
    UniqueConstraint("run_no", "message_id"),
)  # fmt: skip
Index("inbox_pending", INBOX.c.run_no, INBOX.c.number, sqlite_where=INBOX.c.applied_seq.is_(None),
      postgresql_where=INBOX.c.applied_seq.is_(None))  # fmt: skip

SNAPSHOT = Table(
    "snapshot", METADATA,
    _run_no(), _integer("seq", primary_key=True), _text("version"), _json("body"),
)  # fmt: skip

BLOB = Table(
    "blob", METADATA,
    _text("digest", primary_key=True), _integer("size"), _text("media_type"),
)  # fmt: skip

BLOB_PART = Table(
    "blob_part", METADATA,
    _text("digest", primary_key=True), _integer("number", primary_key=True),
    Column("data", LargeBinary, nullable=False),
)  # fmt: skip

BUDGET_ENTRY = Table(
    "budget_entry", METADATA,
    _run_no(), _text("source_id", primary_key=True), _text("kind", primary_key=True),
    Column("reserved", Text, nullable=False, info={"kind": "decimal"}),
    Column("settled", Text, info={"kind": "decimal"}), _text("state"), _json("body"),
    **_ROOM,
)  # fmt: skip

WORKSPACE = Table(
    "workspace", METADATA,
    _run_no(), _text("workspace_id", primary_key=True), _text("kind"), _optional("revision"),
    _text("state"), _json("body"),
)  # fmt: skip

PROCESS = Table(
    "process", METADATA,
    _run_no(), _text("process_id", primary_key=True), _text("host"), _integer("pid"),
    _optional("start_time"), _optional("boot_id"), _text("state"), _json("body"),
)  # fmt: skip

SCHEMA_VERSION = Table("schema_version", METADATA, _integer("version", primary_key=True))
"""One row: the number of the newest migration that was applied."""
