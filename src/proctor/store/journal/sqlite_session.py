"""One connection to an SQLite journal, and how a group of jobs becomes one transaction.

Names that are put into a statement are constants of the schema; a caller's values are only bound.
"""
# ruff: noqa: S608

import sqlite3
from collections.abc import Sequence
from typing import Any

from proctor.kernel.errors import StorageError
from proctor.kernel.faults import active, fault_point
from proctor.store.files import storage_error
from proctor.store.journal import operations
from proctor.store.journal.contract import Appended, CommitUnknown
from proctor.store.journal.encoding import Cell, Shape
from proctor.store.journal.errors import ConstraintBroken
from proctor.store.journal.jobs import Append, Call, Job, Params
from proctor.store.schema.journal_columns import KEYS

_MOVE = "UPDATE run SET version = ? WHERE run_no = ? AND version = ? AND fence = ?"
_LOG = (
    "INSERT INTO event (run_no, seq, event_id, kind, version, fence, at, body)"
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
)


class SqliteSession:
    """A connection in the thread that made it."""

    holding_rows = ""  # a writer is alone

    def __init__(self, connection: sqlite3.Connection, path: str) -> None:
        self.connection = connection
        self._cursor = connection.cursor()  # for what is done with every append
        self._path = path
        self._numbers: dict[str, int] = {}
        self._statements: dict[Shape, str] = {}
        self._synced: bool | None = None
        self._broken: StorageError | None = None

    def rows(self, sql: str, params: Params = ()) -> list[tuple[Any, ...]]:
        """See Session."""
        return self.connection.execute(sql, params).fetchall()

    def read(self, jobs: Sequence[Job]) -> None:
        """Work off calls that read, each by itself."""
        for job in jobs:
            try:
                if isinstance(job, Call):
                    job.answer = job.function(self)
            except Exception as error:  # noqa: BLE001 - handed to the caller
                job.error = self.problem(error)

    def write(self, jobs: Sequence[Job]) -> None:
        """Work off a group in one transaction; if one of it fails, each in its own."""
        if self._broken is not None:
            for job in jobs:
                job.error = self._broken
            return
        error = self._transaction(jobs)
        if error is None:
            return
        if len(jobs) == 1:
            jobs[0].error = error
            return
        for job in jobs:
            job.error = self._transaction([job])

    def _transaction(self, jobs: Sequence[Job]) -> Exception | None:
        """Commit all of `jobs` with their answers, or nothing and say why."""
        try:
            self._set_sync(any(job.barrier for job in jobs))
            _points(jobs, "begin")
            self.connection.execute("BEGIN IMMEDIATE")
            before = self.connection.total_changes
            self._apply(jobs)
            if self._synced and self.connection.total_changes == before:
                self.rows(operations.TOUCH)
            _points(jobs, "written")
        except Exception as error:  # noqa: BLE001 - handed to each caller
            self._roll_back()
            return self.problem(error)
        try:
            self.connection.execute("COMMIT")
            _points(jobs, "committed")
        except (sqlite3.Error, OSError) as error:
            self._roll_back()
            self._commit_unknown(jobs, error)
        return None

    def _set_sync(self, synced: bool) -> None:
        if synced is not self._synced:
            self.connection.execute(f"PRAGMA synchronous = {'FULL' if synced else 'NORMAL'}")
            self._synced = synced

    def _apply(self, jobs: Sequence[Job]) -> None:
        appends: dict[str, Append] = {}
        for job in jobs:
            if isinstance(job, Append):
                if job.run_id in appends:  # it follows the other one: compare after that
                    self.append(list(appends.values()))
                    appends = {}
                appends[job.run_id] = job
            elif isinstance(job, Call):
                if appends:
                    self.append(list(appends.values()))
                    appends = {}
                job.answer = job.function(self)
        if appends:
            self.append(list(appends.values()))

    def append(self, jobs: Sequence[Append]) -> None:
        """See Session."""
        events: list[tuple[Cell, ...]] = []
        rows: dict[Shape, list[tuple[Cell, ...]]] = {}
        for job in jobs:
            number = self._move(job)
            if number is None:
                continue
            events += [(number, *event) for event in job.events]
            for of, values in job.rows:
                rows.setdefault(of, []).append((number, *values) if of.of_run else values)
            for run_id, cells in job.deliveries:
                operations.add_message(self, run_id, cells)
            job.answer = Appended(job.version)
        self._cursor.executemany(_LOG, events)
        for of, group in rows.items():
            self._put(of, group)

    def _move(self, job: Append) -> int | None:
        """Swap the version if it is the expected one: the run's number; else give the answer."""
        number = self._number(job.run_id)
        if job.run_changes:
            changes = ", ".join(f"{name} = coalesce(?, {name})" for name in job.run_changes)
            move = _MOVE.replace("version = ?", f"version = ?, {changes}", 1)
        else:
            move = _MOVE
        values = (job.version, *job.run_changes.values(), number, job.expected, job.fence)
        if number is not None and self._cursor.execute(move, values).rowcount == 1:
            return number
        job.answer = operations.instead(self, job)
        return None

    def _number(self, run_id: str) -> int | None:
        number = self._numbers.get(run_id)
        if number is None:
            found = self.rows("SELECT run_no FROM run WHERE run_id = ?", (run_id,))
            if not found:
                return None
            ((number,),) = found
            if len(self._numbers) > 10_000:
                self._numbers.clear()
            self._numbers[run_id] = number
        return number

    def _put(self, of: Shape, group: Sequence[tuple[Cell, ...]]) -> None:
        statement = self._statements.get(of)
        if statement is None:
            statement = self._statements[of] = _upsert(of) if of.complete else _update(of)
        if of.complete:
            self._cursor.executemany(statement, group)
            return
        keys = len(of.keys) + of.of_run
        turned = [(*values[keys:], *values[:keys]) for values in group]
        if self._cursor.executemany(statement, turned).rowcount != len(group):
            raise ConstraintBroken(
                f"a row of {of.table} is not there, and {', '.join(of.values)} do not make one"
            )

    def _commit_unknown(self, jobs: Sequence[Job], error: Exception) -> None:
        if getattr(error, "sqlite_errorname", "") == "SQLITE_IOERR_FSYNC":
            # The kernel drops what it could not write and reports it once: what was answered
            # before may be gone from the disk, and another sync would not tell.
            self._broken = StorageError(
                f"journal {self._path}: the disk failed while syncing; nothing more is written",
                hint="look at the disk, then open the journal again: it continues from what is"
                " there",
            )
        for job in jobs:
            if isinstance(job, Append) or job.role == "create":
                job.answer = CommitUnknown(str(error))
            else:
                job.error = self.problem(error)

    def _roll_back(self) -> None:
        self._numbers.clear()  # a run that was made in this transaction may get another number
        if self.connection.in_transaction:
            self.connection.rollback()

    def problem(self, error: Exception) -> Exception:
        """`error` as the contract has it."""
        if isinstance(error, StorageError):
            return error
        if isinstance(error, sqlite3.IntegrityError):
            return ConstraintBroken(f"the journal refuses this: {error}")
        if isinstance(error, sqlite3.Error):
            return storage_problem(error, self._path)
        if isinstance(error, OSError):
            return storage_error(error, self._path)
        return error


