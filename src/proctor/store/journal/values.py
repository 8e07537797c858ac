"""The values of the journal's contract, which re-exports them and says what they are for."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from enum import Enum
from typing import Any, TypeAlias

from msgspec import Struct, field

Value: TypeAlias = "str | int | Decimal | datetime | list[Any] | dict[str, Any] | Encoded | None"
"""What a column holds: text, integers, exact decimals, moments, and JSON values in JSON columns."""


class Durability(Enum):
    """`LAZY`: survives the process. `BARRIER`: synced to disk before the call answers."""

    LAZY = "lazy"
    BARRIER = "barrier"


class Access(Enum):
    """What an opened journal may do.

    `OWN`: everything. `CONTROL`: read, and add to inboxes. `READ`: read only. A call beyond it
    raises JournalReadOnly.
    """

    OWN = "own"
    CONTROL = "control"
    READ = "read"


class Encoded(Struct, frozen=True, gc=False):
    """A JSON value whose text is known already, in the place of that value."""

    text: str


class Event(Struct, frozen=True):
    """Something that happened in a run, as the caller hands it in.

    `event_id` is made by the caller and unique in its run: it is how a repeated append is
    recognised. `version` is the schema version of `body` for this `kind`, from 1. `body` is a JSON
    object (or its text); what is read back is what JSON makes of it (tuples become lists). `at` is
    aware.
    """

    event_id: str
    kind: str
    version: int
    body: Mapping[str, Any] | Encoded
    at: datetime


class StoredEvent(Struct, frozen=True, gc=False):
    """An event in the log. `seq` counts from 1 without gaps and never restarts; `fence` is its
    writer's. `version` and `body` are upgraded to the newest schema (see `upgrades.py`)."""

    event_id: str
    kind: str
    version: int
    body: Mapping[str, Any]
    at: datetime
    run_id: str
    seq: int
    fence: int


class Row(Struct, frozen=True):
    """One row of a table of the view, identified by `key` within its run.

    Tables, their keys, and values (`!`: needed when the row is new):

    - task (task_id; the same for all runs): goal, scope, acceptance, body, created_at!
    - run (no key): state, config_digest, permission_epoch, cancel_seq, body
    - action (action_id): op_key!, tool!, tool_version, effect!, arguments_digest!, state!,
      attempts, resources, call_id, last_seq, body
    - attempt (action_id, number): fence!, state!, started_seq!, started_at!, ended_seq, ended_at,
      external_ref, process_id, body
    - wait (wait_id): action_id, kind!, state!, due_at, subject_digest, body
    - inbox (message_id): applied_seq; the rows are made by `inbox_add` and deliveries only
    - budget_entry (source_id, kind): reserved!, settled, state!, body
    - workspace (workspace_id): kind!, revision, state!, body
    - process (process_id): host!, pid!, start_time, boot_id, state!, body

    `append` writes it: a new row takes defaults for what is not given; an existing one keeps the
    columns that are not given. A row that does not exist and lacks a needed value is
    ConstraintBroken. Defaults: numbers 0, JSON `{}` (resources `[]`), texts and digests ``''``,
    everything else None. `scope`, `acceptance`, `resources` and `body` are JSON; `reserved` and
    `settled` exact decimals; `*_at` moments. `action.op_key` is unique over the whole journal.
    `state` of run and action is a name of `proctor.kernel.agent_states`, `effect` one of pure,
    idempotent, queryable, non_repeatable; an open wait has the state `open`. Texts hold no NUL.
    Version, fence, owner and lease of a run are not writable as a row.
    """

    table: str
    key: Mapping[str, Any]
    values: Mapping[str, Any]


class Form(Struct, frozen=True, eq=False):
    """The columns that rows of one kind give: `keys` as the schema orders them, then `values`. A
    constant, made once and compared by identity."""

    table: str
    keys: tuple[str, ...]
    values: tuple[str, ...]

    @property
    def width(self) -> int:
        """How many cells a row of it has."""
        return len(self.keys) + len(self.values)


