"""Taking a run over, in order; every step may be the last one of this process and is repeated by
the next. Nothing is scheduled before all of it is done."""

import asyncio

from msgspec.structs import replace

from proctor.agent.core import commands as cmd
from proctor.agent.core.locks import Mode
from proctor.agent.core.view import ActionView
from proctor.agent.driving.attempts import subject_of
from proctor.agent.driving.children import ensure_children
from proctor.agent.driving.claiming import check_rules
from proctor.agent.driving.desk import Desk
from proctor.agent.driving.intake import revision_of, take_in
from proctor.agent.driving.seam import call
from proctor.agent.driving.stopping import control_groups, still_ours, stop_groups
from proctor.agent.driving.turns import final_text
from proctor.environments import tracking
from proctor.kernel.faults import fault_point


async def take_over(desk: Desk) -> None:
    """From a fresh claim to the point where the run may go on."""
    recorder, lease = desk.recorder, desk.recorder.lease
    check_rules(desk.setup, desk.view.run_id, desk.view.epoch, desk.view.state)
    if desk.view.fence != lease.fence:
        recorder.must(cmd.Claim(lease.owner, lease.fence))
        await recorder.flush()
    fault_point("agent.claimed")
    if desk.view.held:
        await _hold_back(desk)
    else:
        await settle_in(desk)


async def settle_in(desk: Desk) -> None:
    """Everything of a take-over that asks the policy, a tool or the workspace."""
    recorder = desk.recorder
    desk.policy = call(desk.setup.policy, desk.view.task)
    desk.settled_in = True
    _check_configuration(desk)
    changed_by = [a for a in desk.view.unfinished("running") if _writes_files(a)]
    await _all_lost(desk)
    await _check_workspace(desk, changed_by)
    await _check_approvals(desk)
    _close_turn(desk)
    await recorder.flush()
    fault_point("agent.recovered")
    await ensure_children(desk)
    await take_in(desk)  # what was acknowledged counts before the time that is spent
    _check_budget(desk)
    fault_point("agent.recovery.done")


async def _hold_back(desk: Desk) -> None:
    """Workers die of this run: what the last one left is stopped, people are heard, and nothing of
    the run's own is executed before somebody resumes it."""
    desk.recorder.apply(cmd.HoldBack())
    await _all_lost(desk)
    _close_turn(desk)
    await desk.recorder.flush()
    fault_point("agent.held_back")


def _close_turn(desk: Desk) -> None:
    turn = desk.view.open_turn
    if turn is not None:
        reason = "the worker that asked was lost"
        desk.recorder.must(cmd.CloseTurn(turn.number, reason, abandoned=True))


def _check_budget(desk: Desk) -> None:
    """A run whose time is spent starts nothing more. Other dimensions are looked at by what needs
    them: the next turn, the next attempt."""
    view = desk.view
    due = view.state in ("ready", "running", "waiting") and view.candidate is None
    if due and view.budgets.time_is_over and final_text(view) is None:
        desk.recorder.must(cmd.Close("failed", "budget wall_ms is spent"))


def _check_configuration(desk: Desk) -> None:
    desk.recorder.apply(cmd.ChangeConfig(desk.setup.config_digest(desk.policy)))
    desk.recorder.apply(cmd.ChangeEpoch(desk.setup.permissions.epoch))


async def _all_lost(desk: Desk) -> None:
    running = desk.view.unfinished("running")
    for action in running:
        await _lost(desk, action)
    if running:  # control groups that the worker made and no log names
        await asyncio.to_thread(tracking.sweep)


async def _lost(desk: Desk, action: ActionView) -> None:
    """The worker of this attempt is gone: stop what it left running, then its outcome is unknown
    and goes where its effect class says."""
    groups = [int(p["pgid"]) for p in action.processes if still_ours(p)]
    means: tuple[str, ...] = ()
    clock, grace_s = desk.setup.clock, desk.setup.timing.grace_s
    if groups:
        _, means = await stop_groups(groups, clock, grace_s)
    for folder in control_groups(action.processes):
        _, more = await stop_groups((), clock, grace_s, control_group=folder)
        means += more
    text = "the worker was lost" + (f"; its processes were sent {', '.join(means)}" * bool(means))
    desk.recorder.must(cmd.EndAttempt(action.id, action.attempts, action.fence, "lost", text))
    fault_point("agent.recovery.lost")
    await desk.recorder.flush()
    fault_point("agent.recovery.settled")


def _writes_files(action: ActionView) -> bool:
    """Whether an attempt may have written to the workspace, as it declared."""
    places = (a.parts[:1] for a in action.resources if a.mode is Mode.WRITE)
    return action.effect != "pure" and any(place in ((), ("ws",)) for place in places)


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
        for wait in desk.view.waiting("workspace"):
            closing = cmd.CloseWait(wait.id, "superseded", "runtime", None, "the files are as left")
            desk.recorder.apply(replace(closing, source="runtime"))
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
            closing = cmd.CloseWait(wait.id, "superseded", "runtime", reason=reason)
            desk.recorder.apply(replace(closing, source="runtime"))
