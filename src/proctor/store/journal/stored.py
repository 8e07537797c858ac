"""The contract over any database: encodes, hands jobs to the right thread, awaits answers.

One lane writes, so that runs share transactions; another reads, so that a long page waits for no
writer. Which connections they use is the opener's business.
"""

import asyncio
from collections.abc import Callable, Sequence
from datetime import datetime
from types import TracebackType
from typing import Self, TypeVar

from proctor.kernel.clock import Clock
from proctor.store.journal import operations, queries
from proctor.store.journal.contract import (
    ALL_RUNS,
    Access,
    AnyRow,
    AppendResult,
    Durability,
    Event,
    Lease,
    Message,
    NewRun,
    Row,
    RunFilter,
    RunRow,
    Snapshot,
    StoredEvent,
    StoredMessage,
)
from proctor.store.journal.encoding import microseconds, text
from proctor.store.journal.errors import JournalReadOnly
from proctor.store.journal.jobs import Append, Call, Session
from proctor.store.journal.lane import Lane
from proctor.store.journal.upgrades import Upgrades

T = TypeVar("T")
_HASHED_AT_ONCE = 64 * 1024


class StoredJournal:
    """A `Journal`; made by `open_sqlite` and `open_postgresql`. Also an asynchronous context."""

    def __init__(
        self,
        writing: Sequence[Lane],
        reading: Lane,
        access: Access,
        notice: str | None,
        clock: Clock,
        upgrades: Upgrades,
        behind_us: int = 0,
        identity: str = "",
    ) -> None:
        """Lanes are started; `reading` may be one of `writing`. A run is always written by the same
        one of `writing`. `behind_us`: microseconds that the clock is behind the database's.
        `identity`: by default this opening is told from every other."""
        self._identity = identity or f"opening:{id(self)}"
        self._writing = tuple(writing)
        self._reading = reading
        self._access = access
        self._notice = notice
        self._clock = clock
        self._upgrades = upgrades
        self._behind_us = behind_us

    @property
    def access(self) -> Access:
        """What this opening may do."""
        return self._access

    @property
    def identity(self) -> str:
        """What tells this journal from others in this process."""
        return self._identity

    @property
    def notice(self) -> str | None:
        """What a person should know about this opening, None in the usual case."""
        return self._notice

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def create_run(
        self, run: NewRun, events: Sequence[Event] = (), rows: Sequence[AnyRow] = ()
    ) -> AppendResult:
        """See Journal."""
        first = Append(run.run_id, 0, 0, events)
        first.add_rows(rows)
        return await self._write(
            "create", lambda s: operations.create(s, run, first), run.run_id, barrier=True
        )

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
        """See Journal."""
        self._check(Access.OWN)
        job = Append(run_id, expected_version, fence, events, durability)
        if rows:
            job.add_rows(rows)
        if deliveries:
            job.add_deliveries(deliveries)
        answer: AppendResult = await self._lane_of(run_id).do(job)
        return answer

    async def claim(
        self, run_id: str, owner: str, ttl_s: float, *, dead_owner: str | None = None
    ) -> Lease | None:
        """See Journal."""
        wanted, now = (text(run_id), text(owner)), self._now_us()
        return await self._write(
            "claim", lambda s: operations.claim(s, wanted, ttl_s, dead_owner, now), run_id,
            barrier=True,
        )  # fmt: skip

    async def renew(self, lease: Lease, ttl_s: float) -> Lease | None:
        """See Journal."""
        now = self._now_us()
        return await self._write(
            "renew", lambda s: operations.renew(s, lease, ttl_s, now), lease.run_id, barrier=True
        )

    async def release(self, lease: Lease) -> bool:
        """See Journal."""
        return await self._write(
            "release", lambda s: operations.release(s, lease), lease.run_id, barrier=True
        )

    async def run_row(self, run_id: str) -> RunRow | None:
        """See Journal."""
        return await self._read(lambda s: queries.run_row(s, run_id))

    async def runs(
        self, which: RunFilter = ALL_RUNS, *, after: str | None = None, limit: int = 100
    ) -> list[RunRow]:
        """See Journal."""
        now = self._now_us()
        return await self._read(lambda s: queries.runs(s, which, after, limit, now))

    async def read_events(
        self, run_id: str, after: int = 0, limit: int | None = None
    ) -> list[StoredEvent]:
        """See Journal."""
        return await self._read(lambda s: queries.events(s, run_id, after, limit, self._upgrades))

    async def read_rows(self, table: str, run_id: str) -> list[Row]:
        """See Journal."""
        return await self._read(lambda s: queries.rows(s, table, run_id))

    async def due_waits(self, before: datetime, limit: int = 100) -> list[tuple[str, Row]]:
        """See Journal."""
        return await self._read(lambda s: queries.due_waits(s, before, limit))

    async def inbox_add(self, message: Message, *, unless: Sequence[str] = ()) -> bool:
        """See Journal."""
        run_id, cells = text(message.run_id), (*operations.bounded(message), self._now_us())
        return await self._write(
            "inbox", lambda s: operations.add_message(s, run_id, cells, unless), run_id,
            barrier=True, needs=Access.CONTROL,
        )  # fmt: skip

    async def inbox_pending(
        self, run_id: str, *, after: int = 0, limit: int | None = None
    ) -> list[StoredMessage]:
        """See Journal."""
        return await self._read(lambda s: queries.pending(s, run_id, after, limit))

    async def save_snapshot(self, run_id: str, fence: int, snapshot: Snapshot) -> bool:
        """See Journal."""
        return await self._write(
            "snapshot", lambda s: operations.save_snapshot(s, run_id, fence, snapshot), run_id
        )

    async def load_snapshot(self, run_id: str, *, version: str | None = None) -> Snapshot | None:
        """See Journal."""
        return await self._read(lambda s: queries.snapshot(s, run_id, version))

    async def put_blob(self, data: bytes, media_type: str = "application/octet-stream") -> str:
        """See Journal."""
        self._check(Access.OWN)
        kind = text(media_type)
        if len(data) <= _HASHED_AT_ONCE:
            digest = operations.digest_of(data)
        else:
            digest = await self._read(lambda _: operations.digest_of(data))
        if await self._read(lambda s: operations.has_blob(s, digest)):
            return digest
        for number, start in enumerate(range(0, len(data), operations.PART_BYTES)):
            await self._put_part(digest, number, data[start : start + operations.PART_BYTES])
        await self._write("blob", lambda s: operations.finish_blob(s, digest, len(data), kind))
        return digest

    async def _put_part(self, digest: str, number: int, data: bytes) -> None:
        await self._write("blob", lambda s: operations.put_part(s, digest, number, data))

    async def get_blob(
        self, digest: str, *, offset: int = 0, length: int | None = None
    ) -> bytes | None:
        """See Journal."""
        start = max(0, offset)
        return await self._read(lambda s: queries.blob(s, digest, start, length))

    async def sync(self) -> None:
        """See Journal."""
        await self._write("sync", lambda s: s.rows(operations.TOUCH), barrier=True)

    async def close(self) -> None:
        """See Journal."""
        await asyncio.to_thread(self.close_now)

    def close_now(self) -> None:
        """Close, blocking the calling thread meanwhile; for code without a loop. Idempotent."""
        for lane in (self._reading, *self._writing):  # the writer last: it leaves one file
            lane.end()
            lane.join()

    def _lane_of(self, run_id: str) -> Lane:
        return self._writing[hash(run_id) % len(self._writing)]

    def _now_us(self) -> int:
        return microseconds(self._clock.now()) + self._behind_us

    def _check(self, needs: Access) -> None:
        if self._access is Access.OWN or self._access is needs:
            return
        raise JournalReadOnly(
            f"this journal was opened for {self._access.value}",
            hint="open it with access `own`" if needs is Access.OWN else None,
        )

    async def _write(
        self,
        role: str,
        function: Callable[[Session], T],
        run_id: str = "",
        *,
        barrier: bool = False,
        needs: Access = Access.OWN,
    ) -> T:
        self._check(needs)
        answer: T = await self._lane_of(run_id).do(Call(role, function, barrier))
        return answer

    async def _read(self, function: Callable[[Session], T]) -> T:
        answer: T = await self._reading.do(Call("read", function))
        return answer
