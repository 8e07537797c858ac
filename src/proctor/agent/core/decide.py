"""Which events follow from a command. Pure: the same view, command and time give the same answer.

Nothing here knows of stores, tools or tasks; the coordinator brings facts in as commands and makes
the answers durable before it acts on them.
"""

from collections.abc import Callable
from typing import Any

from proctor.agent.core import commands as cmd
from proctor.agent.core import decide_actions as actions
from proctor.agent.core import decide_ending as ending
from proctor.agent.core import decide_turns as turns
from proctor.agent.core import decide_waits as waits
from proctor.agent.core import events as ev
from proctor.agent.core.budgets import flaw
from proctor.agent.core.deaths import BY_RUNTIME, GIVEN_UP, told
from proctor.agent.core.deciding import Decision, cannot, effects_of, refuse
from proctor.agent.core.evolve import fold
from proctor.agent.core.view import View
from proctor.kernel.agent_states import RUN


def decide(view: View, command: cmd.Command, now_ms: int) -> Decision:
    """The events that follow from `command`, or why there are none. `now_ms` is UTC."""
    found: Decision = _RULES[type(command)](view, command, now_ms)
    if isinstance(found, cmd.Refusal) or view.cancel is None:
        return found
    return (*found, *effects_of(view, fold(view, found, now_ms)))


# --- the run


def _create(view: View, command: cmd.CreateRun, now_ms: int) -> Decision:
    if view.version:
        return refuse("state", f"run {view.run_id!r} exists")
    if command.on_unknown not in ("wait", "tell_model", "stop_run"):
        return refuse("state", "on_unknown is wait, tell_model or stop_run")
    if problem := flaw(command.limits):
        return refuse("budget", problem)
    created = ev.RunCreated(
        command.run_id,
        command.task,
        command.config_digest,
        command.permission_epoch,
        command.limits.to_json(),
        command.on_unknown,
        command.parent,
        command.max_corrections,
    )
    return (created,)


def _claim(view: View, command: cmd.Claim, now_ms: int) -> Decision:
    if command.fence <= view.fence:
        return refuse("late", f"fence {command.fence} is not newer than {view.fence}")
    recovered = view.owner is not None
    claimed = ev.RunClaimed(command.owner, command.fence, recovered)
    if view.state == "ready":
        return (claimed, ev.RunMoved("started"))
    return (claimed,)


def _release(view: View, command: cmd.Release, now_ms: int) -> Decision:
    if view.owner is None:
        return refuse("state", "nobody owns the run")
    return (ev.RunReleased(view.owner, command.reason),)


def _give_up(view: View, command: cmd.GiveUp, now_ms: int) -> Decision:
    given_up = ev.RunGivenUp(command.owner, command.reason)
    if view.owner is None:
        return (given_up,)
    return (given_up, ev.RunReleased(view.owner, GIVEN_UP))


def _hold_back(view: View, command: cmd.HoldBack, now_ms: int) -> Decision:
    if not view.held or view.ended or view.trouble or view.state == "suspended":
        return refuse("state", f"the run is {view.state}, and {view.deaths} workers died of it")
    given_up = ev.RunGivenUp(view.owner or "", told(view.deaths))
    if "suspend" not in RUN.table[view.state]:
        return (given_up,)
    return (given_up, ev.RunMoved("suspend", given_up.reason, BY_RUNTIME))


def _move(view: View, command: cmd.Move, now_ms: int) -> Decision:
    if command.event not in ("started", "block", "unblock", "suspend", "resume"):
        return refuse("state", f"{command.event!r} does not move a run")
    if command.event not in RUN.table[view.state]:
        return refuse("state", cannot(view, command.event))
    if command.event == "resume":
        if view.cancel is not None:
            return refuse("cancelled", "the run was cancelled")
        open_ = [a.id for a in view.unfinished("stopped")]
        if open_ and view.state == "stopped" and view.on_unknown != "tell_model":
            asked = ", ".join(open_)
            return refuse("blocked", f"first say what became of {asked}: happened or did not")
    return (ev.RunMoved(command.event, command.reason, command.by),)


def _receive(view: View, command: cmd.Receive, now_ms: int) -> Decision:
    if view.ended or view.state == "finishing":
        return refuse("state", f"the run is {view.state}")
    if view.candidate is None:
        message = ev.MessageReceived(command.message_id, command.text, command.by)
        return (message, *actions.unblocked(view))
    # The policy has to read it first: what it gave before is not its last word any more.
    message = ev.MessageReceived(command.message_id, command.text, command.by, voids=True)
    again = (ev.RunMoved("correct", "a message came"),) if view.state == "verifying" else ()
    return (message, *_reviews_void(view), *again, *actions.unblocked(view))


