"""A journal in a PostgreSQL database, for several workers on one or more machines.

An owner's opening uses three connections: two write, each for half of the runs, one reads.
Leases go by the database's time: how far this machine's clock is behind it is measured once, at
opening.
"""

import re
from collections.abc import Callable, Sequence
from importlib.resources import files
from typing import Any

from proctor.kernel.clock import Clock, SystemClock
from proctor.kernel.errors import StorageError
from proctor.store.journal.contract import Access
from proctor.store.journal.encoding import microseconds
from proctor.store.journal.errors import EngineMissing, JournalTooNew
from proctor.store.journal.jobs import Job
from proctor.store.journal.lane import Lane
from proctor.store.journal.stored import StoredJournal
from proctor.store.journal.upgrades import AS_WRITTEN, Upgrades
from proctor.store.schema.journal_columns import SCHEMA_VERSION

try:
    import psycopg
    from psycopg.conninfo import conninfo_to_dict

    from proctor.store.journal.postgresql_session import Connection, PostgresqlSession
except ImportError as error:
    raise EngineMissing(
        f"a PostgreSQL journal needs the package psycopg: {error}",
        hint="pip install 'proctor[service]'",
    ) from error

SCHEMA = "proctor_agent"
"""The database schema that holds a journal's tables."""
WRITERS = 2
"""Connections that write: while one waits for the disk, or its statement runs, the other's group is
made ready. The server lets their commits share a sync."""
_PLANNING = (
    # One plan for any number of rows in a group: planning costs more than running.
    b"SET plan_cache_mode = force_generic_plan", b"SET jit = off",
    # It is made when the tables are small, and must be right when they are large.
    b"SET enable_seqscan = off", b"SET enable_mergejoin = off",
)  # fmt: skip
_PLAIN_URL = re.compile(r"[a-z+]+://([^@/?#\s:]*(:[^@/?#\s:]*)?@)?[^@\s]*")
_NAME = re.compile(r"[a-z_][a-z0-9_]{0,62}")
_CREATING = 0x70726A31  # the number of the advisory lock under which tables are made


def open_postgresql(
    url: str,
    *,
    access: Access = Access.OWN,
    clock: Clock | None = None,
    upgrades: Upgrades = AS_WRITTEN,
    schema: str = SCHEMA,
) -> StoredJournal:
    """Open the journal in `schema` of the database at `url`; with `Access.OWN` schema and tables
    are made if they are not there. Blocks until it is connected. Raises StorageError."""
    if not _NAME.fullmatch(schema):
        raise StorageError(f"{schema!r:.80} cannot be the name of a journal's schema")
    if "://" in url and not _PLAIN_URL.fullmatch(url):
        # libpq would take a part of the password for the host, and say it in its errors.
        raise StorageError(
            "the URL of the journal's database is not plain: it could be read in several ways",
            hint="in the user and the password write @ / ? # : and blanks as %40 %2F %3F %23 ...",
        )
    opener = _Opener(re.sub(r"^postgresql\+\w+://", "postgresql://", url), access, schema)
    writers = WRITERS if access is Access.OWN else 1
    writing = [opener.writing(number) for number in range(writers)]
    reading = Lane("journal-reader", opener.reader, lambda: opener.end("reader"))
    _open_all([*writing, reading])
    used = clock or SystemClock()
    behind_us = opener.now_us - microseconds(used.now())
    return StoredJournal(writing, reading, access, None, used, upgrades, behind_us, opener.identity)


def _open_all(lanes: Sequence[Lane]) -> None:
    """All at once, because most of it is waiting for the server; none if one fails."""
    for lane in lanes:
        lane.begin()
    problems: list[BaseException] = []
    for lane in lanes:
        try:
            lane.opened()
        except BaseException as problem:  # noqa: BLE001 - raised when both have ended
            problems.append(problem)
    if problems:
        for lane in lanes:
            lane.end()
            lane.join()
        raise problems[0]


_IDENTITY = (
    "SELECT concat_ws(':', 'postgresql', pg_postmaster_start_time(), d.oid,"
    " to_regclass('run')::oid) FROM pg_database d WHERE datname = current_database()"
)


