"""The rules of actions: waits, attempts, and outcomes that are not known."""

from collections.abc import Iterator
from itertools import takewhile

from proctor.agent.core import commands as cmd
from proctor.agent.core import events as ev
from proctor.agent.core.budgets import flaw
from proctor.agent.core.deciding import Decision, refuse
from proctor.agent.core.giving_up import asked, cancelled_with_run, closed, stop_run
from proctor.agent.core.locks import fits_beside, startable_in_turn
from proctor.agent.core.view import ActionView, View
from proctor.kernel.agent_states import ACTION

AUTOMATIC = "effect class"
USED_UP = "its attempts are used up"


def unresolved(view: View) -> list[str]:
    """What has to come to rest before the policy is asked again. An action that is `stopped` does
    not count when the model is to be told so."""
    if not view.open_actions and not view.open_waits:
        return []
    told = view.on_unknown == "tell_model"
    found = [a.id for a in view.unfinished() if not (told and a.state == "stopped")]
    return found + [w.id for w in view.waiting("workspace")]


def unblocked(view: View) -> tuple[ev.AgentEvent, ...]:
    """The run goes on, if it waits."""
    return (ev.RunMoved("unblock"),) if view.state == "waiting" else ()


def holders(view: View) -> list[ActionView]:
    """Actions that hold their locks: those that run, and those whose outcome is not known. When
    the model is told about an outcome that cannot be settled, its locks are given back."""
    told = view.on_unknown == "tell_model"
    states = ("running", "unknown") if told else ("running", "unknown", "stopped")
    return view.unfinished(*states)


def runnable(view: View) -> Iterator[str]:
    """Ready actions whose locks are free, first come first served."""
    ready = [a for a in view.unfinished("ready") if view.cancel is None or a.compensates]
    if len(view.open_actions) < 2:
        return iter([a.id for a in ready])
    held = [a.resources for a in holders(view)]
    places = startable_in_turn(held, [a.resources for a in ready])
    return (ready[place].id for place in places)


def _is_free(view: View, action: ActionView) -> bool:
    """Whether a ready action is among the runnable ones: looks no further than to itself."""
    if len(view.open_actions) < 2:
        return True
    ready = [a for a in view.unfinished("ready") if view.cancel is None or a.compensates]
    before = takewhile(lambda a: a.id != action.id, ready)
    taken = [a.resources for a in (*before, *holders(view))]
    return fits_beside(action.resources, taken)


def close_action(view: View, command: cmd.CloseAction, now_ms: int) -> Decision:
    """An action ends without an attempt, or between two."""
    action = view.action(command.action)
    if action is None:
        return refuse("unknown", f"there is no action {command.action!r}")
    if action.state != "ready" or command.event not in ACTION.table["ready"]:
        return refuse("state", f"action {action.id} is {action.state}")
    ended = closed(view, action, command.event, command.reason)
    return (*ended, *stop_run(view, action.id)) if len(ended) > 1 else ended


# --- attempts


def start_attempt(view: View, command: cmd.StartAttempt, now_ms: int) -> Decision:
    """The right to execute. Fenced: what is refused here, or by the store, never runs."""
    action = view.action(command.action)
    if action is None:
        return refuse("unknown", f"there is no action {command.action!r}")
    if action.state != "ready":
        return refuse("state", f"action {action.id} is {action.state}")
    undoes = action.compensates is not None and view.state == "finishing"
    if view.cancel is not None and not undoes:
        return refuse("cancelled", "the run was cancelled")
    if view.state != "running" and not undoes:
        return refuse("state", f"the run is {view.state}")
    if command.fence != view.fence:
        return refuse("late", f"fence {command.fence} is not the run's, {view.fence}")
    if view.waiting("workspace"):
        return refuse("blocked", "the workspace is not as it was left")
    if action.attempts >= action.max_attempts and action.effect != "non_repeatable":
        return refuse("attempts", USED_UP)
    if command.approval is not None and not is_approved(view, action, command.approval, now_ms):
        return refuse("approval", "not approved as it is now")
    if not _is_free(view, action):
        return refuse("locks", "another action uses the same resources")
    if problem := flaw(command.reserve) or view.budgets.problem(command.reserve):
        return refuse("budget", problem)
    if view.budgets.time_is_over and not undoes:
        return refuse("budget", "budget wall_ms is spent")
    started = ev.AttemptStarted(
        action.id, action.attempts + 1, command.fence, command.reserve.to_json()
    )
    return (started,)


def is_approved(view: View, action: ActionView, subject: str, now_ms: int) -> bool:
    """Whether exactly this was approved, for this action or for the run, and still is."""
    until = action.approved_until
    if action.approved == subject and (until is None or now_ms < until):
        return True
    if subject not in view.grants:
        return False
    expires = view.grants[subject]
    return expires is None or now_ms < expires


