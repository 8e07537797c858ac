"""A PostgreSQL journal when connections break, workers meet, or it is not one."""

import asyncio
import secrets
import threading

import pytest

from proctor.kernel import faults
from proctor.kernel.errors import StorageError
from proctor.store.journal.contract import (
    Access,
    Appended,
    CommitUnknown,
    Conflict,
    NewRun,
)
from proctor.store.journal.errors import JournalTooNew, UnknownRun
from proctor.store.journal.opening import open_journal
from proctor.testing.conformance.journal_base import (
    NOW,
    action,
    contents,
    event,
    owned,
    put,
    state_of,
)


@pytest.fixture
def opened(postgresql_url):
    """Open journals in a schema of this test; all are closed and the schema removed."""
    import psycopg

    from proctor.store.journal.postgresql import open_postgresql

    schema = f"test_{secrets.token_hex(8)}"
    journals = []

    def new(**options):
        journals.append(open_postgresql(postgresql_url, schema=schema, **options))
        return journals[-1]

    new.schema = schema
    yield new
    faults.install(None)
    for journal in journals:
        journal.close_now()
    with psycopg.connect(postgresql_url, autocommit=True) as connection:
        connection.execute(f"DROP SCHEMA IF EXISTS {schema} CASCADE")


@pytest.fixture
def at_point(postgresql_url):
    """Do something at the first hit of a fault point: end the journals' connections, or raise."""

    def install(name, deed):
        done = []

        def hook(point):
            if point == name and not done:
                done.append(point)
                deed()

        faults.install(hook)

    yield install
    faults.install(None)


@pytest.fixture
def disconnect(postgresql_url):
    """End every connection of a journal, as a restart of the server does."""
    import psycopg

    def end():
        with psycopg.connect(postgresql_url, autocommit=True) as connection:
            connection.execute(
                "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity"
                " WHERE application_name = 'proctor-journal'"
            )

    return end


def lost_reply():
    raise OSError(104, "Connection reset by peer")


def test_a_connection_lost_before_the_commit_leaves_the_outcome_open(opened, at_point, disconnect):
    async def case(journal):
        lease = await owned(journal)
        at_point("journal.append.begin", disconnect)
        given = ("r", 0, lease.fence, [event("a")], [action("x")])
        found = await journal.append(*given)
        assert isinstance(found, CommitUnknown)
        assert "journal" in found.reason
        assert await contents(journal) == []  # the reader connects anew by itself
        assert await journal.append(*given) == Appended(1)
        assert await contents(journal) == [(1, "a")]

    asyncio.run(case(opened()))


def test_a_reply_lost_after_the_commit_is_recognised_when_repeated(opened, at_point):
    async def case(journal):
        lease = await owned(journal)
        at_point("journal.append.committed", lost_reply)
        given = ("r", 0, lease.fence, [event("a")], [action("x")])
        assert isinstance(await journal.append(*given), CommitUnknown)
        assert await journal.append(*given) == Appended(1)
        assert await contents(journal) == [(1, "a")]

    asyncio.run(case(opened()))


def test_creating_and_claiming_survive_a_lost_connection_by_repeating(opened, at_point, disconnect):
    async def case(journal):
        new = NewRun("r", NOW)
        at_point("journal.create.written", disconnect)
        assert isinstance(await journal.create_run(new, [event("a")]), CommitUnknown)
        assert await journal.create_run(new, [event("a")]) == Appended(1)
        at_point("journal.claim.written", disconnect)
        with pytest.raises(StorageError, match="journal"):
            await journal.claim("r", "one", 60)
        lease = await journal.claim("r", "one", 60)
        assert lease is not None
        assert await put(journal, lease, 1, event("b")) == 2

    asyncio.run(case(opened()))


def test_a_server_that_comes_back_is_used_again(opened, disconnect):
    async def case(journal):
        lease = await owned(journal)
        await put(journal, lease, 0, event("a"))
        await asyncio.to_thread(disconnect)
        assert await contents(journal) == [(1, "a")]
        await asyncio.to_thread(disconnect)
        answers = [await journal.append("r", 1, lease.fence, [event("b")]) for _ in range(2)]
        assert answers[-1] == Appended(2)
        assert await contents(journal) == [(1, "a"), (2, "b")]

    asyncio.run(case(opened()))


