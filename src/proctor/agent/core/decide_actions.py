"""The rules of actions: waits, attempts, and outcomes that are not known."""

from collections.abc import Iterator
from itertools import takewhile

from proctor.agent.core import answers
from proctor.agent.core import commands as cmd
from proctor.agent.core import events as ev
from proctor.agent.core.budgets import flaw
from proctor.agent.core.deciding import Decision, refuse
from proctor.agent.core.drawing import drawn
from proctor.agent.core.evolve_actions import child_cost
from proctor.agent.core.giving_up import asked, closed, ended_wait, nothing_new
from proctor.agent.core.locks import fits_beside, startable_in_turn
from proctor.agent.core.view import ActionView, View, WaitView
from proctor.kernel.agent_states import ACTION, RUN

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


# --- waits


def open_wait(view: View, command: cmd.OpenWait, now_ms: int) -> Decision:
    """A condition is missing."""
    if view.cancel is not None or view.state in ("finishing", "suspended") or view.ended:
        return refuse("cancelled", f"the run is {view.state}: nothing new is waited for")
    if command.action is not None:
        action = view.action(command.action)
        if action is None or "condition_missing" not in ACTION.table[action.state]:
            return refuse("state", f"action {command.action} is not ready")
    spec = command.spec
    if command.kind == "child":
        found = drawn(view.budgets, spec)
        if isinstance(found, cmd.Refusal):
            return found
        spec = found
    wait = ev.WaitOpened(
        f"w{len(view.waits) + 1}",
        command.kind,
        command.action,
        command.subject,
        command.prompt,
        command.due_ms,
        spec,
    )
    return (wait,)


def close_wait(view: View, command: cmd.CloseWait, now_ms: int) -> Decision:
    """The condition is met, or never will be. The first valid answer wins."""
    wait = view.wait(command.wait)
    if wait is None:
        return refuse("unknown", f"there is no wait {command.wait!r}")
    if wait.state != "open":
        return refuse("closed", f"wait {wait.id} was closed before: {wait.state}")
    if command.how not in ("arrived", "denied", "expired", "cancelled", "superseded"):
        return refuse("state", f"a wait is not closed by {command.how!r}")
    if refusal := _not_met(view, wait, command, now_ms):
        return refusal
    if wait.kind == "statement":
        return _stated(view, wait, command)
    closing = _closing(wait, command)
    if command.how in ("denied", "expired", "cancelled"):
        goes_on = wait.kind == "child" and command.source == "runtime"
        return (*ended_wait(view, wait, closing, still=goes_on), *unblocked(view))
    extra: tuple[ev.AgentEvent, ...] = ()
    value = command.value if isinstance(command.value, dict) else {}
    if wait.kind == "approval" and command.how == "arrived" and value.get("scope") == "run":
        extra = (ev.PermissionGranted(wait.subject, command.by, value.get("expires_ms")),)
    if wait.kind == "workspace" and command.how == "arrived":
        found = str(wait.spec.get("found", ""))
        # Files that could not be read have no revision: the next look gives one.
        extra = (ev.WorkspaceRevised(found if found.startswith("sha256:") else ""),)
    if wait.action is not None:
        extra += _cancelled_with_run(view, view.action(wait.action))
    return (closing, *extra, *unblocked(view))


def _closing(wait: WaitView, command: cmd.CloseWait) -> ev.WaitClosed:
    value, reason = command.value, command.reason
    return ev.WaitClosed(wait.id, command.how, command.by, value, reason, command.message_id)


def _not_met(view: View, wait: WaitView, command: cmd.CloseWait, now_ms: int) -> cmd.Refusal | None:
    """Why an answer does not close this wait: it came too late, or was meant for something else."""
    at_ms = now_ms if command.at_ms is None else min(command.at_ms, now_ms)
    by_people = wait.kind in answers.PEOPLE and command.how in ("arrived", "denied")
    if by_people and wait.due_ms is not None and at_ms >= wait.due_ms:
        return refuse("expired", f"wait {wait.id} has expired")
    if wait.kind == "child" and command.how == "expired":
        return refuse("state", "a subtask is waited for until it has ended")
    wrong = answers.problem(wait, command.how, command.source, command.meant, command.value)
    if wrong is not None:
        return refuse("state", wrong)
    if wait.kind == "child" and command.source == "child":
        value = command.value if isinstance(command.value, dict) else {}
        if value.get("spent") is not None and child_cost(value) is None:
            return refuse("state", "what the subtask spent cannot be read")
    if wait.kind == "approval" and command.how == "arrived":
        until = answers.expiry(command.value)
        if until is not None and now_ms >= until:
            return refuse("expired", "the time that the approval was given for is over")
    return None


