"""What the events of actions and waits do to the view."""

from collections.abc import Mapping
from typing import Any, TypeAlias

from msgspec.structs import replace

from proctor.agent.core import events as ev
from proctor.agent.core.answers import expiry
from proctor.agent.core.budgets import NOTHING, Cost, amount
from proctor.agent.core.locks import MODES, Access
from proctor.agent.core.view import ActionView, Json, View, WaitView
from proctor.kernel.agent_states import ACTION
from proctor.kernel.states import IllegalTransition

Changes: TypeAlias = dict[str, Any]
"""Fields of the view with their new values."""


def accepted(view: View, event: ev.ActionAccepted, at_ms: int) -> Changes:
    if event.action != f"a{len(view.actions) + 1}":
        raise IllegalTransition(f"action {event.action!r}: accepted out of order")
    action = ActionView(
        id=event.action,
        turn=event.turn,
        call_id=event.call_id,
        tool=event.tool,
        tool_version=event.tool_version,
        effect=event.effect,
        arguments=_arguments(view, event),
        op_key=event.op_key,
        resources=tuple([Access(MODES[mode], path) for mode, path in event.resources]),
        max_attempts=event.max_attempts,
        accepted_seq=view.version + 1,
        compensates=event.compensates,
    )
    return {
        **_outcome(view, event.turn, event.call_id, ("action", event.action)),
        "actions": view.actions.append(action),
        "open_actions": (*view.open_actions, event.action),
    }


def _arguments(view: View, event: ev.ActionAccepted) -> Json:
    """The calls of a turn are answered in their order: the next one is this action's."""
    if event.arguments is not None:
        return event.arguments
    turn = view.turn(event.turn)
    place = 0 if turn is None else len(turn.outcomes)
    call = turn.calls[place] if turn is not None and place < len(turn.calls) else {}
    if call.get("call_id") != event.call_id:
        raise IllegalTransition(f"action {event.action!r}: its turn has no such call")
    arguments: Json = call["arguments"]
    return arguments


def call_refused(view: View, event: ev.CallRefused, at_ms: int) -> Changes:
    return _outcome(view, event.turn, event.call_id, ("refused", event.reason))


def _outcome(view: View, number: int, call_id: str, outcome: tuple[str, str]) -> Changes:
    turn = view.turn(number)
    if turn is None:  # a compensation belongs to no turn
        return {}
    turn = replace(turn, outcomes={**turn.outcomes, call_id: outcome})
    return {"turns": view.turns.replace(number - 1, turn)}


def _get(view: View, action_id: str) -> ActionView:
    action = view.action(action_id)
    if action is None:
        raise IllegalTransition(f"there is no action {action_id!r}")
    return action


def _put(view: View, action: ActionView, **more: Any) -> Changes:
    more["actions"] = view.actions.replace(int(action.id[1:]) - 1, action)
    if not action.open:
        more["open_actions"] = tuple([a for a in view.open_actions if a != action.id])
    return more


def _advance(action: ActionView, event: str, **changes: Any) -> ActionView:
    return replace(action, state=ACTION.advance(action.state, event), **changes)


def action_closed(view: View, event: ev.ActionClosed, at_ms: int) -> Changes:
    changes: dict[str, Any] = {"reason": event.reason, "ended_seq": view.version + 1}
    if event.event == "given_up":
        changes["unknown_ms"] = at_ms
    action = _advance(_get(view, event.action), event.event, **changes)
    return _put(view, action)


def attempt_started(view: View, event: ev.AttemptStarted, at_ms: int) -> Changes:
    action = _get(view, event.action)
    if event.attempt != action.attempts + 1:
        raise IllegalTransition(f"attempt {event.attempt} of {event.action} is out of order")
    action = _advance(
        action,
        "started",
        attempts=event.attempt,
        fence=event.fence,
        started_seq=view.version + 1,
        processes=(),
        stop="",
    )
    budgets = view.budgets.reserve(action.source, Cost.from_json(event.reserve))
    return _put(view, action, budgets=budgets)


def attempt_ended(view: View, event: ev.AttemptEnded, at_ms: int) -> Changes:
    action = _get(view, event.action)
    if event.attempt != action.attempts:
        raise IllegalTransition(f"attempt {event.attempt} of {event.action} is superseded")
    state = ACTION.advance(action.state, event.outcome)
    if event.accepted:
        state = ACTION.advance(state, "accepted")
    ended = replace(
        action,
        state=state,
        text=event.text,
        evidence=event.evidence,
        timed_out=event.timed_out,
        ended_seq=view.version + 1,
        past=_past(action, event.outcome),
        unknown_ms=at_ms if event.outcome == "lost" else action.unknown_ms,
        reason="" if event.accepted else action.reason,
    )
    budgets = view.budgets
    if event.outcome != "lost":  # what is unknown keeps its reservation
        budgets = budgets.settle(action.source, Cost.from_json(event.cost))
    return _put(view, ended, budgets=budgets)


