"""Random calls on a journal against a plain model of what the contract says."""

import asyncio
import secrets
from dataclasses import dataclass, field

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from proctor.store.journal.contract import Appended, Conflict, NewRun, Row
from proctor.store.journal.sqlite import open_sqlite
from proctor.testing.clock import FakeClock
from proctor.testing.conformance.journal_base import NOW, action, event, message, state_of

RUNS = ("r0", "r1", "r2")
OWNERS = ("one", "two")
STATES = ("ready", "running", "unknown", "done")


@dataclass
class Run:
    """A run as the contract has it."""

    log: list[str] = field(default_factory=list)
    fence: int = 0
    owner: str | None = None
    until: float = 0.0
    states: dict[str, str] = field(default_factory=dict)
    inbox: dict[str, bool] = field(default_factory=dict)


class Model:
    """What a journal should answer."""

    def __init__(self) -> None:
        self.runs: dict[str, Run] = {}
        self.leases: list[tuple[str, int]] = []

    def append(self, run_id, version, fence, names, change, sent):
        run = self.runs[run_id]
        if (len(run.log), run.fence) != (version, fence):
            if names and run.log[version : version + len(names)] == names:
                return Appended(version + len(names))
            return Conflict(len(run.log), run.fence)
        run.log += names
        if change:
            run.states[change[0]] = change[1]
        for target, name in sent:
            self.runs[target].inbox.setdefault(name, False)
        return Appended(len(run.log))

    def claim(self, run_id, owner, now, ttl):
        run = self.runs[run_id]
        if run.owner not in (None, owner) and run.until > now:
            return None
        run.fence += 1
        run.owner, run.until = owner, now + ttl
        return run.fence


run_ids = st.sampled_from(RUNS)
appends = st.tuples(
    st.just("append"), run_ids, st.integers(-1, 1), st.integers(-1, 1), st.integers(0, 3),
    st.none() | st.tuples(st.sampled_from("xy"), st.sampled_from(STATES)),
    st.lists(st.tuples(run_ids, st.sampled_from("mn")), max_size=2),
)  # fmt: skip
calls = st.lists(
    st.one_of(
        appends,
        appends,
        st.tuples(st.just("repeat")),
        st.tuples(st.just("claim"), run_ids, st.sampled_from(OWNERS), st.integers(1, 20)),
        st.tuples(st.just("release"), run_ids),
        st.tuples(st.just("wait"), st.integers(1, 15)),
        st.tuples(st.just("inbox"), run_ids, st.sampled_from("mno")),
        st.tuples(st.just("apply"), run_ids, st.sampled_from("mn")),
        st.tuples(st.just("reopen")),
    ),
    max_size=40,
)


class Player:
    """Makes each call on both and compares."""

    def __init__(self, opener) -> None:
        self.clock = FakeClock()
        self.opener = opener
        self.journal = opener(self.clock)
        self.model = Model()
        self.last = None
        self.count = 0

    async def play(self, steps) -> None:
        for run_id in RUNS:
            self.model.runs[run_id] = Run()
            assert await self.journal.create_run(NewRun(run_id, NOW)) == Appended(0)
        for name, *facts in steps:
            await getattr(self, name)(*facts)
        await self.reopen()
        await self.compare()

    async def append(self, run_id, version, fence, count, change, sent) -> None:
        run = self.model.runs[run_id]
        names = [f"e{self.count + n}" for n in range(count)]
        self.count += count
        rows = []
        if change:
            new = change[0] not in run.states
            key = f"{run_id}/{change[0]}"
            rows = [action(*change, op_key=key) if new else state_of(*change)]
        at = max(0, len(run.log) + version), max(0, run.fence + fence)
        self.last = (run_id, *at, names, rows, change, sent)
        await self.repeat()

    async def repeat(self) -> None:
        if self.last is None:
            return
        run_id, version, fence, names, rows, change, sent = self.last
        messages = [message(*target) for target in sent]
        found = await self.journal.append(
            run_id, version, fence, [event(n) for n in names], rows, deliveries=messages
        )
        assert found == self.model.append(run_id, version, fence, names, change, sent)

    async def claim(self, run_id, owner, ttl) -> None:
        lease = await self.journal.claim(run_id, owner, ttl)
        expected = self.model.claim(run_id, owner, self.clock.monotonic(), ttl)
        assert (lease.fence if lease else None) == expected
        if lease:
            self.model.leases.append((run_id, lease))

    async def release(self, run_id) -> None:
        for held, lease in self.model.leases:
            run = self.model.runs[run_id]
            if held == run_id:
                valid = (run.owner, run.fence) == (lease.owner, lease.fence)
                assert await self.journal.release(lease) == valid
                if valid:
                    run.owner = None

    async def wait(self, seconds) -> None:
        self.clock.advance(seconds)

    async def inbox(self, run_id, name) -> None:
        new = name not in self.model.runs[run_id].inbox
        assert await self.journal.inbox_add(message(run_id, name)) == new
        self.model.runs[run_id].inbox.setdefault(name, False)

    async def apply(self, run_id, name) -> None:
        run = self.model.runs[run_id]
        if name in run.inbox:
            row = Row("inbox", {"message_id": name}, {"applied_seq": len(run.log)})
            at = run_id, len(run.log), run.fence
            assert await self.journal.append(*at, [], [row]) == Appended(len(run.log))
            run.inbox[name] = True

    async def reopen(self) -> None:
        await self.journal.close()
        self.journal = self.opener(self.clock)

    async def compare(self) -> None:
        for run_id, run in self.model.runs.items():
            events = await self.journal.read_events(run_id)
            assert [e.event_id for e in events] == run.log
            row = await self.journal.run_row(run_id)
            assert (row.version, row.fence, row.owner) == (len(run.log), run.fence, run.owner)
            rows = await self.journal.read_rows("action", run_id)
            assert {r.key["action_id"]: r.values["state"] for r in rows} == run.states
            pending = {m.message_id for m in await self.journal.inbox_pending(run_id)}
            assert pending == {name for name, applied in run.inbox.items() if not applied}


def played(opener, steps) -> None:
    async def case() -> None:
        player = Player(opener)
        try:
            await player.play(steps)
        finally:
            await player.journal.close()

    asyncio.run(case())


FRESH = (HealthCheck.function_scoped_fixture, HealthCheck.too_slow)


@pytest.mark.slow
@settings(max_examples=40, suppress_health_check=FRESH)
@given(calls)
def test_sqlite_does_what_the_model_says(tmp_path, steps):
    path = tmp_path / f"{secrets.token_hex(8)}.sqlite"
    played(lambda clock: open_sqlite(path, clock=clock, busy_s=1), steps)


@pytest.mark.slow
@settings(max_examples=15, suppress_health_check=FRESH)
@given(calls)
def test_postgresql_does_what_the_model_says(postgresql_url, steps):
    import psycopg

    from proctor.store.journal.postgresql import open_postgresql

    schema = f"test_{secrets.token_hex(8)}"
    try:
        played(lambda clock: open_postgresql(postgresql_url, clock=clock, schema=schema), steps)
    finally:
        with psycopg.connect(postgresql_url, autocommit=True) as connection:
            connection.execute(f"DROP SCHEMA IF EXISTS {schema} CASCADE")
