"""The journal of agent runs: what a store promises, whichever database is below.

A journal keeps, for each agent run, a log of events that only grows, and rows: the current view of
that log (actions, attempts, waits, …), written in the same transaction as the events they follow
from. The log can rebuild the rows; nothing rebuilds the log.

**Stores hold no rule.** The runtime decides; a store compares and swaps. `append` commits if the
run still has the version and the fence that the caller saw, and otherwise changes nothing.

**Who may write.** A run has one owner: whoever holds its `Lease`. `claim` raises the run's fence by
one, so whatever a former owner still sends carries an old fence and is refused, however late it
arrives and whatever clocks say. Anybody may read, and anybody may put a message into a run's inbox;
only the owner applies messages.

**What survives.** Everything that an awaited call answered survives the end of the process (kill -9
included). `Durability.BARRIER` survives the loss of power too, together with everything this
journal answered before it. Without a barrier the last moments before a loss of power may be missing
from the end of the log, never from its middle.

**Time** is wall time in UTC with microseconds. Leases are judged by the journal's clock: the
database's own time on PostgreSQL, the machine's on SQLite.

All methods are awaitable and may be called from any event loop, also at once. A call that is
cancelled may still take effect; an append is repeated safely. Errors (`errors.py`): `UnknownRun`,
`RunIsOver`, `MessageTooLong`, `ConstraintBroken`, `JournalReadOnly`, `JournalClosed`,
`UnreadableEvent`, all of them `StorageError`s, which is also raised by itself when the database
fails.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from proctor.store.journal.values import (
    ALL_RUNS,
    MOST_BODY_CHARS,
    MOST_NAME_CHARS,
    Access,
    AnyRow,
    Appended,
    AppendResult,
    CommitUnknown,
    Conflict,
    Durability,
    Encoded,
    Event,
    Form,
    FormedRow,
    Lease,
    Message,
    NewRun,
    Row,
    RunFilter,
    RunRow,
    Snapshot,
    StoredEvent,
    StoredMessage,
    Value,
)

__all__ = [
    "ALL_RUNS",
    "MOST_BODY_CHARS",
    "MOST_NAME_CHARS",
    "Access",
    "AnyRow",
    "AppendResult",
    "Appended",
    "CommitUnknown",
    "Conflict",
    "Durability",
    "Encoded",
    "Event",
    "Form",
    "FormedRow",
    "Journal",
    "Lease",
    "Message",
    "NewRun",
    "Row",
    "RunFilter",
    "RunRow",
    "Snapshot",
    "StoredEvent",
    "StoredMessage",
    "Value",
]


class Journal(Protocol):
    """A store of agent runs. See the module's text for what it promises."""

    @property
    def access(self) -> Access:
        """What this opening may do."""
        ...

    @property
    def identity(self) -> str:
        """What tells this journal from others in this process: the same for every opening of it."""
        ...

    @property
    def notice(self) -> str | None:
        """What a person should know about this opening, None in the usual case. (SQLite on a file
        system without shared locks: control commands are off.)"""
        ...

    async def create_run(
        self, run: NewRun, events: Sequence[Event] = (), rows: Sequence[AnyRow] = ()
    ) -> AppendResult:
        """Make a run with its first events and rows (its task among them), with a barrier.

        Repeated with the same event ids it answers the same version. Conflict: a run of this id
        exists and began otherwise. A new run has no owner and fence 0.
        """
        ...

    async def append(
        self,
        run_id: str,
        expected_version: int,
        fence: int,
        events: Sequence[Event],
        rows: Sequence[AnyRow] = (),
        durability: Durability = Durability.BARRIER,
        deliveries: Sequence[Message] = (),
    ) -> AppendResult:
        """Commit `events`, `rows` and `deliveries` together if the run is at `expected_version`
        and `fence`; otherwise nothing.

        `deliveries` go to the inboxes of any runs (a child's result to its parent, a cancel to the
        children); those already there are passed over. The same append repeated answers Appended
        with the same version, also after others have appended and after the fence has moved: it
        did happen. An append without events compares too and keeps the version; it cannot be
        recognised. Raises UnknownRun, ConstraintBroken (nothing changed; a bug or a forged id).
        """
        ...

    async def claim(
        self, run_id: str, owner: str, ttl_s: float, *, dead_owner: str | None = None
    ) -> Lease | None:
        """Take the run for `ttl_s` seconds with a new fence, None if another holds it.

        Free for claiming: no owner, a lease that is over, a lease of the same `owner` (who loses
        the old fence), or one whose holder is exactly `dead_owner`, which the caller knows to be
        dead (`proctor.store.leases.is_dead`). A barrier. Raises UnknownRun.
        """
        ...

    async def renew(self, lease: Lease, ttl_s: float) -> Lease | None:
        """The same lease for `ttl_s` seconds from now; None if another has claimed the run, also
        when the lease was over in between and nobody came. Renew at a third of the time."""
        ...

    async def release(self, lease: Lease) -> bool:
        """Give the run up; False if it was another's already. The fence stays."""
        ...

    async def run_row(self, run_id: str) -> RunRow | None:
        """The run as it stands, None if there is none of this id."""
        ...

    async def runs(
        self, which: RunFilter = ALL_RUNS, *, after: str | None = None, limit: int = 100
    ) -> list[RunRow]:
        """A page of runs by creation; `after` is the run_id of the last one seen."""
        ...

    async def read_events(
        self, run_id: str, after: int = 0, limit: int | None = None
    ) -> list[StoredEvent]:
        """Events with seq > `after` in order, all of them or the first `limit`. An unknown run has
        none. Raises UnreadableEvent for one that is newer than this program."""
        ...

    async def read_rows(self, table: str, run_id: str) -> list[Row]:
        """The rows of a run in `table` ordered by key (the run's own task for `task`, messages for
        `inbox`), every column given."""
        ...

    async def due_waits(self, before: datetime, limit: int = 100) -> list[tuple[str, Row]]:
        """Open waits of all runs with `due_at` ≤ `before`, the earliest first: (run_id, row)."""
        ...

    async def inbox_add(self, message: Message, *, unless: Sequence[str] = ()) -> bool:
        """Put a message into a run's inbox, with a barrier; True if it is new, False if it was
        there already. Needs no lease. It is dated by the journal's clock, whatever the sender's
        says. A new one for a run in one of the states `unless` is not added: either whoever
        appended that state finds it afterwards, or it raises RunIsOver. Its body has at most
        `MOST_BODY_CHARS` characters as JSON, its id and its kind `MOST_NAME_CHARS`, else
        MessageTooLong (deliveries have no such limit). Raises UnknownRun."""
        ...

    async def inbox_pending(
        self, run_id: str, *, after: int = 0, limit: int | None = None
    ) -> list[StoredMessage]:
        """Messages with number > `after` that nobody applied, by arrival: all of them, or a page of
        at most `limit`, shorter where they are long (empty only when there is none). One that
        comes later may have a lower number than one that was read. The owner applies one by an
        append with `Row("inbox", {"message_id": …}, {"applied_seq": …})`."""
        ...

    async def save_snapshot(self, run_id: str, fence: int, snapshot: Snapshot) -> bool:
        """Keep the view at `snapshot.seq`, lazily; False if the fence is not the run's or the seq
        is beyond its version. The newest two are kept."""
        ...

    async def load_snapshot(self, run_id: str, *, version: str | None = None) -> Snapshot | None:
        """The newest snapshot, of this `version` if one is given; None if there is none."""
        ...

    async def put_blob(self, data: bytes, media_type: str = "application/octet-stream") -> str:
        """Keep bytes by their digest (`sha256:…`), once; lazily: the append that names it orders
        it. Any size that memory holds; kept in parts, so that appends go between them."""
        ...

    async def get_blob(
        self, digest: str, *, offset: int = 0, length: int | None = None
    ) -> bytes | None:
        """The bytes (or a range of them), None if there are none of this digest. A whole blob is
        checked against its digest; damage raises StorageError."""
        ...

    async def sync(self) -> None:
        """A barrier by itself: everything answered before is on disk afterwards."""
        ...

    async def close(self) -> None:
        """Finish what was handed in, then close; SQLite leaves one file. Idempotent; afterwards
        every call raises JournalClosed."""
        ...
