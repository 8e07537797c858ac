"""Taking a run over, in order; every step may be the last one of this process and is repeated by
the next. Nothing is scheduled before all of it is done."""

from proctor.agent.core import commands as cmd
from proctor.agent.core.view import ActionView
from proctor.agent.driving.attempts import subject_of
from proctor.agent.driving.children import ensure_children
from proctor.agent.driving.desk import Desk
from proctor.agent.driving.intake import revision_of, take_in
from proctor.agent.driving.stopping import still_ours, stop_groups
from proctor.kernel.faults import fault_point


async def take_over(desk: Desk) -> None:
    """From a fresh claim to the point where the run may go on."""
    recorder, lease = desk.recorder, desk.recorder.lease
    recorder.must(cmd.Claim(lease.owner, lease.fence))
    await recorder.flush()
    fault_point("agent.claimed")
    _check_configuration(desk)
    changed_by = [a for a in desk.view.unfinished("running") if a.effect != "pure"]
    for action in desk.view.unfinished("running"):
        await _lost(desk, action)
    await _check_workspace(desk, changed_by)
    await _check_approvals(desk)
    turn = desk.view.open_turn
    if turn is not None:
        recorder.must(cmd.CloseTurn(turn.number, "the worker that asked was lost"))
    await recorder.flush()
    fault_point("agent.recovered")
    await ensure_children(desk)
    await take_in(desk)
    fault_point("agent.recovery.done")


def _check_configuration(desk: Desk) -> None:
    desk.recorder.apply(cmd.ChangeConfig(desk.setup.config_digest(desk.policy)))
    desk.recorder.apply(cmd.ChangeEpoch(desk.setup.permissions.epoch))


async def _lost(desk: Desk, action: ActionView) -> None:
    """The worker of this attempt is gone: stop what it left running, then its outcome is unknown
    and goes where its effect class says."""
    groups = [int(p["pgid"]) for p in action.processes if still_ours(p)]
    means: tuple[str, ...] = ()
    if groups:
        _, means = await stop_groups(groups, desk.setup.clock, desk.setup.timing.grace_s)
    text = "the worker was lost" + (f"; its processes were sent {', '.join(means)}" * bool(means))
    desk.recorder.must(cmd.EndAttempt(action.id, action.attempts, action.fence, "lost", text))
    fault_point("agent.recovery.lost")
    await desk.recorder.flush()
    fault_point("agent.recovery.settled")


async def _check_workspace(desk: Desk, changed_by: list[ActionView]) -> None:
    """Files that changed while nobody worked on them are a wait, not a silent go-on. What a lost
    attempt may have written is expected."""
    if desk.setup.workspace is None:
        return
    try:
        desk.manifest = dict(await desk.setup.workspace.manifest())
    except (OSError, ValueError) as error:
        if not desk.view.ended:
            desk.recorder.apply(cmd.Diverge(f"cannot be read: {error}"))
        return
    found = revision_of(desk.manifest)
    if desk.view.revision in ("", found) or changed_by:
        desk.recorder.apply(cmd.Revise(found, changed_by[0].id if changed_by else ""))
    elif not desk.view.ended:
        desk.recorder.apply(cmd.Diverge(found))


async def _check_approvals(desk: Desk) -> None:
    """An approval that is waited for must be about what would be executed now."""
    for wait in desk.view.waiting("approval"):
        action = desk.view.action(wait.action or "")
        tool = desk.setup.tools.get(action.tool) if action is not None else None
        if action is None or tool is None:
            continue
        wanted = await subject_of(desk, action, tool)
        if wanted != wait.subject:
            reason = "what was to be approved has changed"
            desk.recorder.apply(cmd.CloseWait(wait.id, "superseded", "runtime", reason=reason))
