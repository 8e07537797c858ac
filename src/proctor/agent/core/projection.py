"""The rows that follow from events: what the journal's tables say about the current view."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

from proctor.agent.core import events as ev
from proctor.agent.core.budget_rows import budget_rows
from proctor.agent.core.budgets import UNLIMITED
from proctor.agent.core.canonical import arguments_digest
from proctor.agent.core.locks import Access
from proctor.agent.core.view import ActionView, View, WaitView
from proctor.kernel import jsontext
from proctor.store.journal.values import AnyRow, Encoded, Form, FormedRow, Row, Value

_CHANGED = Form("action", ("action_id",), ("state", "attempts", "last_seq"))
_ACCEPTED = Form("action", _CHANGED.keys, (
    *_CHANGED.values, "op_key", "tool", "tool_version", "effect", "arguments_digest", "resources",
    "call_id",
))  # fmt: skip
_ATTEMPT = ("action_id", "number")
_STARTED = Form("attempt", _ATTEMPT, ("fence", "state", "started_seq", "started_at"))
_ENDED = Form("attempt", _ATTEMPT, ("state", "ended_seq", "ended_at"))
_FEW, _SHORT = 4, 200
"""Resources of an action whose text is kept for a while, and characters of their paths."""
_NEEDS_BARRIER = frozenset((
    ev.RunCreated, ev.RunClaimed, ev.CancelRequested, ev.RunEnded, ev.WaitClosed,
    ev.MessageReceived, ev.MessageRefused, ev.PermissionGranted, ev.EpochChanged,
))  # fmt: skip

_NEVER_NEED_ONE = frozenset((ev.TurnRequested, ev.TurnReplied, ev.ActionAccepted))
_OF_RUNS = frozenset((ev.TurnRequested, ev.TurnReplied, ev.TurnClosed))
"""What changes no row but those of budgets."""
_OF_WAITS = (ev.WaitOpened, ev.WaitClosed, ev.WaitOverdue)
_OF_ATTEMPTS = (ev.AttemptStarted, ev.AttemptEnded)


@lru_cache(maxsize=64)  # what happens together is at one time
def moment(at_ms: int) -> datetime:
    """UTC milliseconds as the journal's time."""
    return datetime.fromtimestamp(at_ms / 1000, UTC)


def needs_barrier(view: View, events: Sequence[ev.AgentEvent]) -> bool:
    """Whether these events must be on disk before anything else is done: intents of actions that
    are not pure, results of non-repeatable ones, what was acknowledged, ownership, the end."""
    for event in reversed(events):  # the start of an attempt is the last one
        kind = type(event)
        if kind in _NEEDS_BARRIER:
            return True
        if kind in _NEVER_NEED_ONE:
            continue
        if isinstance(event, ev.RunMoved) and event.by:
            return True
        if isinstance(event, _OF_ATTEMPTS):
            action = view.action(event.action)
            effect = "non_repeatable" if action is None else action.effect
            if effect == "non_repeatable" or (effect != "pure" and kind is ev.AttemptStarted):
                return True
    return False


def rows(before: View, view: View, events: Sequence[ev.AgentEvent], at_ms: int) -> list[AnyRow]:
    """The rows that these events, from `before` to `view`, change."""
    found: list[AnyRow] = []
    if _run_differs(before, view):
        found.append(Row("run", {}, _run_values(view)))
    actions: dict[str, None] = {}
    waits: dict[str, None] = {}
    for seq, event in enumerate(events, before.version + 1):
        kind = type(event)
        if kind in _OF_RUNS:
            continue
        name = getattr(event, "action", None)
        if name:
            actions[name] = None
        if (make := _ROWS.get(kind)) is not None:
            found.append(make(view, event, seq, at_ms))
        if kind is ev.AttemptEnded:
            found += _ended_processes(before, view, event)  # type: ignore[arg-type]
        elif isinstance(event, _OF_WAITS):
            waits[event.wait] = None
            wait = view.wait(event.wait)
            if wait is not None and wait.action is not None:
                actions[wait.action] = None
    if view.budgets.limits is not UNLIMITED:
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


def _action_row(action: ActionView, *, new: bool) -> FormedRow:
    """Everything of an action that is new; of another one what can have changed."""
    last = max(action.accepted_seq, action.started_seq, action.ended_seq)
    changing = (action.id, action.state, action.attempts, last)
    if not new:
        return FormedRow(_CHANGED, changing)
    few = len(action.resources) <= _FEW and all(len(a.path) <= _SHORT for a in action.resources)
    resources = _known_resources(action.resources) if few else _resources(action.resources)
    rest = (action.op_key, action.tool, action.tool_version, action.effect,
            arguments_digest(action.arguments), resources, action.call_id)  # fmt: skip
    return FormedRow(_ACCEPTED, (*changing, *rest))


def _resources(given: tuple[Access, ...]) -> list[Any]:
    return [[str(access.mode), access.path] for access in given]


@lru_cache(maxsize=256)  # the same few places are asked for again and again
def _known_resources(given: tuple[Access, ...]) -> Encoded:
    return Encoded(jsontext.dumps(_resources(given)))


def _wait_row(wait: WaitView) -> Row:
    values: dict[str, Value] = {
        "action_id": wait.action,
        "kind": wait.kind,
        "state": wait.state,
        "due_at": None if wait.due_ms is None else moment(wait.due_ms),
        "subject_digest": wait.subject,
    }
    return Row("wait", {"wait_id": wait.id}, values)


def _started_row(view: View, event: ev.AttemptStarted, seq: int, at_ms: int) -> AnyRow:
    cells = (event.action, event.attempt, event.fence, "running", seq, moment(at_ms))
    return FormedRow(_STARTED, cells)


def _ended_row(view: View, event: ev.AttemptEnded, seq: int, at_ms: int) -> AnyRow:
    return FormedRow(_ENDED, (event.action, event.attempt, event.outcome, seq, moment(at_ms)))


def _files_row(revision: str, state: str) -> Row:
    place: dict[str, Value] = {"kind": "files", "revision": revision, "state": state}
    return Row("workspace", {"workspace_id": "main"}, place)


def _ended_processes(before: View, view: View, event: ev.AttemptEnded) -> list[AnyRow]:
    """The groups of an attempt when it has ended; after one that is lost nobody knows of them."""
    action = view.action(event.action)
    if action is not None and action.attempts == event.attempt and not action.processes:
        return []
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


def _process_row(view: View, event: ev.ProcessStarted, seq: int, at_ms: int) -> AnyRow:
    process: dict[str, Value] = {
        "host": view.owner or "",
        "pid": event.pgid,
        "start_time": str(event.start_ticks),
        "boot_id": event.boot_id,
        "state": "started",
    }
    name = f"{event.action}.{event.attempt}.{event.pgid}"
    return Row("process", {"process_id": name}, process)


_ROWS: dict[type[ev.AgentEvent], Callable[[View, Any, int, int], AnyRow]] = {
    ev.AttemptStarted: _started_row,
    ev.AttemptEnded: _ended_row,
    ev.ProcessStarted: _process_row,
    ev.WorkspaceRevised: lambda view, event, *_: _files_row(event.revision, "revised"),
    ev.WorkspaceDiverged: lambda view, event, *_: _files_row(event.found, "diverged"),
}
