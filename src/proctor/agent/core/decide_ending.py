"""The rules of ending a run: cancelling in three records, closing, and the end itself."""

from proctor.agent.core import commands as cmd
from proctor.agent.core import events as ev
from proctor.agent.core.deciding import Decision, cannot, refuse
from proctor.agent.core.giving_up import nothing_new
from proctor.agent.core.telling import report, seal
from proctor.agent.core.view import ActionView, View
from proctor.kernel.agent_states import RUN


def request_cancel(view: View, command: cmd.RequestCancel, now_ms: int) -> Decision:
    """The first record. After it nothing new starts. Refused as `late` when the run has ended or
    is ending already."""
    if view.cancel is not None:
        return refuse("closed", f"the run was cancelled before, by {view.cancel.by}")
    if view.ended and view.state != "stopped":
        return refuse("late", f"too late: the run is {view.state}")
    if view.state == "finishing":
        return refuse("late", f"too late: the run is about to be {view.aim}")
    requested = ev.CancelRequested(command.by, command.reason, command.compensate)
    reason = f"cancelled by {command.by}"
    closing = ev.RunClosing("cancelled", command.reason or reason)
    doubtful = [a for a in view.unfinished("ready", "waiting") if a.past == "unknown"]
    open_ = [*view.unfinished("stopped"), *doubtful]
    unknown = [ev.EffectsSettled(a.id, "unknown") for a in open_]
    done = [ev.EffectsSettled(a.id, "done") for a in view.actions if _undoable(a)]
    settled = (*unknown, *done) if command.compensate else tuple(unknown)
    return (requested, closing, *nothing_new(view, reason), *settled)


def _undoable(action: ActionView) -> bool:
    """Whether it had an effect, accepted or not, that nothing more is done about."""
    if action.effect == "pure" or action.timed_out or action.effects:
        return False
    return action.past == "done" and action.state not in ("running", "verifying", "unknown")


def close(view: View, command: cmd.Close, now_ms: int) -> Decision:
    """The run is to end for another reason than a cancellation."""
    if command.aim not in ("done", "failed", "stopped"):
        return refuse("state", f"a run is not closed as {command.aim!r}")
    if "close" not in RUN.table[view.state]:
        return refuse("state", cannot(view, "close"))
    closing = ev.RunClosing(command.aim, command.reason)
    return (closing, *nothing_new(view, f"the run ends: {command.reason or command.aim}"))


def answer_stop(view: View, command: cmd.AnswerStop, now_ms: int) -> Decision:
    """The second record: whether a running attempt was stopped, and by which means."""
    action = view.action(command.action)
    if action is None or action.attempts != command.attempt or action.stop:
        return refuse("late", f"attempt {command.attempt} of {command.action} has its answer")
    if view.state != "finishing":
        return refuse("state", f"the run is {view.state}")
    return (ev.StopAnswered(action.id, command.attempt, command.answer, command.means),)


def end(view: View, command: cmd.End, now_ms: int) -> Decision:
    """The run has ended, once nothing is left open. What nobody knows is listed."""
    if view.state != "finishing":
        return refuse("state", cannot(view, "end"))
    if view.open_turn is not None:
        return refuse("blocked", f"turn {view.open_turn.number} is open")
    left = [a.id for a in view.unfinished() if a.state != "stopped"]
    left += [w.id for w in view.waiting("child")]
    if left:
        return refuse("blocked", "open: " + ", ".join(left))
    stopped = view.unfinished("stopped")
    unsettled = tuple(
        {"action": a.id, "tool": a.tool, "op_key": a.op_key, "arguments": a.arguments}
        for a in stopped
    )
    late = any(a.stop == "timed_out" or a.handover.get("late") for a in stopped)
    state = "stopped" if late else view.aim
    told = "" if view.parent is None else seal(report(view, state))
    return (ev.RunEnded(state, unsettled, told),)
