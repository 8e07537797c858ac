"""One connection to a PostgreSQL journal, and how a group of jobs is worked off."""

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import psycopg

from proctor.kernel.errors import StorageError
from proctor.kernel.faults import active, fault_point
from proctor.store.journal import operations
from proctor.store.journal.contract import Appended, CommitUnknown
from proctor.store.journal.errors import ConstraintBroken
from proctor.store.journal.jobs import Append, Call, Job, Params
from proctor.store.journal.postgresql_append import UNKNOWN_RUN_STATE, group_statement

Connection = psycopg.Connection[tuple[Any, ...]]


class PostgresqlSession:
    """A connection in the thread that made it; made again by `connect` when it was lost."""

    holding_rows = " FOR SHARE"

    def __init__(self, connect: Callable[[], Connection], name: str) -> None:
        self._connect = connect
        self._name = name
        self._synced = True
        self.connection = connect()

    def rows(self, sql: str, params: Params = ()) -> list[tuple[Any, ...]]:
        """See Session."""
        cursor = self.connection.execute(_in_dialect(sql), params)
        return cursor.fetchall() if cursor.description else []

    def read(self, jobs: Sequence[Job]) -> None:
        """Work off calls that read, each by itself; once more if the connection was lost."""
        for job in jobs:
            if isinstance(job, Call):
                self._call(job, repeats=1)

    def _call(self, job: Call, repeats: int) -> None:
        try:
            self._connected()
            job.answer = job.function(self)
        except Exception as error:  # noqa: BLE001 - handed to the caller
            if repeats and self._lost:
                self._call(job, repeats - 1)
            else:
                job.error = self.problem(error)

    def write(self, jobs: Sequence[Job]) -> None:
        """Work off a group: appends of different runs that follow each other in one statement,
        calls that follow each other in one transaction."""
        appends: dict[str, Append] = {}
        calls: list[Call] = []
        for job in jobs:
            if isinstance(job, Append):
                self._call_group(calls)
                calls = []
                if job.run_id in appends:
                    self._append_group(list(appends.values()))
                    appends = {}
                appends[job.run_id] = job
            elif isinstance(job, Call):
                self._append_group(list(appends.values()))
                appends = {}
                calls.append(job)
        self._call_group(calls)
        self._append_group(list(appends.values()))

    def _append_group(self, jobs: list[Append]) -> None:
        """One statement; if it fails and nothing was committed, one for each append."""
        if not jobs:
            return
        error = self._attempt(jobs)
        if error is None:
            return
        if len(jobs) == 1:
            jobs[0].error = self._named(jobs[0], error)
            return
        for job in jobs:
            alone = self._attempt([job])
            job.error = None if alone is None else self._named(job, alone)

    def _attempt(self, jobs: list[Append]) -> Exception | None:
        try:
            self._connected()
            _points(jobs, "begin")
        except (psycopg.Error, OSError) as error:
            return error
        try:
            self.append(jobs)
            _points(jobs, "committed")
        except (psycopg.Error, OSError) as error:
            if not self._lost and isinstance(error, psycopg.Error):
                return error
            for job in jobs:
                job.answer = CommitUnknown(str(self.problem(error)))
        return None

    def append(self, jobs: Sequence[Append]) -> None:
        """See Session."""
        synced = any(job.barrier for job in jobs)
        statement, values = group_statement(jobs, synced=synced)
        done = {row[0] for row in self.connection.execute(statement, values, prepare=True)}
        again = False
        for item, job in enumerate(jobs):
            if item in done:
                job.answer = Appended(job.version)
                continue
            try:
                job.answer = operations.instead(self, job)
                again |= job.barrier and isinstance(job.answer, Appended)
            except StorageError as error:
                job.error = error
        if again:  # it may have been lazy the first time
            self._set_sync(synced=True)
            self.rows(operations.TOUCH)

    def _call_group(self, jobs: list[Call]) -> None:
        """One transaction; if one of it fails and nothing was committed, each in its own."""
        if not jobs or self._transaction(jobs):
            return
        for job in jobs:
            self._transaction([job])

    def _transaction(self, jobs: list[Call]) -> bool:
        """Commit all of `jobs` with their answers, or give each its error; False when some other
        of them may be to blame."""
        try:
            self._prepare(any(job.barrier for job in jobs))
            _points(jobs, "begin")
            with self.connection.transaction():
                for job in jobs:
                    job.answer = job.function(self)
                _points(jobs, "written")
            _points(jobs, "committed")
        except Exception as error:  # noqa: BLE001 - handed to the caller
            if len(jobs) > 1 and not self._lost:
                return False
            for job in jobs:
                job.answer = None
                if self._lost and job.role == "create":
                    job.answer = CommitUnknown(str(self.problem(error)))
                else:
                    job.error = self.problem(error)
        return True

    @property
    def _lost(self) -> bool:
        return bool(self.connection.closed)

    def _connected(self) -> None:
        if self._lost:
            self.connection = self._connect()
            self._synced = True

    def _prepare(self, synced: bool) -> None:
        """Connected and with this setting, also if the connection turns out to be lost."""
        self._connected()
        try:
            self._set_sync(synced)
        except psycopg.OperationalError:
            if not self._lost:
                raise
            self._connected()
            self._set_sync(synced)

    def _set_sync(self, synced: bool) -> None:
        if synced is not self._synced:
            setting = b"SET synchronous_commit = on" if synced else b"SET synchronous_commit = off"
            self.connection.execute(setting)
            self._synced = synced

    def _named(self, job: Append, error: Exception) -> Exception:
        if getattr(error, "sqlstate", None) != UNKNOWN_RUN_STATE:
            return self.problem(error)
        known = "SELECT 1 FROM run WHERE run_id = ?"
        missing = [run_id for run_id, _ in job.deliveries if not self.rows(known, (run_id,))]
        return operations.unknown_run(missing[0]) if missing else self.problem(error)

    def problem(self, error: Exception) -> Exception:
        """`error` as the contract has it."""
        if isinstance(error, psycopg.IntegrityError | psycopg.DataError):
            return ConstraintBroken(f"the journal refuses this: {_first_line(error)}")
        if isinstance(error, psycopg.Error | OSError):
            return StorageError(
                f"journal {self._name}: {_first_line(error)}",
                hint="see that the database runs and has room, then go on: nothing that was"
                " answered is lost",
            )
        return error


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]


def _points(jobs: Sequence[Job], moment: str) -> None:
    """The fault points of a group, one for each role in it."""
    if active():
        for role in dict.fromkeys(job.role for job in jobs):
            fault_point(f"journal.{role}.{moment}")


@lru_cache(maxsize=256)
def _in_dialect(sql: str) -> bytes:
    """Statements are constants with `?` for values; none holds a literal with either sign."""
    return sql.replace("?", "%s").encode()
