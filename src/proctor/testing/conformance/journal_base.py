"""How the cases of the journal open one, and short words for what they write."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from datetime import timedelta
from typing import Any, TypeVar

from proctor.kernel.clock import Clock
from proctor.store.journal.contract import (
    Access,
    Appended,
    AppendResult,
    Durability,
    Event,
    Journal,
    Lease,
    Message,
    NewRun,
    Row,
)
from proctor.store.journal.upgrades import AS_WRITTEN, Upgrades
from proctor.testing.clock import START, FakeClock

T = TypeVar("T")
NOW = START + timedelta(microseconds=123_457)


def event(name: str, body: Mapping[str, Any] | None = None, kind: str = "noted") -> Event:
    """An event of version 1."""
    return Event(name, kind, 1, body or {}, NOW)


def message(run_id: str, name: str, body: Mapping[str, Any] | None = None) -> Message:
    """An answer for a run."""
    return Message(run_id, name, "answer", body or {}, NOW)


def action(name: str, state: str = "ready", op_key: str | None = None) -> Row:
    """The first row of an action."""
    values = {
        "op_key": op_key or f"op-{name}", "tool": "shell", "effect": "pure",
        "arguments_digest": "sha256:0", "state": state,
    }  # fmt: skip
    return Row("action", {"action_id": name}, {**values})


def state_of(name: str, state: str) -> Row:
    """An action's new state."""
    return Row("action", {"action_id": name}, {"state": state})


def version_of(result: AppendResult) -> int:
    """The version of an append that is expected to be done."""
    assert isinstance(result, Appended), result
    return result.version


class JournalCases:
    """A subclass implements `open`; the cases use `check`."""

    def open(
        self,
        clock: Clock,
        access: Access = Access.OWN,
        upgrades: Upgrades = AS_WRITTEN,
    ) -> Journal:
        """Another opening of this test's journal, which is empty at first."""
        raise AssertionError("say how a journal is opened")

    def check(self, case: Callable[[Journal], Awaitable[T]], clock: FakeClock | None = None) -> T:
        """Run `case` with an opened journal and close it."""
        journal = self.open(clock or FakeClock())

        async def run() -> T:
            try:
                return await case(journal)
            finally:
                await journal.close()

        return asyncio.run(run())


async def owned(journal: Journal, run_id: str = "r", owner: str = "one") -> Lease:
    """A new run, claimed for a minute."""
    await journal.create_run(NewRun(run_id, NOW))
    lease = await journal.claim(run_id, owner, 60)
    assert lease is not None
    return lease


async def put(journal: Journal, lease: Lease, version: int, *events: Event, **more: Any) -> int:
    """Append and give the new version."""
    given = {"durability": Durability.LAZY, **more}
    return version_of(await journal.append(lease.run_id, version, lease.fence, events, **given))


async def contents(journal: Journal, run_id: str = "r") -> list[tuple[int, str]]:
    """(seq, event_id) of a run's log."""
    return [(stored.seq, stored.event_id) for stored in await journal.read_events(run_id)]
