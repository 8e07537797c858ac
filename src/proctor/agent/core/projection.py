"""The rows that follow from events: what the journal's tables say about the current view."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

from proctor.agent.core import events as ev
from proctor.agent.core.budget_rows import budget_rows
from proctor.agent.core.changing import made
from proctor.agent.core.view import ActionView, View, WaitView
from proctor.kernel.digest import of_json
from proctor.store.journal.values import Row, Value

_NEEDS_BARRIER = frozenset((
    ev.RunCreated, ev.RunClaimed, ev.CancelRequested, ev.RunEnded, ev.WaitClosed,
    ev.MessageReceived, ev.MessageRefused, ev.PermissionGranted, ev.EpochChanged,
))  # fmt: skip


_OF_WAITS = (ev.WaitOpened, ev.WaitClosed, ev.WaitOverdue)
_OF_ATTEMPTS = (ev.AttemptStarted, ev.AttemptEnded)


def moment(at_ms: int) -> datetime:
    """UTC milliseconds as the journal's time."""
    return datetime.fromtimestamp(at_ms / 1000, UTC)


def needs_barrier(view: View, events: Sequence[ev.AgentEvent]) -> bool:
    """Whether these events must be on disk before anything else is done: intents of actions that
    are not pure, results of non-repeatable ones, what was acknowledged, ownership, the end."""
    for event in events:
        kind = type(event)
        if kind in _NEEDS_BARRIER:
            return True
        if isinstance(event, ev.RunMoved) and event.by:
            return True
        if isinstance(event, _OF_ATTEMPTS):
            action = view.action(event.action)
            effect = "non_repeatable" if action is None else action.effect
            if effect == "non_repeatable" or (effect != "pure" and kind is ev.AttemptStarted):
                return True
    return False


def rows(before: View, view: View, events: Sequence[ev.AgentEvent], at_ms: int) -> list[Row]:
    """The rows that these events, from `before` to `view`, change."""
    found: list[Row] = []
    if _run_differs(before, view):
        found.append(made(Row, "run", {}, _run_values(view)))
    actions: dict[str, None] = {}
    waits: dict[str, None] = {}
    for seq, event in enumerate(events, before.version + 1):
        name = getattr(event, "action", None)
        if name:
            actions[name] = None
        if (make := _ROWS.get(type(event))) is not None:
            found.append(make(view, event, seq, at_ms))
        if isinstance(event, _OF_WAITS):
            waits[event.wait] = None
            wait = view.wait(event.wait)
            if wait is not None and wait.action is not None:
                actions[wait.action] = None
        if isinstance(event, ev.AttemptEnded):
            found += _ended_processes(before, view, event)
    found += budget_rows(before, view, events)
    for name in actions:
        if (action := view.action(name)) is not None:
            found.append(_action_row(action, new=action.accepted_seq > before.version))
    found += [_wait_row(wait) for name in waits if (wait := view.wait(name))]
    return found


def _run_differs(before: View, view: View) -> bool:
    return (
        before.state != view.state
        or before.cancel is not view.cancel
        or before.config_digest != view.config_digest
        or before.epoch != view.epoch
        or before.deaths != view.deaths
        or not before.version
    )


def _run_values(view: View) -> dict[str, Value]:
    return {
        "state": view.state,
        "config_digest": view.config_digest,
        "permission_epoch": view.epoch,
        "cancel_seq": None if view.cancel is None else view.cancel.seq,
        "body": {"deaths": view.deaths} if view.deaths else {},
    }


def _action_row(action: ActionView, *, new: bool) -> Row:
    """Everything of an action that is new; of another one what can have changed."""
    changing: dict[str, Value] = {
        "state": action.state,
        "attempts": action.attempts,
        "last_seq": max(action.accepted_seq, action.started_seq, action.ended_seq),
    }
    if not new:
        return made(Row, "action", {"action_id": action.id}, changing)
    values: dict[str, Value] = {
        **changing,
        "op_key": action.op_key,
        "tool": action.tool,
        "tool_version": action.tool_version,
        "effect": action.effect,
        "arguments_digest": of_json(action.arguments),
        "resources": [[access.mode.value, access.path] for access in action.resources],
        "call_id": action.call_id,
    }
    return made(Row, "action", {"action_id": action.id}, values)


def _wait_row(wait: WaitView) -> Row:
    values: dict[str, Value] = {
        "action_id": wait.action,
        "kind": wait.kind,
        "state": wait.state,
        "due_at": None if wait.due_ms is None else moment(wait.due_ms),
        "subject_digest": wait.subject,
    }
    return made(Row, "wait", {"wait_id": wait.id}, values)


def _started_row(view: View, event: ev.AttemptStarted, seq: int, at_ms: int) -> Row:
    values: dict[str, Value] = {
        "fence": event.fence,
        "state": "running",
        "started_seq": seq,
        "started_at": moment(at_ms),
    }
    return made(Row, "attempt", {"action_id": event.action, "number": event.attempt}, values)


def _ended_row(view: View, event: ev.AttemptEnded, seq: int, at_ms: int) -> Row:
    values: dict[str, Value] = {"state": event.outcome, "ended_seq": seq, "ended_at": moment(at_ms)}
    return made(Row, "attempt", {"action_id": event.action, "number": event.attempt}, values)


def _files_row(revision: str, state: str) -> Row:
    place: dict[str, Value] = {"kind": "files", "revision": revision, "state": state}
    return made(Row, "workspace", {"workspace_id": "main"}, place)


def _ended_processes(before: View, view: View, event: ev.AttemptEnded) -> list[Row]:
    """The groups of an attempt when it has ended; after one that is lost nobody knows of them."""
    action = view.action(event.action)
    if action is None or not action.processes:  # none was started, in this append or before
        earlier = before.action(event.action)
        if earlier is None or not earlier.processes:
            return []
    state = "unknown" if event.outcome == "lost" else "ended"
    known = (found.action(event.action) for found in (before, view))
    groups = {p["pgid"]: None for a in known if a is not None for p in a.processes
              if p["attempt"] == event.attempt}  # fmt: skip
    names = [f"{event.action}.{event.attempt}.{pgid}" for pgid in groups]
    return [Row("process", {"process_id": name}, {"state": state}) for name in names]


def _process_row(view: View, event: ev.ProcessStarted, seq: int, at_ms: int) -> Row:
    process: dict[str, Value] = {
        "host": view.owner or "",
        "pid": event.pgid,
        "start_time": str(event.start_ticks),
        "boot_id": event.boot_id,
        "state": "started",
    }
    name = f"{event.action}.{event.attempt}.{event.pgid}"
    return made(Row, "process", {"process_id": name}, process)


_ROWS: dict[type[ev.AgentEvent], Callable[[View, Any, int, int], Row]] = {
    ev.AttemptStarted: _started_row,
    ev.AttemptEnded: _ended_row,
    ev.ProcessStarted: _process_row,
    ev.WorkspaceRevised: lambda view, event, *_: _files_row(event.revision, "revised"),
    ev.WorkspaceDiverged: lambda view, event, *_: _files_row(event.found, "diverged"),
}
