"""A run whose driver failed: the reason is kept in its log, for whoever looks at it."""

from proctor.agent.core import commands as cmd
from proctor.agent.driving.claiming import OldPermissions
from proctor.agent.driving.loading import RunUnreadable, load_view
from proctor.agent.driving.recorder import LostRun, Recorder
from proctor.agent.driving.seam import said
from proctor.agent.setup import Setup
from proctor.kernel.errors import StorageError
from proctor.store.journal.contract import Lease
from proctor.store.journal.errors import ConstraintBroken, UnknownRun, UnreadableEvent


def is_its_own(error: BaseException) -> bool:
    """Whether a driver failed because of its run, and not because of the journal, of another
    worker, or of what this worker was started with."""
    if isinstance(error, ConstraintBroken | UnknownRun | UnreadableEvent):
        return True
    elsewhere = (StorageError, LostRun, OldPermissions, RunUnreadable)
    return isinstance(error, Exception) and not isinstance(error, elsewhere)


async def record_failure(setup: Setup, lease: Lease, error: Exception, outlook: str) -> None:
    """Record why the run was given up, and what this worker will do about it (`outlook`). What the
    driver had decided and not recorded is dropped: it is as if it had never been decided. Raises
    StorageError, LostRun."""
    view = await load_view(setup.journal, lease.run_id)
    recorder = Recorder(setup.journal, view, lease, setup.clock, setup.redactor)
    reason = f"{type(error).__name__}: {said(error)}" + (outlook and f"; {outlook}")
    recorder.must(cmd.GiveUp(lease.owner, reason))
    await recorder.flush()
