"""What an event does to the view. Pure; the tables of `kernel.agent_states` are the only judge of
a change of state, and an event that they do not list raises IllegalTransition.

A rule says which fields change. The events of one fold are taken into one copy of the view, which
nobody sees before all of them are in it.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from msgspec.structs import force_setattr, replace

from proctor.agent.core import events as ev
from proctor.agent.core import evolve_actions as on
from proctor.agent.core.answers import expiry
from proctor.agent.core.budgets import Budgets, Cost, Limits
from proctor.agent.core.deaths import after
from proctor.agent.core.evolve_actions import Changes
from proctor.agent.core.view import CancelView, TurnView, View
from proctor.kernel.agent_states import RUN
from proctor.kernel.states import IllegalTransition


def evolve(view: View, event: ev.AgentEvent, at_ms: int) -> View:
    """The view after `event`, which happened at `at_ms` (UTC). Raises IllegalTransition."""
    return fold(view, (event,), at_ms)


def fold(view: View, events: Sequence[ev.AgentEvent], at_ms: int) -> View:
    """The view after these events, which happened together. Raises IllegalTransition."""
    if not events:
        return view
    own = replace(view)
    for event in events:
        _take(own, event, at_ms)
    return own


def replayed(view: View, log: Iterable[tuple[ev.AgentEvent, int]]) -> View:
    """The view after these events, each with its time. Raises IllegalTransition."""
    own = replace(view)
    for event, at_ms in log:
        _take(own, event, at_ms)
    return own


def _take(own: View, event: ev.AgentEvent, at_ms: int) -> None:
    changes = _RULES[type(event)](own, event, at_ms)
    passed = at_ms - own.last_ms
    if type(event) is ev.RunClaimed:
        changes["last_ms"] = at_ms  # the time between two owners is nobody's, whatever a clock says
    elif passed > 0:
        changes["last_ms"] = at_ms
        if own.owner is not None:
            changes["budgets"] = changes.get("budgets", own.budgets).charge_wall(passed)
    if own.deaths and "deaths" not in changes:
        changes["deaths"] = after(own.deaths, event)
    changes["version"] = own.version + 1
    for name, value in changes.items():  # `own` is nobody else's yet
        force_setattr(own, name, value)


# --- the run


def _created(view: View, event: ev.RunCreated, at_ms: int) -> Changes:
    if view.version:
        raise IllegalTransition("run: created twice")
    return {
        "run_id": event.run_id,
        "state": RUN.initial,
        "task": event.task,
        "config_digest": event.config_digest,
        "epoch": event.permission_epoch,
        "on_unknown": event.on_unknown,
        "parent": event.parent,
        "max_corrections": event.max_corrections,
        "budgets": Budgets(Limits.from_json(event.limits)),
    }


def _claimed(view: View, event: ev.RunClaimed, at_ms: int) -> Changes:
    deaths = view.deaths + event.recovered
    return {"owner": event.owner, "fence": event.fence, "trouble": "", "deaths": deaths}


def _given_up(view: View, event: ev.RunGivenUp, at_ms: int) -> Changes:
    return {"trouble": event.reason}


def _released(view: View, event: ev.RunReleased, at_ms: int) -> Changes:
    return {"owner": None}


def _moved(view: View, event: ev.RunMoved, at_ms: int) -> Changes:
    state = RUN.advance(view.state, event.event)
    if event.event == "resume":
        return {"state": state, "aim": "", "aim_reason": "", "unsettled": ()}
    return {"state": state}


def _candidate(view: View, event: ev.CandidateGiven, at_ms: int) -> Changes:
    state = RUN.advance(view.state, "candidate")
    return {"state": state, "candidate": event.result}


def _judged(view: View, event: ev.CandidateJudged, at_ms: int) -> Changes:
    if view.state != "verifying":
        raise IllegalTransition(f"run: judged in state {view.state!r}")
    if event.accepted:
        return {"checks": event.checks}
    if view.corrections >= view.max_corrections:
        return {"checks": event.checks, "corrections": view.corrections + 1}
    reasons = [check["reason"] for check in event.checks if not check["accepted"]]
    return {
        "state": RUN.advance(view.state, "correct"),
        "checks": event.checks,
        "candidate": None,
        "corrections": view.corrections + 1,
        "items": view.items.append(("judged", tuple(reasons))),
    }


def _closing(view: View, event: ev.RunClosing, at_ms: int) -> Changes:
    state = RUN.advance(view.state, "close")
    return {
        "state": state,
        "aim": event.aim,
        "aim_reason": event.reason,
        "closing_ms": at_ms,
    }


def _ended(view: View, event: ev.RunEnded, at_ms: int) -> Changes:
    state = RUN.advance(view.state, f"end_{event.state}")
    return {"state": state, "unsettled": event.unsettled}


def _config(view: View, event: ev.ConfigChanged, at_ms: int) -> Changes:
    return {"config_digest": event.after}


# --- messages and turns


def _message(view: View, event: ev.MessageReceived, at_ms: int) -> Changes:
    found: Changes = {"items": view.items.append(("message", event.text))}
    if event.voids:
        found["candidate"] = None
    return found


def _unchanged(view: View, event: ev.AgentEvent, at_ms: int) -> Changes:
    return {}


def _turn_requested(view: View, event: ev.TurnRequested, at_ms: int) -> Changes:
    if view.open_turn is not None or event.turn != len(view.turns) + 1:
        raise IllegalTransition(f"turn {event.turn}: requested out of order")
    return {
        "turns": view.turns.append(TurnView(event.turn)),
        "items": view.items.append(("turn", event.turn)),
        "budgets": view.budgets.reserve(f"t{event.turn}", Cost.from_json(event.reserve)),
    }


def _turn_replied(view: View, event: ev.TurnReplied, at_ms: int) -> Changes:
    if event.turn == len(view.turns) + 1 and view.open_turn is None:  # known at once
        return {
            "turns": view.turns.append(TurnView(event.turn, "replied", event.text, event.calls)),
            "items": view.items.append(("turn", event.turn)),
            "budgets": view.budgets.spend(Cost.from_json(event.cost)),
        }
    turn = _open_turn(view, event.turn)
    replied = replace(turn, state="replied", text=event.text, calls=event.calls)
    return {
        "turns": view.turns.replace(event.turn - 1, replied),
        "budgets": view.budgets.settle(f"t{event.turn}", Cost.from_json(event.cost)),
    }


def _turn_closed(view: View, event: ev.TurnClosed, at_ms: int) -> Changes:
    turn = replace(
        _open_turn(view, event.turn),
        state="closed",
        reason=event.reason,
        abandoned=event.abandoned,
    )
    cost = None if event.estimated else Cost()
    return {
        "turns": view.turns.replace(event.turn - 1, turn),
        "budgets": view.budgets.settle(f"t{event.turn}", cost),
    }


def _open_turn(view: View, number: int) -> TurnView:
    turn = view.open_turn
    if turn is None or turn.number != number:
        raise IllegalTransition(f"turn {number} is not open")
    return turn


# --- cancelling, permissions, workspace


def _cancel(view: View, event: ev.CancelRequested, at_ms: int) -> Changes:
    cancel = CancelView(event.by, event.reason, view.version + 1, at_ms, event.compensate)
    return {"cancel": cancel}


def _granted(view: View, event: ev.PermissionGranted, at_ms: int) -> Changes:
    until = expiry({"expires_ms": event.expires_ms})
    return {"grants": {**view.grants, event.subject: until}}


def _epoch(view: View, event: ev.EpochChanged, at_ms: int) -> Changes:
    return {"epoch": event.epoch, "grants": {}}


def _revised(view: View, event: ev.WorkspaceRevised, at_ms: int) -> Changes:
    return {"revision": event.revision}


_RULES: dict[type[ev.AgentEvent], Callable[[View, Any, int], Changes]] = {
    ev.RunCreated: _created,
    ev.RunClaimed: _claimed,
    ev.RunReleased: _released,
    ev.RunGivenUp: _given_up,
    ev.RunMoved: _moved,
    ev.CandidateGiven: _candidate,
    ev.CandidateJudged: _judged,
    ev.RunClosing: _closing,
    ev.RunEnded: _ended,
    ev.ConfigChanged: _config,
    ev.MessageReceived: _message,
    ev.MessageRefused: _unchanged,
    ev.TurnRequested: _turn_requested,
    ev.TurnReplied: _turn_replied,
    ev.TurnClosed: _turn_closed,
    ev.ActionAccepted: on.accepted,
    ev.CallRefused: on.call_refused,
    ev.WaitOpened: on.wait_opened,
    ev.WaitClosed: on.wait_closed,
    ev.WaitOverdue: on.wait_overdue,
    ev.ActionClosed: on.action_closed,
    ev.AttemptStarted: on.attempt_started,
    ev.AttemptEnded: on.attempt_ended,
    ev.LateResult: _unchanged,
    ev.ActionSettled: on.settled,
    ev.ActionJudged: on.action_judged,
    ev.ProcessStarted: on.process,
    ev.CancelRequested: _cancel,
    ev.StopAnswered: on.stop,
    ev.EffectsSettled: on.effects,
    ev.PermissionGranted: _granted,
    ev.EpochChanged: _epoch,
    ev.WorkspaceRevised: _revised,
    ev.UndeclaredWrite: _unchanged,
    ev.WorkspaceDiverged: _unchanged,
}
