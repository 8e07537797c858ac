"""Cleaning up: what runs is stopped, what is unknown is asked for, what was done may be undone."""

import math

from proctor.agent.core import commands as cmd
from proctor.agent.core.commands import Refusal
from proctor.agent.core.view import ActionView
from proctor.agent.driving.attempts import start_ready
from proctor.agent.driving.children import end_of, tell_parent
from proctor.agent.driving.desk import Desk
from proctor.agent.driving.intake import cancel_children
from proctor.agent.driving.proposals import proposed
from proctor.agent.driving.seam import call as ask
from proctor.agent.driving.settling import ask_unknown
from proctor.agent.tools import Compensation, ToolResult
from proctor.kernel import jsontext
from proctor.kernel.faults import fault_point
from proctor.models.contract import ToolCall

_OVER = "the time for cleaning up is over"


async def finish(desk: Desk) -> bool:
    """One step towards the end of a run that is closing; whether anything was done."""
    before = desk.view.version
    if desk.closing_since is None:
        desk.closing_since = desk.setup.clock.monotonic() - _gone_before(desk)
        if desk.view.held:  # its time is over: nothing more is asked or undone
            desk.closing_since = -math.inf
        cancel_children(desk)
        fault_point("agent.finishing")
    _close_turn(desk)
    _stop_running(desk)
    begun = False
    if not desk.view.held:
        begun = ask_unknown(desk)
        _undo(desk)
    if desk.view.unfinished("ready") and time_left(desk) > 0:
        begun = await start_ready(desk) or begun
    if time_left(desk) <= 0:
        _give_up(desk)
        if _child_time_left(desk) <= 0:
            _give_up_children(desk)
    about = desk.view
    found = desk.recorder.apply(cmd.End())
    if end_of(found):
        tell_parent(desk, about)
        fault_point("agent.end.begin")
        await desk.recorder.flush()
        fault_point("agent.end.recorded")
    return begun or desk.view.version != before


def _close_turn(desk: Desk) -> None:
    turn = desk.view.open_turn
    if turn is None:
        return
    if desk.turn is not None:
        desk.turn.cancel()
        desk.turn = None
    desk.recorder.must(cmd.CloseTurn(turn.number, "the run is ending"))


def _stop_running(desk: Desk) -> None:
    for action in desk.view.unfinished("running"):
        undoes = action.compensates is not None
        if not undoes and not action.stop and action.id not in desk.stops:
            desk.stops[action.id] = desk.spawn(_stop(desk, action))


async def _stop(desk: Desk, action: ActionView) -> None:
    def tell(answer: str, means: tuple[str, ...]) -> None:
        desk.commands.append(cmd.AnswerStop(action.id, action.attempts, answer, means))

    try:
        await desk.dispatcher.stop(action.id, tell)
    finally:
        desk.stops.pop(action.id, None)
        desk.wake()


def time_left(desk: Desk, more_s: float = 0.0) -> float:
    """Seconds until what is not cleaned up is given up; 0 when nothing is to be cleaned up. The
    time is reckoned from the log, and a worker that has just come has `grace_s` of its own."""
    if desk.closing_since is None:
        return 0.0
    gone = desk.setup.clock.monotonic() - desk.closing_since
    return max(0.0, desk.setup.timing.cancel_s + more_s - gone)


def _child_time_left(desk: Desk) -> float:
    """Seconds until subtasks are given up. They have as much time as this run and begin later, so
    that they are waited for a little longer."""
    timing = desk.setup.timing
    return time_left(desk, timing.poll_s + 2 * timing.grace_s)


def _gone_before(desk: Desk) -> float:
    """Seconds of the time for cleaning up that other workers have used."""
    timing = desk.setup.timing
    most = timing.cancel_s - min(timing.grace_s, timing.cancel_s)
    return min(max(0.0, (desk.recorder.steady_ms() - desk.view.closing_ms) / 1000), most)


def _give_up(desk: Desk) -> None:
    """The time for cleaning up is over: what still runs is not known, and nothing starts."""
    for action in desk.view.unfinished("running"):
        answer = cmd.AnswerStop(action.id, action.attempts, "timed_out")
        desk.recorder.apply(answer)
        text = "it did not end in the time for cleaning up"
        desk.recorder.apply(cmd.EndAttempt(action.id, action.attempts, action.fence, "lost", text))
        desk.dispatcher.abandon(action.id)
    for action in desk.view.unfinished("unknown"):
        known = {"reason": _OVER, "late": True}
        desk.recorder.apply(cmd.Settle(action.id, "cannot_be_settled", "clock", handover=known))

    for action in desk.view.unfinished("ready"):  # compensations
        desk.recorder.apply(cmd.CloseAction(action.id, "cancelled", _OVER))


def _give_up_children(desk: Desk) -> None:
    for wait in desk.view.waiting("child"):  # each was told to end
        closing = cmd.CloseWait(wait.id, "cancelled", "runtime", None, _OVER, source="runtime")
        desk.recorder.apply(closing)


def _undo(desk: Desk) -> None:
    """Propose a compensation for every effect that is done, the latest first."""
    cancel = desk.view.cancel
    if cancel is None or not cancel.compensate:
        return
    taken = {a.compensates for a in desk.view.actions if a.compensates is not None}
    for action in reversed(list(desk.view.actions)):
        if action.effects != "done" or action.compensates is not None or action.id in taken:
            continue
        tool = desk.setup.tools.get(action.tool)
        if tool is None or action.id in desk.undone:
            continue
        desk.undone.add(action.id)
        result = ToolResult(action.text, action.evidence)
        try:
            undo = ask(tool.compensate, jsontext.copied(action.arguments), result)
        except Exception:  # noqa: BLE001 - a tool's own code: then there is no compensation
            undo = None
        if isinstance(undo, Compensation):
            call = proposed(desk.setup.tools, ToolCall("", undo.tool, undo.arguments))
            answer = desk.recorder.apply(cmd.Compensate(action.id, call))
            assert not isinstance(answer, Refusal) or call.problem is not None
