"""Who moves next: for each open thing of a run, whose turn it is and which facts stand."""

from typing import Any

from proctor.agent.core.deaths import told
from proctor.agent.core.view import ActionView, View, WaitView

_WHO = {
    "approval": "person", "input": "person", "statement": "person", "workspace": "person",
    "review": "person", "timer": "timer", "child": "subtask",
}  # fmt: skip


def next_moves(view: View) -> list[dict[str, Any]]:
    """One entry for each open thing: `what` (its id), `who` (model, tool, timer, person, subtask,
    runtime), `does` (what is expected) and `facts`. Empty when the run has ended for good."""
    found = [_wait(view, wait) for wait in view.waiting()]
    asked = {wait.action for wait in view.waiting()}
    found += [_action(a) for a in view.unfinished() if a.id not in asked]
    if view.held and view.state == "suspended":
        does = "mends what its workers died of, then resumes the run"
        return [_entry("run", "person", does, {"reason": told(view.deaths)}), *found]
    if view.trouble:
        does = "mends what stopped its worker, then starts a worker again"
        return [_entry("run", "person", does, {"reason": view.trouble}), *found]
    turn = view.open_turn
    if turn is not None:
        found.append(_entry(f"t{turn.number}", "model", "replies", {"turn": turn.number}))
    if view.state == "suspended":
        found.append(_entry("run", "person", "resumes the run", {}))
    elif view.state == "stopped" and not found:
        found.append(_entry("run", "person", "resumes the run", {"reason": view.aim_reason}))
    elif view.state in ("ready", "running", "verifying", "finishing") and not found:
        facts = {"state": view.state, "owner": view.owner}
        found.append(_entry("run", "runtime", "goes on", facts))
    return found


def _entry(what: str, who: str, does: str, facts: dict[str, Any]) -> dict[str, Any]:
    return {"what": what, "who": who, "does": does, "facts": facts}


def _wait(view: View, wait: WaitView) -> dict[str, Any]:
    facts: dict[str, Any] = {"kind": wait.kind, "prompt": wait.prompt, "due_ms": wait.due_ms}
    action = view.action(wait.action) if wait.action else None
    if action is not None:
        facts |= _facts(action)
    if wait.kind == "child":
        facts["child"] = wait.spec.get("child")
    does = {
        "approval": "approves or denies",
        "input": "answers",
        "statement": "says whether it happened",
        "workspace": "restores the files or says that they are to be used",
        "review": "accepts the result or not",
        "timer": "is over",
        "child": "ends",
    }
    return _entry(wait.id, _WHO.get(wait.kind, "person"), does.get(wait.kind, "answers"), facts)


def _action(action: ActionView) -> dict[str, Any]:
    who, does = {
        "ready": ("runtime", "starts it"),
        "running": ("tool", "ends"),
        "unknown": ("tool", "is asked what happened"),
        "stopped": ("person", "says whether it happened"),
    }.get(action.state, ("runtime", "goes on"))
    return _entry(action.id, who, does, _facts(action))


def _facts(action: ActionView) -> dict[str, Any]:
    return {
        "tool": action.tool,
        "state": action.state,
        "effect": action.effect,
        "arguments": action.arguments,
        "op_key": action.op_key,
        "attempts": action.attempts,
        "started_seq": action.started_seq or None,
        "known": action.handover or None,
    }