def storage_problem(error: sqlite3.Error, path: str) -> StorageError:
    """What SQLite says, with the file and what to do."""
    name = getattr(error, "sqlite_errorname", "")
    if name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
        hint = "another process is writing: wait for it to end, or stop it"
    elif name.startswith("SQLITE_FULL"):
        hint = "free space, then go on: nothing that was answered is lost"
    elif name.startswith(("SQLITE_CORRUPT", "SQLITE_NOTADB")):
        hint = "this is not a whole journal: restore it from a copy"
    else:
        hint = "free space or fix permissions, then go on: nothing that was answered is lost"
    return StorageError(f"journal {path}: {error}", hint=hint)


def _points(jobs: Sequence[Job], moment: str) -> None:
    """The fault points of a group: `journal.<role>.begin`, `.written`, `.committed`."""
    if active():
        for role in dict.fromkeys(job.role for job in jobs):
            fault_point(f"journal.{role}.{moment}")


def _columns(of: Shape) -> tuple[str, ...]:
    return ("run_no", *of.columns) if of.of_run else of.columns


def _upsert(of: Shape) -> str:
    columns = _columns(of)
    changes = ", ".join(f"{name} = excluded.{name}" for name in of.values)
    return (
        f"INSERT INTO {of.table} ({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))})"
        f" ON CONFLICT ({', '.join(KEYS[of.table])}) DO UPDATE SET {changes}"
    )


def _update(of: Shape) -> str:
    keys = ("run_no", *of.keys) if of.of_run else of.keys
    changes = ", ".join(f"{name} = ?" for name in of.values)
    where = " AND ".join(f"{name} = ?" for name in keys)
    return f"UPDATE {of.table} SET {changes} WHERE {where}"
