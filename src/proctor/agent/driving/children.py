"""Subtasks: a run with a parent. Spawning is an open wait in the parent's log, so it is ordered
with the parent's cancellation, and a spawn that a crash cut short is made up for."""

import secrets
from typing import Any

from proctor.agent.core import commands as cmd
from proctor.agent.core import events as ev
from proctor.agent.core.budgets import Limits
from proctor.agent.core.decide import decide
from proctor.agent.core.projection import moment
from proctor.agent.core.telling import report, seal
from proctor.agent.core.view import View, WaitView
from proctor.agent.driving.desk import Desk
from proctor.agent.driving.recorder import as_stored
from proctor.kernel import jsontext
from proctor.kernel.clock import Clock
from proctor.kernel.errors import RuntimeFault, StorageError
from proctor.kernel.faults import fault_point
from proctor.store.journal.contract import (
    Appended,
    AppendResult,
    CommitUnknown,
    Journal,
    Message,
    NewRun,
    Row,
    RunRow,
    StoredMessage,
)
from proctor.store.journal.values import Value

_TRIES = 5
_PAUSE_S = 0.2
_NO_SEQ = 2**53


async def create_run(journal: Journal, clock: Clock, command: cmd.CreateRun, at_ms: int) -> bool:
    """Make a run with its first event; False if it was there already. Repeatable."""
    events = decide(View(), command, at_ms)
    if isinstance(events, cmd.Refusal):
        raise RuntimeFault(f"the run cannot be made: {events.reason}")
    at = moment(at_ms)
    parent = command.parent or {}
    new = NewRun(
        command.run_id,
        at,
        task_id=f"task-{command.run_id}",
        parent_run_id=parent.get("run"),
        parent_action_id=parent.get("action"),
        config_digest=command.config_digest,
        permission_epoch=command.permission_epoch,
    )
    stored = [as_stored(event, f"0.{n + 1}", at) for n, event in enumerate(events)]
    task = Row(
        "task",
        {"task_id": f"task-{command.run_id}"},
        {
            "goal": str(command.task.get("goal", "")),
            "acceptance": _json(command.task.get("acceptance") or ()),
            "scope": _json(command.task.get("scope") or {}),
            "created_at": at,
        },
    )
    answer: AppendResult | None = None
    for number in range(_TRIES):
        answer = await journal.create_run(new, stored, [task])
        if not isinstance(answer, CommitUnknown):
            return isinstance(answer, Appended)
        await clock.sleep(_PAUSE_S * 2**number)
    raise StorageError(f"making run {command.run_id!r} has no answer")


def _json(value: Any) -> Value:
    found: Value = jsontext.sanitized(list(value) if isinstance(value, tuple) else value)
    return found


async def ensure_children(desk: Desk) -> None:
    """Every subtask that the log says was spawned exists, and somebody is told to drive it."""
    for wait in desk.view.waiting("child"):
        child = str(wait.spec["child"])
        if child in desk.told:
            continue
        if await _ensure(desk, wait, child):
            desk.told.add(child)
            desk.hub.notify(child, desk.view.run_id)


async def _ensure(desk: Desk, wait: WaitView, child: str) -> bool:
    """Make the subtask unless it is there; False if another run has its name."""
    row = await desk.setup.journal.run_row(child)
    if row is not None:
        return _is_ours(desk, wait, row)
    fault_point("agent.child.create")
    task = {"goal": wait.spec.get("goal", ""), "acceptance": wait.spec.get("acceptance", ())}
    if wait.spec.get("scope"):
        task["scope"] = wait.spec["scope"]
    parent = {"run": desk.view.run_id, "action": wait.action, "wait": wait.id}
    limits = Limits.from_json(wait.spec.get("limits", {}))
    command = cmd.CreateRun(
        child,
        task,
        desk.view.config_digest,
        desk.view.epoch,
        limits,
        desk.view.on_unknown,
        parent,
        desk.view.max_corrections,
    )
    await create_run(desk.setup.journal, desk.setup.clock, command, desk.now_ms())
    fault_point("agent.child.created")
    return True


def _is_ours(desk: Desk, wait: WaitView, row: RunRow) -> bool:
    """A run of that name which is no subtask of this one tells us nothing: nobody waits for it."""
    if (row.parent_run_id, row.parent_action_id) == (desk.view.run_id, wait.action):
        return True
    reason = f"run {row.run_id} is there and is not a subtask of this one"
    closing = cmd.CloseWait(wait.id, "cancelled", "runtime", None, reason, source="child")
    desk.recorder.must(closing)
    return False


def tell_parent(desk: Desk, about: View) -> None:
    """The end of a subtask, delivered with its last event. `about`: the run before it ended."""
    parent = about.parent
    if parent is None:
        return
    body = report(about, desk.view.state) | {"seq": about.version + 1}
    # Nobody can know the name before and put another message in its place.
    name = f"child:{about.run_id}:{secrets.token_hex(12)}"
    at = desk.setup.clock.now()
    desk.recorder.deliver(Message(str(parent["run"]), name, "child_ended", body, at))


async def untrue(desk: Desk, message: StoredMessage) -> str | None:
    """Why this is not what the subtask itself has recorded as its end, or None."""
    body = message.body
    wait = desk.view.wait(str(body.get("wait")))
    if wait is None or wait.kind != "child":
        return "no subtask is waited for under this name"
    child = str(wait.spec["child"])
    old = f"child:{child}:"  # as it was named when its log did not yet vouch for it
    seq = body.get("seq")
    if seq is None and message.message_id.startswith(old):
        digits = message.message_id.removeprefix(old)
        seq = int(digits) if digits.isascii() and digits.isdecimal() and len(digits) < 17 else None
    if type(seq) is not int or not 0 < seq < _NO_SEQ:
        return f"it does not say which event of {child} it is about"
    found = await desk.setup.journal.read_events(child, seq - 1, 1)
    if not found or found[0].kind != ev.RunEnded.kind:
        return f"event {seq} of {child} is not its end"
    end = found[0].body
    if not end.get("told"):
        same = end.get("state") == body.get("state") and "seq" not in body
        return None if same else f"it is not what {child} has recorded as its end"
    try:
        same = seal(body) == end["told"]
    except (KeyError, TypeError, ValueError):
        same = False
    return None if same else f"it is not what {child} has recorded as its end"


def end_of(events: object) -> bool:
    """Whether these events hold the end of a run."""
    return isinstance(events, tuple) and any(isinstance(e, ev.RunEnded) for e in events)
