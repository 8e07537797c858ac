"""A view from the log: read in pages, folded event by event."""

from collections.abc import Iterator, Sequence

from proctor.agent.core.events import AgentEvent, decode
from proctor.agent.core.evolve import replayed
from proctor.agent.core.view import View
from proctor.agent.driving.snapshots import load_snapshot
from proctor.kernel.errors import ProctorError, StorageError
from proctor.kernel.states import IllegalTransition
from proctor.store.journal.contract import Journal, StoredEvent
from proctor.store.journal.errors import UnknownRun, UnreadableEvent

PAGE = 2000
"""Events read at once: memory does not grow with the length of the log."""


def replay(view: View, stored: Sequence[StoredEvent]) -> View:
    """`view` after these events. Raises StorageError when they do not follow it."""
    return replayed(view, _decoded(view.version, stored))


def _decoded(version: int, stored: Sequence[StoredEvent]) -> Iterator[tuple[AgentEvent, int]]:
    for expected, item in enumerate(stored, version + 1):
        if item.seq != expected:
            raise UnreadableEvent(f"run {item.run_id}: event {expected} is missing")
        yield _event(item), round(item.at.timestamp() * 1000)


class RunUnreadable(ProctorError):
    """The log of an agent run cannot be read."""

    code = "agent_run_unreadable"


_DAMAGE = (UnreadableEvent, IllegalTransition, ArithmeticError, AttributeError, LookupError,
           TypeError, ValueError)  # fmt: skip


async def read_view(journal: Journal, run_id: str) -> View:
    """`load_view` for a driver: what is wrong with one log is no fault of the journal. Raises
    RunUnreadable, UnknownRun, StorageError."""
    try:
        return await load_view(journal, run_id)
    except _DAMAGE as error:
        raise RunUnreadable(f"run {run_id} cannot be read: {error}") from error


def _event(item: StoredEvent) -> AgentEvent:
    try:
        return decode(item.kind, item.version, item.body)
    except StorageError as error:
        raise UnreadableEvent(str(error), hint=error.hint) from error


async def load_view(journal: Journal, run_id: str, view: View | None = None) -> View:
    """The view of a run as its log is now; from `view` on, if one is given, else from the newest
    snapshot. Raises UnknownRun, StorageError."""
    if view is None:
        view = await load_snapshot(journal, run_id) or View()
    while True:
        page = await journal.read_events(run_id, view.version, PAGE)
        view = replay(view, page)
        if len(page) < PAGE:
            break
    if not view.version:
        raise UnknownRun(f"there is no agent run {run_id!r} in this journal")
    return view
