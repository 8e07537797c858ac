"""Ending an action truthfully. What may have had an effect does not end as failed or cancelled,
which say that it had none: it is given up, and a person is asked what happened."""

from collections.abc import Mapping
from typing import Any

from proctor.agent.core import events as ev
from proctor.agent.core.view import ActionView, View, WaitView
from proctor.kernel.agent_states import RUN

GIVEN_UP = "given up"


def closed(
    view: View, action: ActionView, event: str, reason: str, place: int = 1
) -> tuple[ev.AgentEvent, ...]:
    """The end of a ready action. `place`: which new wait of this decision the question is."""
    if action.past != "unknown":
        return (ev.ActionClosed(action.id, event, reason),)
    given_up = ev.ActionClosed(action.id, "given_up", reason)
    return (given_up, *asked(view, action, GIVEN_UP, {"reason": reason}, place))


def asked(
    view: View, action: ActionView, by: str, known: Mapping[str, Any], place: int = 1
) -> tuple[ev.AgentEvent, ...]:
    """An unknown outcome that cannot be settled: the action stops, and a person is asked."""
    handover = {
        "tool": action.tool,
        "op_key": action.op_key,
        "arguments": action.arguments,
        "attempts": action.attempts,
        "started_seq": action.started_seq,
        **known,
    }
    if action.spawned:
        handover["child"] = action.spawned
    stopped = ev.ActionSettled(action.id, "cannot_be_settled", by, handover=handover)
    question = ev.WaitOpened(
        f"w{len(view.waits) + place}",
        "statement",
        action.id,
        prompt=f"{action.tool} was started and nobody knows how it ended. Did it happen?",
        spec={"op_key": action.op_key},
    )
    return (stopped, question)


def ended_wait(
    view: View,
    wait: WaitView,
    closing: ev.WaitClosed,
    place: int = 1,
    *,
    still: bool = False,
) -> tuple[ev.AgentEvent, ...]:
    """The end of a wait whose condition will not be met, and of the action that waits for it.
    `still`: it is a subtask's, which has not ended."""
    action = view.action(wait.action) if wait.action else None
    if action is None or wait.kind == "statement":
        return (closing,)
    if action.past != "unknown" and not still:
        return (closing,)
    given_up = ev.WaitClosed(
        closing.wait,
        closing.how,
        closing.by,
        closing.value,
        closing.reason,
        closing.message_id,
        given_up=True,
    )
    known: dict[str, Any] = {"reason": closing.reason}
    if still:
        known["late"] = True
    return (given_up, *asked(view, action, GIVEN_UP, known, place))


def cancelled_with_run(
    view: View, action: ActionView | None, *, doubtful: bool = True
) -> tuple[ev.AgentEvent, ...]:
    """An action that has become ready in a run that is being ended, or has ended for good, does not
    start again."""
    over = view.state == "finishing" or (view.ended and view.state != "stopped")
    if action is None or (view.cancel is None and not over):
        return ()
    if doubtful:
        return closed(view, action, "cancelled", "the run was ended")
    return (ev.ActionClosed(action.id, "cancelled", "the run was ended"),)


def stop_run(view: View, action_id: str) -> tuple[ev.AgentEvent, ...]:
    """The run ends because of an outcome that nobody knows, if that was wished."""
    if view.on_unknown != "stop_run" or "close" not in RUN.table[view.state]:
        return ()
    if view.state == "stopped":
        return ()
    closing = ev.RunClosing("stopped", f"the outcome of {action_id} is not known")
    return (closing, *nothing_new(view, closing.reason, besides=action_id, place=2))


def nothing_new(
    view: View, reason: str, *, besides: str = "", place: int = 1
) -> tuple[ev.AgentEvent, ...]:
    """Ready actions and open conditions end, but for those of the action `besides`. A subtask that
    was started is waited for, and a statement may still be made. `place`: as in `closed`."""
    found: list[ev.AgentEvent] = []
    for wait in view.waiting():
        if wait.kind in ("child", "statement") or (besides and wait.action == besides):
            continue
        closing = ev.WaitClosed(wait.id, "cancelled", reason=reason)
        found += ended_wait(view, wait, closing, place + _opened(found))
    for action in view.unfinished("ready"):
        if action.id != besides:
            found += closed(view, action, "cancelled", reason, place + _opened(found))
    return tuple(found)


def _opened(events: list[ev.AgentEvent]) -> int:
    return sum(isinstance(event, ev.WaitOpened) for event in events)
