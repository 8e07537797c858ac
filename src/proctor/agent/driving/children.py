"""Subtasks: a run with a parent. Spawning is an open wait in the parent's log, so it is ordered
with the parent's cancellation, and a spawn that a crash cut short is made up for."""

from typing import Any

from proctor.agent.core import commands as cmd
from proctor.agent.core import events as ev
from proctor.agent.core.budgets import Cost, Limits
from proctor.agent.core.decide import decide
from proctor.agent.core.projection import moment
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
)
from proctor.store.journal.values import Value

_TRIES = 5
_PAUSE_S = 0.2


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
        await _ensure(desk, wait, child)
        desk.told.add(child)
        desk.hub.notify(child, desk.view.run_id)


async def _ensure(desk: Desk, wait: WaitView, child: str) -> None:
    row = await desk.setup.journal.run_row(child)
    if row is not None:
        return
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


def tell_parent(desk: Desk) -> None:
    """The end of a subtask, delivered with its last event."""
    parent = desk.view.parent
    if parent is None or not desk.view.ended:
        return
    run_id = str(parent["run"])
    spent: Cost = desk.view.budgets.spent + desk.view.budgets.reserved
    body = {
        "wait": parent["wait"],
        "state": desk.view.state,
        "result": desk.view.candidate if desk.view.state == "done" else desk.view.aim_reason,
        "spent": spent.to_json(),
    }
    name = f"child:{desk.view.run_id}:{desk.view.version}"
    at = desk.setup.clock.now()
    desk.recorder.deliver(Message(run_id, name, "child_ended", body, at))


def end_of(events: object) -> bool:
    """Whether these events hold the end of a run."""
    return isinstance(events, tuple) and any(isinstance(e, ev.RunEnded) for e in events)