def _reviews_void(view: View) -> tuple[ev.AgentEvent, ...]:
    """Reviews of a candidate that is none any more are not waited for."""
    reason = "the result is not proposed any more"
    return tuple(
        ev.WaitClosed(wait.id, "superseded", "runtime", reason=reason)
        for wait in view.waiting("review")
    )


def _change_epoch(view: View, command: cmd.ChangeEpoch, now_ms: int) -> Decision:
    if command.epoch <= view.epoch:
        return refuse("late", f"permissions are of epoch {view.epoch} already")
    return (ev.EpochChanged(command.epoch),)


def _change_config(view: View, command: cmd.ChangeConfig, now_ms: int) -> Decision:
    if command.digest == view.config_digest:
        return refuse("state", "the configuration is the same")
    return (ev.ConfigChanged(view.config_digest, command.digest),)


def _revise(view: View, command: cmd.Revise, now_ms: int) -> Decision:
    events: list[ev.AgentEvent] = []
    if command.revision != view.revision:
        events.append(ev.WorkspaceRevised(command.revision, command.action))
    if command.undeclared:
        events.append(ev.UndeclaredWrite(command.action, command.undeclared))
    return tuple(events)


def _diverge(view: View, command: cmd.Diverge, now_ms: int) -> Decision:
    if view.ended:
        return refuse("state", f"the run is {view.state}")
    diverged = ev.WorkspaceDiverged(view.revision, command.found)
    asked = view.waiting("workspace")
    if any(wait.spec.get("found") == command.found for wait in asked):
        return ()
    reason = "the files have changed again"
    old = [ev.WaitClosed(wait.id, "superseded", "runtime", reason=reason) for wait in asked]
    prompt = "The workspace is not as the run left it. Restore it, or say that it is to be used."
    spec = {"expected": view.revision, "found": command.found}
    wait = ev.WaitOpened(f"w{len(view.waits) + 1}", "workspace", prompt=prompt, spec=spec)
    return (diverged, *old, wait)


# --- the candidate


def _give_candidate(view: View, command: cmd.GiveCandidate, now_ms: int) -> Decision:
    if view.state != "running":
        return refuse("state", cannot(view, "candidate"))
    if blockers := actions.unresolved(view):
        return refuse("blocked", "open: " + ", ".join(blockers))
    return (ev.CandidateGiven(command.result, len(view.turns)),)


def _judge(view: View, command: cmd.Judge, now_ms: int) -> Decision:
    if view.state != "verifying":
        return refuse("state", f"the run is {view.state}")
    if view.waiting("workspace"):
        return refuse("blocked", "the workspace is not as it was left")
    accepted = all(check["accepted"] for check in command.checks)
    judged = ev.CandidateJudged(accepted, command.checks)
    if accepted:
        return (judged, *_reviews_void(view), ev.RunClosing("done"))
    if view.corrections < view.max_corrections:
        return (judged, *_reviews_void(view))
    reasons = "; ".join(c["reason"] for c in command.checks if not c["accepted"])
    return (judged, *_reviews_void(view), ev.RunClosing("failed", f"not accepted: {reasons}"))


_RULES: dict[type[cmd.Command], Callable[[View, Any, int], Decision]] = {
    cmd.CreateRun: _create,
    cmd.Claim: _claim,
    cmd.Release: _release,
    cmd.GiveUp: _give_up,
    cmd.HoldBack: _hold_back,
    cmd.Move: _move,
    cmd.Receive: _receive,
    cmd.ChangeEpoch: _change_epoch,
    cmd.ChangeConfig: _change_config,
    cmd.Revise: _revise,
    cmd.Diverge: _diverge,
    cmd.RequestTurn: turns.request_turn,
    cmd.Reply: turns.reply,
    cmd.TakeTurn: turns.take_turn,
    cmd.CloseTurn: turns.close_turn,
    cmd.Compensate: turns.compensate,
    cmd.GiveCandidate: _give_candidate,
    cmd.Judge: _judge,
    cmd.OpenWait: waits.open_wait,
    cmd.CloseWait: waits.close_wait,
    cmd.Overdue: waits.overdue,
    cmd.CloseAction: actions.close_action,
    cmd.StartAttempt: actions.start_attempt,
    cmd.EndAttempt: actions.end_attempt,
    cmd.Settle: actions.settle,
    cmd.NoteProcess: actions.note_process,
    cmd.RequestCancel: ending.request_cancel,
    cmd.AnswerStop: ending.answer_stop,
    cmd.Close: ending.close,
    cmd.End: ending.end,
}