def test_workers_on_one_database_own_each_run_once(opened):
    async def work(journal, name, runs):
        mine = 0
        for run in runs:
            lease = await journal.claim(run, name, 60)
            if lease is None:
                continue
            mine += 1
            for version in range(3):
                await put(journal, lease, version, event(f"{version}"))
        return mine

    async def case():
        journals = [opened() for _ in range(3)]
        runs = [f"r{n}" for n in range(12)]
        for run in runs:
            await journals[0].create_run(NewRun(run, NOW))
        found = await asyncio.gather(
            *(work(journal, f"worker {n}", runs) for n, journal in enumerate(journals))
        )
        assert sum(found) == len(runs)
        for run in runs:
            assert len(await contents(journals[0], run)) == 3

    asyncio.run(case())


def test_a_stale_worker_is_refused_in_a_group_with_others(opened):
    async def case(journal, other):
        leases = [await owned(journal, f"r{n}") for n in range(8)]
        taken = await other.claim("r3", "two", 60, dead_owner="one")
        found = await asyncio.gather(
            *(journal.append(lease.run_id, 0, lease.fence, [event("a")]) for lease in leases)
        )
        assert found.pop(3) == Conflict(0, taken.fence)
        assert found == [Appended(1)] * 7

    asyncio.run(case(opened(), opened()))


def test_an_owner_makes_the_tables_and_nobody_else_does(opened):
    for access in (Access.READ, Access.CONTROL):
        with pytest.raises(StorageError, match="there is no journal"):
            opened(access=access)
    opened()
    assert opened(access=Access.READ).access is Access.READ


def test_a_newer_journal_is_refused(opened, postgresql_url):
    import psycopg

    opened()
    with psycopg.connect(postgresql_url, autocommit=True) as connection:
        connection.execute(f"UPDATE {opened.schema}.schema_version SET version = 99")
    with pytest.raises(JournalTooNew, match="version 99"):
        opened()


def test_events_are_never_changed_not_even_by_hand(opened, postgresql_url):
    import psycopg

    async def case(journal):
        await put(journal, await owned(journal), 0, event("a"))

    asyncio.run(case(opened()))
    with psycopg.connect(postgresql_url, autocommit=True) as connection:
        for statement in ("UPDATE {}.event SET kind = 'x'", "DELETE FROM {}.event"):
            with pytest.raises(psycopg.errors.CheckViolation, match="never changed"):
                connection.execute(statement.format(opened.schema))


@pytest.mark.parametrize("schema", ["", "a b", 'x"; DROP SCHEMA public; --', "A", "x" * 64])
def test_a_schema_has_a_plain_name(postgresql_url, schema):
    from proctor.store.journal.postgresql import open_postgresql

    with pytest.raises(StorageError, match="name of a journal's schema"):
        open_postgresql(postgresql_url, schema=schema)


def test_a_database_that_is_not_there_is_named_without_its_password(tmp_path):
    url = f"postgresql+psycopg://me:hunter2@/nothing?host={tmp_path}"
    with pytest.raises(StorageError, match="nothing") as told:
        open_journal(url)
    assert "hunter2" not in f"{told.value} {told.value.__cause__} {told.value.hint}"


def test_a_row_is_found_by_its_whole_key(opened, postgresql_url):
    """Not by the action's id alone, which many runs have: that would cost more with each run."""
    import psycopg

    from proctor.store.journal.jobs import Append
    from proctor.store.journal.postgresql import _PLANNING
    from proctor.store.journal.postgresql_append import group_statement

    async def case(journal):
        for n in range(40):
            lease = await owned(journal, f"r{n}")
            await put(journal, lease, 0, event("a"), rows=[action("x", op_key=f"k{n}")])
        job = Append("r7", 1, 1, [event("b")])
        job.add_rows([state_of("x", "done")])
        return group_statement([job], synced=True)

    text, arrays = asyncio.run(case(opened()))
    with psycopg.connect(postgresql_url, autocommit=True) as connection:
        connection.execute(f"SET search_path TO {opened.schema}")
        for setting in _PLANNING:
            connection.execute(setting)
        plan = connection.execute(b"EXPLAIN " + text, arrays).fetchall()
    lines = [line for (line,) in plan]
    (scan,) = [n for n, line in enumerate(lines) if "on action t" in line and "Scan" in line]
    assert "action_pkey" in lines[scan]
    assert "run_no = " in lines[scan + 1]
    assert "action_id = " in lines[scan + 1]


