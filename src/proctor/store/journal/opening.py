"""Opening a journal wherever it is: a file (SQLite) or a URL (PostgreSQL)."""

import os

from proctor.kernel.clock import Clock
from proctor.store.journal.contract import Access
from proctor.store.journal.stored import StoredJournal
from proctor.store.journal.upgrades import AS_WRITTEN, Upgrades

_SCHEMES = ("postgresql://", "postgres://", "postgresql+psycopg://")


def open_journal(
    where: str | os.PathLike[str],
    *,
    access: Access = Access.OWN,
    clock: Clock | None = None,
    upgrades: Upgrades = AS_WRITTEN,
) -> StoredJournal:
    """The journal at `where`: a `postgresql://` URL, else the path of a file.

    With `Access.OWN` its tables are made if they are not there. Blocks until it is open; call it
    before a loop runs or in a thread. Raises StorageError saying what to do.
    """
    text = os.fspath(where)
    if text.startswith(_SCHEMES):
        from proctor.store.journal.postgresql import open_postgresql

        return open_postgresql(text, access=access, clock=clock, upgrades=upgrades)
    from proctor.store.journal.sqlite import open_sqlite

    return open_sqlite(text, access=access, clock=clock, upgrades=upgrades)
