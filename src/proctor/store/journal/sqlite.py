"""A journal in one SQLite file.

In WAL mode with normal locking: other processes may read, and add to inboxes (`Access.CONTROL`).
On a file system without shared locks the journal is opened exclusively instead, and its `notice`
says so. When the last opening is closed, everything is in the one file again.
"""

import os
import sqlite3
from collections.abc import Callable, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Literal
from urllib.parse import quote

from proctor.kernel.clock import Clock, SystemClock
from proctor.kernel.errors import StorageError
from proctor.store.files import storage_error, sync_directory
from proctor.store.journal.contract import Access
from proctor.store.journal.errors import JournalTooNew
from proctor.store.journal.jobs import Job
from proctor.store.journal.lane import Lane
from proctor.store.journal.shared_locks import locks_are_shared
from proctor.store.journal.sqlite_session import SqliteSession, storage_problem
from proctor.store.journal.stored import StoredJournal
from proctor.store.journal.upgrades import AS_WRITTEN, Upgrades
from proctor.store.schema.journal_columns import SCHEMA_VERSION

APPLICATION_ID = 0x70726A31
"""In the file's header, so that a journal is recognised before anything is written to it."""
EXCLUSIVE_NOTICE = (
    "the journal is on a file system without shared locks and is held exclusively: commands that"
    " read or control a running agent are off until it ends"
)
_WAL_PAGES = 4000
_OLDEST = (3, 35, 0)

Locking = Literal["auto", "shared", "exclusive"]


def open_sqlite(
    path: str | os.PathLike[str],
    *,
    access: Access = Access.OWN,
    clock: Clock | None = None,
    upgrades: Upgrades = AS_WRITTEN,
    locking: Locking = "auto",
    busy_s: float = 30.0,
) -> StoredJournal:
    """Open the journal at `path`; with `Access.OWN` it is made if it is not there.

    `locking`: `auto` finds out whether the file system shares locks. `busy_s`: how long a write
    waits for another process. Blocks for a few milliseconds. Raises StorageError (JournalTooNew
    among them) naming the path.
    """
    place = os.path.abspath(os.fspath(path))
    if sqlite3.sqlite_version_info < _OLDEST:
        raise StorageError("a journal needs SQLite 3.35 or newer")
    exclusive = locking == "exclusive" or (
        locking == "auto" and not locks_are_shared(os.path.dirname(place))
    )
    opener = _Opener(place, access, exclusive, busy_s)
    writing = Lane("journal-writer", opener.writer, opener.close_writer)
    writing.start()
    reading = writing
    if not exclusive:
        reading = Lane("journal-reader", opener.reader, opener.close_reader)
        try:
            reading.start()
        except BaseException:
            writing.end()
            writing.join()
            raise
    notice = EXCLUSIVE_NOTICE if exclusive else None
    used = clock or SystemClock()
    return StoredJournal(
        [writing], reading, access, notice, used, upgrades, identity=_identity(place)
    )


def _identity(place: str) -> str:
    """The file, whatever path leads to it."""
    try:
        found = os.stat(place)
    except OSError:  # it has just been open: whoever moved it will hear of it at the next write
        return f"sqlite:{os.path.realpath(place)}"
    return f"sqlite:{found.st_dev}:{found.st_ino}"