def end_attempt(view: View, command: cmd.EndAttempt, now_ms: int) -> Decision:
    """What an execution came to. A reply that comes too late changes no state, unless the outcome
    is unknown: then it settles it."""
    action = view.action(command.action)
    if action is None:
        return refuse("unknown", f"there is no action {command.action!r}")
    current = command.attempt == action.attempts and command.fence == action.fence
    if not current or action.state != "running":
        return _late(view, action, command, current)
    # That this attempt had no effect says nothing about an earlier one.
    proven = command.outcome not in ("refused", "rejected", "stopped_without_effect")
    outcome = command.outcome if proven or action.past != "unknown" else "lost"
    ended = ev.AttemptEnded(
        action.id,
        command.attempt,
        command.fence,
        outcome,
        command.text,
        command.evidence,
        command.timed_out,
        command.cost.to_json(),
        command.outcome == "result" and command.objection is None,
    )
    if outcome == "lost":
        return (ended, *after_unknown(view, action))
    if outcome == "result" and command.objection is not None:
        return (ended, *_judged(view, action, command.objection))
    return (ended,)


def _judged(view: View, action: ActionView, objection: str | None) -> tuple[ev.AgentEvent, ...]:
    if objection is None:
        return (ev.ActionJudged(action.id, "accepted"),)
    again = action.effect in ("pure", "idempotent") and action.attempts < action.max_attempts
    if not again or view.cancel is not None or view.state == "finishing":
        return (ev.ActionJudged(action.id, "not_accepted", objection),)
    return (ev.ActionJudged(action.id, "correct", objection),)


def _late(
    view: View, action: ActionView, command: cmd.EndAttempt, current: bool
) -> tuple[ev.AgentEvent, ...]:
    late = ev.LateResult(
        action.id, command.attempt, command.outcome, command.text, command.evidence
    )
    if command.outcome == "lost":
        return ()
    if not current or action.state != "unknown":
        return (late,)
    by = "late result"
    if command.outcome == "result":
        happened = ev.ActionSettled(action.id, "happened", by, command.text, command.evidence)
        return (late, happened, *_judged(view, action, command.objection))
    settled = ev.ActionSettled(action.id, "did_not_happen", by, command.text)
    return (late, settled, ev.ActionClosed(action.id, "denied", command.text or command.outcome))


def after_unknown(view: View, action: ActionView) -> tuple[ev.AgentEvent, ...]:
    """What follows from an unknown outcome by the effect class alone. `queryable`: nothing, it is
    asked first."""
    ending = view.cancel is not None or view.state == "finishing"
    left = action.attempts < action.max_attempts
    if action.effect == "queryable":
        return ()
    if action.effect == "pure" or (action.effect == "idempotent" and left and not ending):
        ready = ev.ActionSettled(action.id, "repeatable", AUTOMATIC)
        if ending:
            return (ready, *cancelled_with_run(view, action))
        if not left:
            return (ready, ev.ActionClosed(action.id, "denied", USED_UP))
        return (ready,)
    return cannot_be_settled(view, action, AUTOMATIC)


def cannot_be_settled(
    view: View, action: ActionView, by: str, known: cmd.Json | None = None
) -> tuple[ev.AgentEvent, ...]:
    """The action stops and a person is asked; `on_unknown` says what the run does meanwhile."""
    return (*asked(view, action, by, known or {}), *stop_run(view, action.id))


def settle(view: View, command: cmd.Settle, now_ms: int) -> Decision:
    """An answer about an unknown outcome."""
    action = view.action(command.action)
    if action is None:
        return refuse("unknown", f"there is no action {command.action!r}")
    if action.state != "unknown":
        return refuse("late", f"action {action.id} is {action.state}")
    if command.how == "cannot_be_settled":
        return cannot_be_settled(view, action, command.by, command.handover)
    if command.how not in ("happened", "did_not_happen"):
        return refuse("state", f"{command.how!r} settles nothing")
    settled = ev.ActionSettled(
        action.id, command.how, command.by, command.text, command.evidence, command.handover
    )
    if command.how == "happened":
        return (settled, *_judged(view, action, None))
    if view.cancel is not None or view.state == "finishing":
        return (settled, *cancelled_with_run(view, action, doubtful=False))
    if action.attempts >= action.max_attempts:
        return (settled, ev.ActionClosed(action.id, "denied", USED_UP))
    return (settled,)


def note_process(view: View, command: cmd.NoteProcess, now_ms: int) -> Decision:
    """An attempt has started a process group."""
    action = view.action(command.action)
    if action is None or action.state != "running" or action.attempts != command.attempt:
        return refuse("late", f"attempt {command.attempt} of {command.action} does not run")
    started = ev.ProcessStarted(
        action.id,
        command.attempt,
        command.pgid,
        command.start_ticks,
        command.boot_id,
        command.control_group,
    )
    return (started,)