def test_arrays_are_written_as_the_database_reads_them(postgresql_url):
    import psycopg

    from proctor.store.journal.postgresql_append import _arrays

    texts = ["", "NULL", '"', "\\", '\\"', "{a,b}", " x ", "\n\t", "'", "%s", "é\U0001f642", None]
    numbers = [0, -(2**63), 2**63 - 1, None, *range(8)]
    rows = list(zip(numbers, texts, strict=True))
    with psycopg.connect(postgresql_url) as connection:
        for given in (rows, rows[:3], rows[1:2]):
            found = connection.execute(
                "SELECT * FROM unnest(%s::bigint[], %s::text[])", _arrays(given, ("bigint", "text"))
            ).fetchall()
            assert found == given


def test_calls_that_wait_together_share_a_commit_and_one_that_fails_disturbs_nobody(opened):
    hits, all_wait = [], threading.Event()

    def hook(point):
        hits.append(point)
        if point.endswith(".begin"):
            assert all_wait.wait(30)

    async def at_once(calls):
        """The first group waits until all are handed in."""
        all_wait.clear()
        hits.clear()
        tasks = [asyncio.ensure_future(call) for call in calls]
        await asyncio.sleep(0)  # each has run up to its answer
        all_wait.set()
        return await asyncio.gather(*tasks, return_exceptions=True)

    async def case(journal):
        names = [f"r{n}" for n in range(40)]
        made = await at_once(journal.create_run(NewRun(name, NOW)) for name in names)
        assert made == [Appended(0)] * 40
        assert hits.count("journal.create.committed") <= 2  # what the thread took at once; the rest
        found = await at_once(journal.claim(name, "me", 30) for name in [*names, "nobody"])
        assert isinstance(found.pop(), UnknownRun)
        assert [lease.fence for lease in found] == [1] * 40
        assert [(await journal.run_row(name)).fence for name in names] == [1] * 40

    journal = opened()
    faults.install(hook)
    asyncio.run(case(journal))


def test_an_owner_writes_over_two_connections_and_each_run_over_one(opened):
    seen = []

    def hook(point):
        if point == "journal.append.begin":
            seen.append(threading.current_thread().name)

    async def case(journal, name):
        lease = await owned(journal, name)
        seen.clear()
        for version in range(4):
            await put(journal, lease, version, event(f"e{version}"))
        return set(seen)

    faults.install(hook)
    journal = opened()
    of_lane = {id(journal._lane_of(f"r{n}")): f"r{n}" for n in range(200)}
    used = [asyncio.run(case(journal, name)) for name in of_lane.values()]
    assert sorted(used, key=str) == [{"journal-writer-0"}, {"journal-writer-1"}]


def test_a_second_connection_that_cannot_be_made_is_told_and_made_later(opened, monkeypatch):
    import psycopg

    journal = opened()
    second = next(n for n in range(200) if journal._lane_of(f"r{n}") is journal._writing[1])

    def refuse(*_, **__):
        raise psycopg.OperationalError("too many clients already")

    async def case():
        return await journal.create_run(NewRun(f"r{second}", NOW))

    with monkeypatch.context() as patched:
        patched.setattr(psycopg, "connect", refuse)
        with pytest.raises(StorageError, match="too many clients already"):
            asyncio.run(case())
    assert asyncio.run(case()) == Appended(0)


@pytest.mark.parametrize(
    "given",
    ["u:pa/ssw0rd@127.0.0.1:1/db", "u:pa ss@h/db", "u@x:hunter2@127.0.0.1:1/db", "u:a#b@h/d"],
)
def test_a_url_that_could_be_read_in_several_ways_is_refused_without_its_password(given):
    with pytest.raises(StorageError, match="is not plain") as caught:
        open_journal(f"postgresql://{given}")
    assert not any(part in str(caught.value) for part in ("ssw0rd", "pa ss", "hunter2", "a#b"))
    assert "%40" in caught.value.hint
