"""Claiming a run whose owner is gone before its log is read: reading it may be what workers die of.
What is recorded then follows from the run's row alone, so that it counts the death."""

from proctor.agent.core import commands as cmd
from proctor.agent.core.events import RunReleased
from proctor.agent.core.view import CancelView, View
from proctor.agent.driving.probation import deaths_of
from proctor.agent.driving.recorder import Recorder
from proctor.agent.setup import Setup
from proctor.kernel.agent_states import RUN
from proctor.kernel.errors import ProctorError
from proctor.store.journal.contract import Lease, RunRow
from proctor.store.journal.errors import UnreadableEvent
from proctor.store.leases import is_dead


class OldPermissions(ProctorError):
    """The run was driven under newer permissions than this worker has: it may not go on here."""

    code = "agent_old_permissions"


def check_rules(setup: Setup, run_id: str, epoch: int, state: str) -> None:
    """A revoked permission stays revoked: older rules than the run has seen decide nothing."""
    ours = setup.permissions.epoch
    if ours < epoch and not RUN.is_final(state):
        raise OldPermissions(
            f"run {run_id} is under permissions of epoch {epoch}, this worker has {ours}",
            hint="start the worker with the newer permissions",
        )


async def take_lease(setup: Setup, run_id: str, owner: str) -> tuple[Lease | None, RunRow | None]:
    """The lease, None if another holds it; and the run as it was before, if it had an owner that
    was dead or had fallen silent."""
    row = await setup.journal.run_row(run_id)
    holder = None if row is None else row.owner
    dead = holder if holder is not None and is_dead(holder) else None
    lease = await setup.journal.claim(run_id, owner, setup.timing.lease_ttl_s, dead_owner=dead)
    if row is None or holder is None:
        return lease, None
    silent = row.lease_until is not None and row.lease_until <= setup.clock.now()
    return lease, row if dead or silent else None


async def claim_unread(setup: Setup, row: RunRow, lease: Lease) -> None:
    """Record the claim of a run, and that it is held back if too many workers died of it. `row`: as
    it was before, with an owner that had vanished. Raises OldPermissions, LostRun, StorageError."""
    check_rules(setup, row.run_id, row.permission_epoch, row.state)
    try:
        last = await setup.journal.read_events(row.run_id, max(0, row.version - 1), 2)
    except UnreadableEvent:  # whoever reads the log next says so
        return
    if len(last) != 1 or (last[0].kind, last[0].fence) == (RunReleased.kind, row.fence):
        return  # it did something since, or had come to rest: the log says whose the run was
    recorder = Recorder(setup.journal, _shown_by(row), lease, setup.clock)
    recorder.must(cmd.Claim(lease.owner, lease.fence))
    recorder.apply(cmd.HoldBack())
    await recorder.flush()


def _shown_by(row: RunRow) -> View:
    """What a row says of its run: enough for a claim."""
    cancel = None if row.cancel_seq is None else CancelView("", "", row.cancel_seq, 0)
    return View(
        row.run_id,
        row.version,
        row.state,
        config_digest=row.config_digest,
        epoch=row.permission_epoch,
        owner=row.owner,
        fence=row.fence,
        cancel=cancel,
        deaths=deaths_of(row),
    )