def _past(action: ActionView, event: str) -> str:
    """What is known about all attempts of an action after this event of its table. An answer about
    the key speaks for every attempt of it; a refusal, before sending or by the other side, only for
    its own."""
    if action.effect == "pure":
        return ""
    if event in ("result", "happened", "stated_happened"):
        return "done"
    if event == "repeatable":
        return action.past or "unknown"
    speaks_for_all = event in ("did_not_happen", "stated_not")
    return "" if speaks_for_all and action.past == "unknown" else action.past


def settled(view: View, event: ev.ActionSettled, at_ms: int) -> Changes:
    action = _get(view, event.action)
    changes: dict[str, Any] = {"handover": event.handover, "ended_seq": view.version + 1}
    changes["past"] = _past(action, event.how)
    if event.how in ("happened", "stated_happened"):
        changes |= {"text": event.text, "evidence": event.evidence}
    settled = _advance(action, event.how, **changes)
    budgets = view.budgets
    if event.how != "cannot_be_settled":
        budgets = budgets.settle(action.source, None)
    return _put(view, settled, budgets=budgets)


def action_judged(view: View, event: ev.ActionJudged, at_ms: int) -> Changes:
    action = _advance(_get(view, event.action), event.verdict, reason=event.reason)
    return _put(view, action)


def process(view: View, event: ev.ProcessStarted, at_ms: int) -> Changes:
    action = _get(view, event.action)
    return _put(view, replace(action, processes=(*action.processes, ev.encode(event))))


# --- waits


def wait_opened(view: View, event: ev.WaitOpened, at_ms: int) -> Changes:
    if event.wait != f"w{len(view.waits) + 1}":
        raise IllegalTransition(f"wait {event.wait!r}: opened out of order")
    wait = WaitView(
        event.wait,
        event.wait_kind,
        event.action,
        event.subject,
        event.prompt,
        event.due_ms,
        event.spec,
        view.version + 1,
    )
    changes: Changes = {
        "waits": view.waits.append(wait),
        "open_waits": (*view.open_waits, event.wait),
    }
    if event.wait_kind == "child":  # a subtask draws from its parent
        amount = Cost.from_json(event.spec.get("reserve", {}))
        changes["budgets"] = view.budgets.reserve(event.wait, amount)
    if event.action is None or event.wait_kind == "statement":
        return changes
    action = _advance(_get(view, event.action), "condition_missing", wait=event.wait)
    if event.wait_kind == "child":
        action = replace(action, spawned=str(event.spec.get("child", "")))
    return _put(view, action, **changes)


def wait_closed(view: View, event: ev.WaitClosed, at_ms: int) -> Changes:
    wait = view.wait(event.wait)
    if wait is None or wait.state != "open":
        raise IllegalTransition(f"wait {event.wait!r} is not open")
    closed = replace(wait, state=event.how, by=event.by, value=event.value)
    changes: Changes = {
        "waits": view.waits.replace(int(wait.id[1:]) - 1, closed),
        "open_waits": tuple(w for w in view.open_waits if w != wait.id),
    }
    if wait.kind == "child":
        changes["budgets"] = view.budgets.settle(
            wait.id, child_drew(event.value, view.budgets.open.get(wait.id, NOTHING))
        )
    if wait.action is None or wait.kind == "statement":
        return changes
    answered = _answered(_get(view, wait.action), wait, event, view.version + 1)
    return _put(view, answered, **changes)


def wait_overdue(view: View, event: ev.WaitOverdue, at_ms: int) -> Changes:
    wait = view.wait(event.wait)
    if wait is None or wait.state != "open":
        raise IllegalTransition(f"wait {event.wait!r} is not open")
    overdue = replace(wait, due_ms=None)
    return {"waits": view.waits.replace(int(wait.id[1:]) - 1, overdue)}


def child_cost(value: Any) -> Cost | None:
    """What a subtask's last words say that it has spent; None when they say nothing usable."""
    spent = value.get("spent") if isinstance(value, Mapping) else None
    return None if spent is None else amount(spent)


def child_drew(value: Any, held: Cost) -> Cost | None:
    """What a subtask takes from its parent; None: all that was reserved. One that is stopped may be
    resumed and spend the rest."""
    cost = child_cost(value)
    return cost if cost is None or value.get("state") != "stopped" else cost.most(held)


def _answered(action: ActionView, wait: WaitView, event: ev.WaitClosed, seq: int) -> ActionView:
    if event.how == "superseded":  # asked again: ready, with the condition still missing
        return _advance(action, "arrived", wait=None)
    if event.how != "arrived":
        how = "given_up" if event.given_up else event.how
        answer = event.value if wait.kind == "child" else action.answer
        return _advance(action, how, wait=None, reason=event.reason, ended_seq=seq, answer=answer)
    if wait.kind == "approval":
        until = expiry(event.value)
        return _advance(action, "arrived", wait=None, approved=wait.subject, approved_until=until)
    met = (*action.met, wait.kind)
    return _advance(action, "arrived", wait=None, met=met, answer=event.value)


# --- a cancellation's answers


def stop(view: View, event: ev.StopAnswered, at_ms: int) -> Changes:
    return _put(view, replace(_get(view, event.action), stop=event.answer))


def effects(view: View, event: ev.EffectsSettled, at_ms: int) -> Changes:
    return _put(view, replace(_get(view, event.action), effects=event.effects))
