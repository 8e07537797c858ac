"""An SQLite journal as a file: beginning, end, foreign files, exclusive use, second processes."""

import asyncio
import errno
import os
import sqlite3
import subprocess
import sys
import textwrap

import pytest

from proctor.kernel import faults
from proctor.kernel.errors import StorageError
from proctor.store.journal.contract import Access, Appended, CommitUnknown, Durability, NewRun
from proctor.store.journal.errors import ConstraintBroken, JournalReadOnly, JournalTooNew
from proctor.store.journal.opening import open_journal
from proctor.store.journal.sqlite import is_journal, open_sqlite
from proctor.testing.conformance.journal_base import (
    NOW,
    action,
    contents,
    event,
    message,
    owned,
    put,
)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "journal.sqlite"


@pytest.fixture
def fault():
    """Make a fault point raise: `fault(name, error)`; removed afterwards."""

    def install(name, error, hits=1):
        left = [hits]

        def hook(point):
            if point == name and left[0]:
                left[0] -= 1
                raise error

        faults.install(hook)

    yield install
    faults.install(None)


def run(path, case, **options):
    async def go():
        async with open_sqlite(path, **options) as journal:
            return await case(journal)

    return asyncio.run(go())


async def one_event(journal):
    lease = await owned(journal)
    await put(journal, lease, 0, event("a"), rows=[action("x")])
    await journal.inbox_add(message("r", "m"))


def test_after_closing_there_is_one_file(path):
    run(path, one_event)
    assert os.listdir(path.parent) == [path.name]
    assert is_journal(path)
    with sqlite3.connect(path) as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("delete",)
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    connection.close()


def test_the_first_of_two_openings_to_close_leaves_the_log_to_the_other(path):
    async def case(journal):
        other = open_sqlite(path)
        await one_event(other)
        await other.close()
        assert await contents(journal) == [(1, "a")]
        await put(journal, await journal.claim("r", "one", 60), 1, event("b"))

    run(path, case)
    assert os.listdir(path.parent) == [path.name]
    assert run(path, contents) == [(1, "a"), (2, "b")]


def test_a_closed_journal_is_read_where_nothing_can_be_written(path):
    run(path, one_event)
    path.chmod(0o444)
    assert run(path, contents, access=Access.READ) == [(1, "a")]
    assert os.listdir(path.parent) == [path.name]


@pytest.mark.parametrize("name", ["a b?mode=ro#%41'.sqlite", os.fsdecode(b"\xff\xfe.sqlite"), "-x"])
def test_a_file_may_have_any_name(tmp_path, name):
    run(tmp_path / name, one_event)
    assert os.listdir(tmp_path) == [name]
    assert run(tmp_path / name, contents) == [(1, "a")]


def test_a_journal_that_is_not_there_is_made_for_its_owner_only(path):
    for access in (Access.READ, Access.CONTROL):
        with pytest.raises(StorageError, match=r"journal\.sqlite"):
            open_sqlite(path, access=access)
        assert not path.exists()
    with pytest.raises(StorageError):
        open_sqlite(path.parent / "no folder" / "x.sqlite")


def test_foreign_files_are_refused_and_left_alone(path):
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE mine (x)")
    connection.close()
    before = path.read_bytes()
    with pytest.raises(StorageError, match="not a journal"):
        open_sqlite(path)
    assert path.read_bytes() == before
    path.write_text("a text file that is long enough to hold a header" * 20)
    with pytest.raises(StorageError, match=r"not a database"):
        open_sqlite(path)
    assert not is_journal(path)
    assert not is_journal(path.parent / "gone")


def test_a_journal_of_a_newer_proctor_is_refused(path):
    run(path, one_event)
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA user_version = 99")
    connection.close()
    with pytest.raises(JournalTooNew, match="version 99"):
        open_sqlite(path)


def test_events_are_never_changed_not_even_by_hand(path):
    run(path, one_event)
    connection = sqlite3.connect(path)
    for statement in ("UPDATE event SET kind = 'x'", "DELETE FROM event"):
        with pytest.raises(sqlite3.IntegrityError, match="never changed"):
            connection.execute(statement)
    connection.close()


def test_a_control_connection_is_held_back_by_the_database_itself(path):
    async def case(journal):
        other = open_sqlite(path, access=Access.CONTROL)
        other._access = Access.OWN  # as a bug might: the next line of defence is SQLite's
        try:
            with pytest.raises(StorageError, match=r"not authorized|prohibited"):
                await other.append("r", 1, 1, [event("z")])
            with pytest.raises(StorageError, match=r"not authorized|prohibited"):
                await other.claim("r", "thief", 60)
        finally:
            await other.close()
        assert await contents(journal) == [(1, "a")]

    run(path, one_event)
    run(path, case)


def test_an_exclusive_journal_says_so_and_keeps_others_out(path):
    async def case(journal):
        assert "control a running agent are off" in journal.notice
        await one_event(journal)
        await journal.put_blob(b"x")
        assert await contents(journal) == [(1, "a")]
        for access in Access:
            with pytest.raises(StorageError, match="locked") as refused:
                open_sqlite(path, access=access, locking="shared", busy_s=0.05)
            assert "another process" in refused.value.hint
        assert f"{path.name}-shm" not in os.listdir(path.parent)

    run(path, case, locking="exclusive")
    assert os.listdir(path.parent) == [path.name]
    with open_journal_now(path) as journal:
        assert journal.notice is None
    assert run(path, contents) == [(1, "a")]


class open_journal_now:  # noqa: N801 - used as a word
    """A journal without a loop around it."""

    def __init__(self, path):
        self.journal = open_journal(path)

    def __enter__(self):
        return self.journal

    def __exit__(self, *_):
        self.journal.close_now()