class _Opener:
    """Makes and ends the connections of one opening, each in its lane's thread."""

    def __init__(self, path: str, access: Access, exclusive: bool, busy_s: float) -> None:
        self._path = path
        self._access = access
        self._exclusive = exclusive
        self._busy_s = busy_s
        self._sessions: dict[str, SqliteSession] = {}

    def writer(self) -> Callable[[Sequence[Job]], None]:
        """Open the connection that writes (if anything may be written) and give its work."""
        own = self._access is Access.OWN
        made = own and not os.path.exists(self._path)
        session = self._open("writer", "rwc" if own else "rw")
        if made:
            self._sync_folder()
        if self._access is Access.CONTROL:
            session.connection.set_authorizer(_only_inbox)
        elif self._access is Access.READ:
            session.connection.execute("PRAGMA query_only = ON")
        return session.write

    def reader(self) -> Callable[[Sequence[Job]], None]:
        """Open the connection that reads and give its work."""
        session = self._open("reader", "rw")
        session.connection.execute("PRAGMA query_only = ON")
        return session.read

    def _open(self, name: str, mode: str) -> SqliteSession:
        try:
            connection = sqlite3.connect(
                f"file:{quote(os.fsencode(self._path))}?mode={mode}",
                timeout=self._busy_s, isolation_level=None, uri=True, cached_statements=512,
            )  # fmt: skip
        except sqlite3.Error as error:
            raise storage_problem(error, self._path) from error
        try:
            self._prepare(connection, mode)
        except sqlite3.Error as error:
            connection.close()
            raise storage_problem(error, self._path) from error
        except BaseException:
            connection.close()
            raise
        session = self._sessions[name] = SqliteSession(connection, self._path)
        return session

    def _prepare(self, connection: sqlite3.Connection, mode: str) -> None:
        if self._exclusive:
            connection.execute("PRAGMA locking_mode = EXCLUSIVE")
        empty = not connection.execute("PRAGMA schema_version").fetchone()[0]
        if empty and mode != "rwc":
            raise StorageError(f"{self._path} is not a journal: it is empty")
        if not empty:
            _check_is_ours(connection, self._path)
        if self._access is Access.OWN:
            ((found,),) = connection.execute("PRAGMA journal_mode = WAL").fetchall()
            if found != "wal":
                raise StorageError(
                    f"SQLite cannot keep a write-ahead log beside {self._path}",
                    hint="keep the journal on a local file system",
                )
            connection.execute(f"PRAGMA wal_autocheckpoint = {_WAL_PAGES}")
        if empty:
            _make_tables(connection)

    def _sync_folder(self) -> None:
        try:
            sync_directory(os.path.dirname(self._path))
        except OSError as error:
            raise storage_error(error, self._path) from error

    def close_reader(self) -> None:
        """End the connection that reads."""
        self._sessions.pop("reader").connection.close()

    def close_writer(self) -> None:
        """End the connection that writes; the last one out folds the log into the file."""
        connection = self._sessions.pop("writer").connection
        try:
            if self._access is Access.OWN:
                connection.execute("PRAGMA busy_timeout = 0")
                connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
                connection.execute("PRAGMA journal_mode = DELETE")
        except sqlite3.OperationalError:  # others have it open, or the disk is full: the log stays
            return
        finally:
            connection.close()


def _check_is_ours(connection: sqlite3.Connection, path: str) -> None:
    application = connection.execute("PRAGMA application_id").fetchone()[0]
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    if application != APPLICATION_ID:
        raise StorageError(
            f"{path} is an SQLite file but not a journal", hint="give the journal another path"
        )
    if version > SCHEMA_VERSION:
        raise JournalTooNew(
            f"journal {path} has tables of version {version}; this proctor knows {SCHEMA_VERSION}",
            hint="update proctor",
        )


def _make_tables(connection: sqlite3.Connection) -> None:
    """All tables or none, also if two processes begin at once."""
    script = files("proctor.store.schema").joinpath("journal.sqlite.sql").read_text("utf-8")
    connection.execute("BEGIN IMMEDIATE")
    try:
        if not connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
            for statement in _statements(script):
                connection.execute(statement)
            connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.rollback()
        raise


def _statements(script: str) -> list[str]:
    """The statements of a script, which end with a line that SQLite takes for an end."""
    found, current = [], ""
    for line in script.splitlines(keepends=True):
        current += line
        if line.rstrip().endswith(";") and sqlite3.complete_statement(current):
            found.append(current)
            current = ""
    return found


_READING = frozenset(
    (
        sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION,
        sqlite3.SQLITE_TRANSACTION, sqlite3.SQLITE_PRAGMA,
    )
)  # fmt: skip


def _only_inbox(
    action: int, first: str | None, second: str | None, database: str | None, source: str | None
) -> int:
    """SQLite's own guard of a control connection: it reads, and adds to inboxes."""
    if action in _READING or (action == sqlite3.SQLITE_INSERT and first == "inbox"):
        return sqlite3.SQLITE_OK
    if action == sqlite3.SQLITE_UPDATE and first == "schema_version":  # an empty barrier
        return sqlite3.SQLITE_OK
    return sqlite3.SQLITE_DENY


def is_journal(path: str | os.PathLike[str]) -> bool:
    """Whether the file at `path` begins as a journal does; it is not opened as a database."""
    try:
        with Path(path).open("rb") as file:
            head = file.read(72)
    except OSError:
        return False
    return head[:16] == b"SQLite format 3\0" and int.from_bytes(head[68:72]) == APPLICATION_ID