class _Opener:
    """Makes and ends the connections of one opening, each in its lane's thread."""

    def __init__(self, url: str, access: Access, schema: str) -> None:
        self._url = url
        self._access = access
        self._schema = schema
        self._sessions: dict[str, PostgresqlSession] = {}
        self.now_us = 0
        self.identity = ""
        self._name = _shown(url, schema)

    def writing(self, number: int) -> Lane:
        """A lane that writes; those after the first connect when they have something to do."""
        name = f"writer {number}"
        opened = (lambda: self.later(name)) if number else (lambda: self.writer(name))
        return Lane(f"journal-writer-{number}", opened, lambda: self.end(name))

    def later(self, name: str) -> Callable[[Sequence[Job]], None]:
        """The work of a lane whose connection is made for its first group."""

        def work(jobs: Sequence[Job]) -> None:
            try:
                session = self._sessions.get(name) or self._open(name)
            except StorageError as error:
                for job in jobs:
                    job.error = error
            else:
                session.write(jobs)

        return work

    def writer(self, name: str) -> Callable[[Sequence[Job]], None]:
        """Connect, make the tables if need be, and give the work of a writing lane."""
        session = self._open(name)
        try:
            if self._access is Access.OWN:
                self._make_tables(session.connection)
            self._check_version(session)
            ((self.identity,),) = session.rows(_IDENTITY)
        except psycopg.Error as error:
            session.connection.close()
            raise session.problem(error) from error
        except BaseException:
            session.connection.close()
            raise
        return session.write

    def reader(self) -> Callable[[Sequence[Job]], None]:
        """Connect, read the database's time, and give the work of the reading lane."""
        session = self._open("reader")
        session.connection.execute("SET default_transaction_read_only = on")
        now = "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint"
        ((self.now_us,),) = session.rows(now)
        return session.read

    def end(self, name: str) -> None:
        """End a connection, if it was made."""
        session = self._sessions.pop(name, None)
        if session is not None:
            session.connection.close()

    def _open(self, name: str) -> PostgresqlSession:
        try:
            session = PostgresqlSession(self._connect, self._name)
        except psycopg.Error as error:
            reason = str(error).strip().splitlines()[-1]
            raise StorageError(
                f"cannot open journal {self._name}: {reason}",
                hint="see that the database runs and the URL is right",
            ) from error
        self._sessions[name] = session
        return session

    def _connect(self) -> Connection:
        connection: Connection = psycopg.connect(
            self._url, autocommit=True, application_name="proctor-journal"
        )
        connection.execute(f'SET search_path TO "{self._schema}"'.encode())
        for setting in _PLANNING:
            connection.execute(setting)
        if self._access is Access.READ:
            connection.execute("SET default_transaction_read_only = on")
        return connection

    def _make_tables(self, connection: Connection) -> None:
        """All tables or none, also if two workers begin at once."""
        script = files("proctor.store.schema").joinpath("journal.postgresql.sql")
        with connection.transaction():
            connection.execute("SELECT pg_advisory_xact_lock(%s)", (_CREATING,))
            if not _has_tables(connection, self._schema):
                connection.execute(f'CREATE SCHEMA IF NOT EXISTS "{self._schema}"'.encode())
                connection.execute(script.read_bytes())

    def _check_version(self, session: PostgresqlSession) -> None:
        if not _has_tables(session.connection, self._schema):
            raise StorageError(f"there is no journal in {self._name}")
        ((version,),) = session.rows("SELECT max(version) FROM schema_version")
        if version > SCHEMA_VERSION:
            raise JournalTooNew(
                f"journal {self._name} has tables of version {version};"
                f" this proctor knows {SCHEMA_VERSION}",
                hint="update proctor",
            )


def _has_tables(connection: Connection, schema: str) -> bool:
    found = connection.execute(
        "SELECT 1 FROM pg_tables WHERE schemaname = %s AND tablename = 'schema_version'", (schema,)
    )
    return found.fetchone() is not None


def _shown(url: str, schema: str) -> str:
    """The database for people: never with its password."""
    try:
        parts: dict[str, Any] = conninfo_to_dict(url)
    except psycopg.Error:
        return "at an unreadable URL"
    return f"{parts.get('host') or 'localhost'}/{parts.get('dbname') or ''} ({schema})"
