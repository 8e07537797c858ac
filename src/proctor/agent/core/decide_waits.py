"""The rules of waits: what is waited for, and what meets it."""

from proctor.agent.core import answers
from proctor.agent.core import commands as cmd
from proctor.agent.core import events as ev
from proctor.agent.core.decide_actions import unblocked
from proctor.agent.core.deciding import Decision, refuse
from proctor.agent.core.drawing import drawn
from proctor.agent.core.evolve_actions import child_cost
from proctor.agent.core.giving_up import cancelled_with_run, ended_wait, stop_run
from proctor.agent.core.view import View, WaitView
from proctor.kernel.agent_states import ACTION


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
        ended = ended_wait(view, wait, closing, still=goes_on)
        stop = stop_run(view, wait.action or "") if len(ended) > 1 else ()
        return (*ended, *(stop or unblocked(view)))
    extra: tuple[ev.AgentEvent, ...] = ()
    value = command.value if isinstance(command.value, dict) else {}
    if wait.kind == "approval" and command.how == "arrived" and value.get("scope") == "run":
        extra = (ev.PermissionGranted(wait.subject, command.by, value.get("expires_ms")),)
    if wait.kind == "workspace" and command.how == "arrived":
        found = str(wait.spec.get("found", ""))
        # Files that could not be read have no revision: the next look gives one.
        extra = (ev.WorkspaceRevised(found if found.startswith("sha256:") else ""),)
    if wait.action is not None:
        extra += cancelled_with_run(view, view.action(wait.action))
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
        after = cancelled_with_run(view, view.action(wait.action), doubtful=False)
    return (closing, settled, *after, *unblocked(view))


def overdue(view: View, command: cmd.Overdue, now_ms: int) -> Decision:
    """The time of a subtask is over."""
    wait = view.wait(command.wait)
    if wait is None or wait.kind != "child" or wait.state != "open":
        return refuse("state", f"{command.wait} is no subtask that is waited for")
    if wait.due_ms is None or now_ms < wait.due_ms:
        return refuse("late", f"{command.wait} is not due")
    return (ev.WaitOverdue(wait.id),)