def test_a_second_process_reads_and_answers_while_the_owner_works(path):
    script = textwrap.dedent(
        """
        import asyncio, sys
        from proctor.store.journal.contract import Access
        from proctor.store.journal.sqlite import open_sqlite
        from proctor.testing.conformance.journal_base import contents, message

        async def main():
            async with open_sqlite(sys.argv[1], access=Access.CONTROL) as journal:
                assert await contents(journal) == [(1, "a")]
                assert await journal.inbox_add(message("r", "from outside"))
                sys.stdout.write((await journal.run_row("r")).owner)

        asyncio.run(main())
        """
    )

    async def case(journal):
        await one_event(journal)
        command = [sys.executable, "-c", script, str(path)]
        done = await asyncio.to_thread(
            subprocess.run, command, capture_output=True, text=True, timeout=60, check=False
        )
        assert (done.returncode, done.stdout) == (0, "one"), done.stderr
        found = [m.message_id for m in await journal.inbox_pending("r")]
        assert found == ["m", "from outside"]

    run(path, case)


def test_a_writer_that_waits_too_long_for_another_is_told(path):
    async def case(journal):
        lease = await owned(journal)
        blocker = sqlite3.connect(path, isolation_level=None)
        blocker.execute("BEGIN IMMEDIATE")
        with pytest.raises(StorageError, match="locked") as told:
            await put(journal, lease, 0, event("a"))
        assert "another process is writing" in told.value.hint
        blocker.execute("ROLLBACK")
        blocker.close()
        assert await put(journal, lease, 0, event("a")) == 1

    run(path, case, busy_s=0.05)


@pytest.mark.parametrize("moment", ["begin", "written"])
def test_a_full_disk_before_the_commit_changes_nothing(path, fault, moment):
    async def case(journal):
        lease = await owned(journal)
        fault(f"journal.append.{moment}", OSError(errno.ENOSPC, "No space left on device"))
        with pytest.raises(StorageError, match="No space left"):
            await put(journal, lease, 0, event("a"), rows=[action("x")])
        assert await contents(journal) == []
        assert await put(journal, lease, 0, event("a"), rows=[action("x")]) == 1

    run(path, case)


def test_a_commit_whose_end_is_not_known_is_called_so(path, fault):
    async def case(journal):
        lease = await owned(journal)
        fault("journal.append.committed", OSError(errno.EIO, "Input/output error"))
        given = ("r", 0, lease.fence, [event("a")])
        assert isinstance(await journal.append(*given), CommitUnknown)
        assert await journal.append(*given) == Appended(1)
        fault("journal.create.committed", OSError(errno.EIO, "Input/output error"))
        new = NewRun("s", NOW)
        assert isinstance(await journal.create_run(new, [event("a")]), CommitUnknown)
        assert await journal.create_run(new, [event("a")]) == Appended(1)
        assert await contents(journal) == [(1, "a")]

    run(path, case)


def test_one_refused_append_of_a_group_does_not_touch_the_others(path):
    async def case(journal):
        leases = [await owned(journal, f"r{n}") for n in range(6)]
        found = await asyncio.gather(
            *(
                put(journal, lease, 0, event("a"), rows=[action("x", op_key=f"k{n // 2}")])
                for n, lease in enumerate(leases)
            ),
            return_exceptions=True,
        )
        assert found.count(1) == 3  # each key once
        assert sum(isinstance(answer, ConstraintBroken) for answer in found) == 3

    run(path, case)


def test_a_run_that_could_not_be_made_leaves_its_number_to_the_next(path, fault):
    async def case(journal):
        fault("journal.create.written", OSError(errno.ENOSPC, "No space left on device"))
        with pytest.raises(StorageError, match="No space left"):
            await journal.create_run(NewRun("late", NOW), [event("late")])
        for name in ("early", "late"):
            assert await journal.create_run(NewRun(name, NOW), [event(name)]) == Appended(1)
        for name in ("early", "late"):
            assert await contents(journal, name) == [(1, name)]

    run(path, case)


def test_an_append_costs_the_same_however_long_the_log_is(path):
    async def case(journal):
        lease = await owned(journal)
        log = path.with_name("journal.sqlite-wal")
        version, costs = 0, []
        for length in (100, 20_000):
            while version < length:
                many = [event(f"{version + n}") for n in range(100)]
                version = await put(journal, lease, version, *many)
            with sqlite3.connect(path) as connection:
                connection.execute("PRAGMA wal_checkpoint(RESTART)")
            connection.close()
            for n in range(60):
                version = await put(journal, lease, version, event(f"{length}+{n}"))
            salt = log.read_bytes()[16:24]
            data = log.read_bytes()[32:]
            frame = 24 + 4096
            frames = [data[at + 8 : at + 16] for at in range(0, len(data), frame)]
            costs.append(sum(found == salt for found in frames))
        assert costs[1] <= costs[0] * 1.1 + 5

    run(path, case)


def test_access_is_checked_before_anything_is_sent(path):
    run(path, one_event)

    async def case(journal):
        with pytest.raises(JournalReadOnly) as refused:
            await journal.append("r", 1, 1, [event("b")], durability=Durability.LAZY)
        assert refused.value.hint == "open it with access `own`"

    run(path, case, access=Access.READ)


@pytest.mark.parametrize("body", ['{"n": 1', '{"n": 1}, {"n": 2}', "NaN"])
def test_a_damaged_body_is_named_with_its_run(path, body):
    run(path, one_event)
    connection = sqlite3.connect(path)
    with connection:
        connection.execute("DROP TRIGGER event_update")
        connection.execute("UPDATE event SET body = ?", (body,))
    connection.close()

    async def read(journal):
        await journal.read_events("r")

    with pytest.raises(StorageError, match="agent run 'r' is damaged between events 1 and 1"):
        run(path, read)
