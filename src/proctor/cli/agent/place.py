"""Which journal a command means, and which run in it."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit

from proctor.agent.control import Control
from proctor.agent.core.view import View
from proctor.evals.options import nearest
from proctor.kernel.errors import UsageError
from proctor.store.journal.contract import Access, RunRow
from proctor.store.journal.errors import UnknownRun
from proctor.store.journal.opening import open_journal

DEFAULT = ".proctor/agent/journal.sqlite"
NAME = "journal.sqlite"


@asynccontextmanager
async def opened(where: str | None, access: Access) -> AsyncIterator[Control]:
    """The runs of the journal at `where`. Raises UsageError when there is none."""
    journal = open_journal(_found(where or DEFAULT), access=access)
    try:
        yield Control(journal)
    finally:
        await journal.close()


def _found(where: str) -> str:
    if "://" in where:
        if urlsplit(where).scheme.startswith("postgres"):
            return where
        raise UsageError(
            "--journal is a file, a run directory or a postgresql:// address",
            hint="other databases are not supported",
        )
    path = Path(where)
    if path.is_dir():
        path /= NAME
    if not path.is_file():
        raise UsageError(
            f"there is no journal of agent runs at {os.fspath(path)}",
            hint="name it with --journal FILE, RUN_DIR or postgresql://…",
        )
    return os.fspath(path)


async def one(control: Control, run_id: str) -> tuple[View, RunRow]:
    """A run's view and row. Raises UsageError with the nearest ids."""
    try:
        view = await control.view(run_id)
    except UnknownRun:
        known = [row.run_id for row in await control.journal.runs()]
        hint = nearest(run_id, known)
        raise UsageError(f"there is no agent run {run_id!r} in this journal", hint=hint) from None
    row = await control.journal.run_row(run_id)
    if row is None:  # there is an event, so there is a run
        raise UnknownRun(f"run {run_id} has a log and no row")
    return view, row