def _stated(view: View, wait: WaitView, command: cmd.CloseWait) -> Decision:
    value = command.value
    if command.how != "arrived" or not isinstance(value, dict) or wait.action is None:
        return refuse("state", "say whether it happened: {happened: true or false, text: …}")
    happened = value["happened"]
    closing = _closing(wait, command)
    how = "stated_happened" if happened else "stated_not"
    settled = ev.ActionSettled(wait.action, how, command.by, str(value.get("text", "")))
    after: tuple[ev.AgentEvent, ...]
    if happened:
        after = (ev.ActionJudged(wait.action, "accepted", f"stated by {command.by}"),)
    elif view.on_unknown == "tell_model" and view.cancel is None:
        # The run went on without it, and may have done it again: it is not started once more.
        reason = f"it did not happen (stated by {command.by or 'a person'})"
        after = (ev.ActionClosed(wait.action, "denied", reason),)
    else:  # a person's word is about all attempts
        after = _cancelled_with_run(view, view.action(wait.action), doubtful=False)
    return (closing, settled, *after, *unblocked(view))


def _cancelled_with_run(
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


def overdue(view: View, command: cmd.Overdue, now_ms: int) -> Decision:
    """The time of a subtask is over."""
    wait = view.wait(command.wait)
    if wait is None or wait.kind != "child" or wait.state != "open":
        return refuse("state", f"{command.wait} is no subtask that is waited for")
    if wait.due_ms is None or now_ms < wait.due_ms:
        return refuse("late", f"{command.wait} is not due")
    return (ev.WaitOverdue(wait.id),)


def close_action(view: View, command: cmd.CloseAction, now_ms: int) -> Decision:
    """An action ends without an attempt, or between two."""
    action = view.action(command.action)
    if action is None:
        return refuse("unknown", f"there is no action {command.action!r}")
    if action.state != "ready" or command.event not in ACTION.table["ready"]:
        return refuse("state", f"action {action.id} is {action.state}")
    ended = closed(view, action, command.event, command.reason)
    return (*ended, *_stop_run(view, action.id)) if len(ended) > 1 else ended


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
    if view.budgets.exhausted == "wall_ms" and not undoes:
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
    proven = command.outcome not in ("refused", "stopped_without_effect")
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
            return (ready, *_cancelled_with_run(view, action))
        if not left:
            return (ready, ev.ActionClosed(action.id, "denied", USED_UP))
        return (ready,)
    return cannot_be_settled(view, action, AUTOMATIC)


def cannot_be_settled(
    view: View, action: ActionView, by: str, known: cmd.Json | None = None
) -> tuple[ev.AgentEvent, ...]:
    """The action stops and a person is asked; `on_unknown` says what the run does meanwhile."""
    return (*asked(view, action, by, known or {}), *_stop_run(view, action.id))


def _stop_run(view: View, action_id: str) -> tuple[ev.AgentEvent, ...]:
    """The run ends because of an outcome that nobody knows, if that was wished."""
    if view.on_unknown != "stop_run" or "close" not in RUN.table[view.state]:
        return ()
    if view.state == "stopped":
        return ()
    closing = ev.RunClosing("stopped", f"the outcome of {action_id} is not known")
    return (closing, *nothing_new(view, closing.reason, besides=action_id, place=2))


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
        return (settled, *_cancelled_with_run(view, action, doubtful=False))
    if action.attempts >= action.max_attempts:
        return (settled, ev.ActionClosed(action.id, "denied", USED_UP))
    return (settled,)


def note_process(view: View, command: cmd.NoteProcess, now_ms: int) -> Decision:
    """An attempt has started a process group."""
    action = view.action(command.action)
    if action is None or action.state != "running" or action.attempts != command.attempt:
        return refuse("late", f"attempt {command.attempt} of {command.action} does not run")
    started = ev.ProcessStarted(
        action.id, command.attempt, command.pgid, command.start_ticks, command.boot_id
    )
    return (started,)