class FormedRow(Struct, frozen=True, gc=False):
    """A `Row` whose columns are named by a form: for what is written with every append."""

    form: Form
    cells: tuple[Value, ...]

    @property
    def table(self) -> str:
        return self.form.table

    @property
    def key(self) -> Mapping[str, Any]:
        return dict(zip(self.form.keys, self.cells, strict=False))

    @property
    def values(self) -> Mapping[str, Any]:
        keys, values = self.form.keys, self.form.values
        return dict(zip(values, self.cells[len(keys) :], strict=True))


AnyRow: TypeAlias = Row | FormedRow


MOST_BODY_CHARS = 256 * 1024
"""Characters of JSON in a message that somebody puts into an inbox."""
MOST_NAME_CHARS = 500
"""Characters of such a message's id, and of its kind."""


class Message(Struct, frozen=True):
    """An entry for a run's inbox: an answer, an approval, a request to cancel, a child's result.

    `message_id` is made by the sender and unique in the run: the same message counts once. `at`
    dates a delivery; `inbox_add` puts the time of arrival by the journal's clock.
    """

    run_id: str
    message_id: str
    kind: str
    body: Mapping[str, Any]
    at: datetime


class StoredMessage(Struct, frozen=True, gc=False):
    """A message that arrived. `number` orders the messages of all runs by arrival; `applied_seq`
    is the event that took note of it, None while nobody has."""

    run_id: str
    message_id: str
    kind: str
    body: Mapping[str, Any]
    at: datetime
    number: int
    applied_seq: int | None


class NewRun(Struct, frozen=True):
    """What a run begins with. `body` is free for the runtime."""

    run_id: str
    created_at: datetime
    state: str = "ready"
    task_id: str | None = None
    parent_run_id: str | None = None
    parent_action_id: str | None = None
    config_digest: str = ""
    permission_epoch: int = 0
    body: Mapping[str, Any] = field(default_factory=dict)


class RunRow(Struct, frozen=True, gc=False):
    """A run as it stands. `version` is the seq of its last event, 0 before the first; `fence` is 0
    until it is claimed. `owner` and `lease_until` are None when nobody holds it."""

    run_id: str
    task_id: str | None
    parent_run_id: str | None
    parent_action_id: str | None
    state: str
    version: int
    fence: int
    owner: str | None
    lease_until: datetime | None
    config_digest: str
    permission_epoch: int
    cancel_seq: int | None
    created_at: datetime
    body: Mapping[str, Any]


class Lease(Struct, frozen=True, gc=False):
    """The right to append to a run until somebody else claims it; `until` is when others may."""

    run_id: str
    owner: str
    fence: int
    until: datetime


class Snapshot(Struct, frozen=True):
    """The view at `seq`. `version` names the code that made `body`: a reader that does not know it
    replays the log instead."""

    seq: int
    version: str
    body: Mapping[str, Any]


class Appended(Struct, frozen=True, gc=False):
    """Committed; `version` is the seq of the append's last event, also when it is repeated."""

    version: int


class Conflict(Struct, frozen=True, gc=False):
    """Nothing changed: the run is at this version and fence, not at those that were expected."""

    version: int
    fence: int


class CommitUnknown(Struct, frozen=True, gc=False):
    """The connection or the disk failed during the commit: it may have happened or not.

    Repeat the same append (same event ids, same expected version): it answers Appended if it had
    happened, commits it if it had not, and Conflict if somebody else came between.
    """

    reason: str


AppendResult: TypeAlias = Appended | Conflict | CommitUnknown


class RunFilter(Struct, frozen=True, gc=False):
    """Which runs `runs` lists; None is any. `claimable`: only those whose lease is free or over.
    `called_by`: only those that something calls for: a message that nobody applied, or an open wait
    with `due_at` ≤ this moment. `with_mail`: only those with a message that nobody applied."""

    states: Sequence[str] | None = None
    task_id: str | None = None
    parent_run_id: str | None = None
    claimable: bool = False
    called_by: datetime | None = None
    with_mail: bool = False


ALL_RUNS = RunFilter()
