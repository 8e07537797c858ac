"""What has come in since the last look: ended attempts, replies, answers, messages, time."""

import secrets
from collections.abc import Callable, Mapping
from typing import Any

from proctor.agent.core import commands as cmd
from proctor.agent.core import events as ev
from proctor.agent.core.budgets import NOTHING, Cost
from proctor.agent.core.commands import Refusal
from proctor.agent.core.view import WaitView
from proctor.agent.driving.children import untrue
from proctor.agent.driving.desk import Desk
from proctor.agent.driving.outcomes import Ended
from proctor.agent.driving.seam import seconds
from proctor.agent.driving.turns import take_up
from proctor.agent.driving.wholes import kept
from proctor.agent.setup import Workspace
from proctor.kernel import jsontext
from proctor.kernel.digest import of_json
from proctor.kernel.faults import fault_point
from proctor.store.journal.contract import Message, StoredMessage

PAGE = 64
"""Messages that are read and applied at once."""


async def take_in(desk: Desk) -> None:
    """Turn everything that has come in into events; what was acknowledged is durable after."""
    while desk.commands:  # how a stop went is recorded before how the execution ended
        desk.recorder.apply(desk.commands.popleft())
    while desk.attempts:
        await _attempt(desk, desk.attempts.popleft())
    while desk.replies:
        number, found = desk.replies.popleft()
        take_up(desk, number, found)
        if not _starts_now(desk):
            await desk.recorder.flush()  # it is paid for: nobody should have to ask again
            fault_point("agent.turn.recorded")
    if not (desk.mail or desk.view.open_waits):
        return
    due = _due(desk)
    # What was acknowledged in time counts in time: mail is read before anything expires.
    if desk.mail or any(wait.kind != "timer" for wait in due):
        await _read_mail(desk)
    _timers(desk, due)


def _starts_now(desk: Desk) -> bool:
    """Whether what a reply asks for is looked at next, so that both are one append. Nothing is
    awaited before that."""
    view = desk.view
    return bool(view.state == "running" and view.open_actions) and not (
        desk.mail or desk.leave or desk.replies or view.open_waits
    )


async def look_again(desk: Desk) -> bool:
    """Read the inbox now, whoever wrote to it; whether that changed anything. What was acknowledged
    before the end counts before the end."""
    before = desk.view.version
    desk.mail = True
    await take_in(desk)
    return desk.view.version != before


async def _attempt(desk: Desk, ended: Ended) -> None:
    evidence = ended.evidence
    if ended.whole is not None:
        evidence = evidence | await kept(desk, ended.whole)
    fault_point("agent.result.arrived")
    found = desk.recorder.apply(
        cmd.EndAttempt(
            ended.action,
            ended.attempt,
            ended.fence,
            ended.outcome,
            ended.text,
            evidence,
            ended.timed_out,
            Cost(tool_ms=ended.tool_ms) if ended.tool_ms else NOTHING,
            ended.objection,
        )
    )
    if desk.setup.workspace is not None and not isinstance(found, Refusal):
        await _look_at_workspace(desk, desk.setup.workspace, ended.action)


async def _look_at_workspace(desk: Desk, workspace: Workspace, action_id: str) -> None:
    """Compare the files with what they were; writes that nobody declared are reported."""
    try:
        now = dict(await workspace.manifest())
    except (OSError, ValueError) as error:
        desk.recorder.apply(cmd.Diverge(f"cannot be read: {error}"))
        return
    before, desk.manifest = desk.manifest, now
    if before is None or before == now:
        return
    changed = sorted(p for p in before.keys() | now.keys() if before.get(p) != now.get(p))
    allowed = [a.path for action in _writers(desk, action_id) for a in action.resources
               if a.mode.value == "write"]  # fmt: skip
    undeclared = [path for path in changed if not any(_covers(a, path) for a in allowed)]
    desk.recorder.must(cmd.Revise(revision_of(now), action_id, tuple(undeclared[:100])))


def _writers(desk: Desk, action_id: str) -> list[Any]:
    ended = desk.view.action(action_id)
    running = desk.view.unfinished("running", "unknown", "stopped")
    return running if ended is None else [ended, *running]


def _covers(declared: str, path: str) -> bool:
    """Whether a declared write of `declared` covers the file `ws/<path>`."""
    parts = [part for part in declared.split("/") if part]
    return ["ws", *path.split("/")][: len(parts)] == parts


def revision_of(manifest: Mapping[str, str]) -> str:
    """The name of a state of the files."""
    return of_json(manifest)


def _due(desk: Desk) -> list[WaitView]:
    """Waits whose time is over, in the order they were due."""
    waiting = desk.view.waiting()
    if not waiting:
        return []
    now = desk.now_ms()
    due = [w for w in waiting if w.due_ms is not None and w.due_ms <= now]
    return sorted(due, key=lambda w: (w.due_ms or 0, w.opened_seq))


def _timers(desk: Desk, due: list[WaitView]) -> None:
    """Timers that are over, and conditions that nobody met in time. A subtask that is late is
    cancelled, and waited for all the same: only its end says what it did."""
    for wait in due:
        if wait.kind == "child":
            if not isinstance(desk.recorder.apply(cmd.Overdue(wait.id)), Refusal):
                _send(desk, wait, "cancel", f"cancel:{wait.id}")
            continue
        how, reason = ("arrived", "") if wait.kind == "timer" else ("expired", "no answer")
        closing = cmd.CloseWait(wait.id, how, "clock", reason=reason, source="clock")
        desk.recorder.apply(closing)


# --- the inbox


async def _read_mail(desk: Desk) -> None:
    """Apply what was acknowledged, in order, a page an append: all of it, because a cancel may be
    the last. Who is leaving leaves the rest to the next worker."""
    desk.mail, after = False, 0
    journal, run_id = desk.recorder.journal, desk.view.run_id
    while page := await journal.inbox_pending(run_id, after=after, limit=PAGE):
        for message in page:
            _message(desk, message, await _objection(desk, message))
        after = page[-1].number
        await desk.recorder.flush()
        fault_point("agent.inbox.applied")
        if desk.leave:
            desk.mail = True
            return


async def _objection(desk: Desk, message: StoredMessage) -> str | None:
    """Why a message does not come from whom it says, or None."""
    return await untrue(desk, message) if message.kind == "child_ended" else None


def _message(desk: Desk, message: StoredMessage, objection: str | None) -> None:
    """Apply one message. Whatever it holds, it is taken note of: a message that cannot be read
    must not stop the run for ever."""
    body = message.body
    make = _COMMANDS.get(message.kind)
    found: Any
    if make is None:
        found = Refusal("unknown", f"messages of kind {message.kind!r} mean nothing here")
    elif objection is not None:
        found = Refusal("state", objection)
    else:
        try:
            found = desk.recorder.apply(make(message, body))
        except (KeyError, TypeError, ValueError, ArithmeticError, AttributeError) as error:
            found = Refusal("unknown", f"the message cannot be read: {type(error).__name__}")
    if isinstance(found, Refusal) or not found:
        reason = found.reason if isinstance(found, Refusal) else "nothing to do"
        short = {k: v for k, v in body.items() if len(str(v)) <= 500}
        desk.recorder.note(ev.MessageRefused(message.message_id, message.kind, reason, short))
    elif message.kind == "cancel":
        cancel_children(desk)
    elif message.kind in ("suspend", "resume"):
        _to_children(desk, message.kind)
    desk.recorder.applied(message.message_id)


def _answer(message: StoredMessage, body: Mapping[str, Any]) -> cmd.Command:
    value = jsontext.sanitized(body.get("value"))
    how = str(body.get("how", "arrived"))
    if how not in ("arrived", "denied"):
        raise ValueError(how)
    by, reason = str(body.get("by", "")), str(body.get("reason", ""))
    at_ms = round(message.at.timestamp() * 1000)  # when it arrived, by the journal's clock
    if isinstance(value, dict) and value.get("expires_s") is not None:
        lasts_s = seconds(value.pop("expires_s"), "expires_s")
        value["expires_ms"] = at_ms + round(lasts_s * 1000)
    return cmd.CloseWait(
        str(body["wait"]),
        how,
        by,
        value,
        reason,
        message.message_id,
        meant=str(body.get("meant", "")),
        at_ms=at_ms,
    )


def _child_ended(message: StoredMessage, body: Mapping[str, Any]) -> cmd.Command:
    how = "cancelled" if body["state"] == "cancelled" else "arrived"
    value = {"state": str(body["state"]), "result": body.get("result"), "spent": body["spent"]}
    reason = f"the subtask was {body['state']}"
    return cmd.CloseWait(str(body["wait"]), how, message.message_id, value, reason, source="child")


_COMMANDS: dict[str, Callable[[StoredMessage, Mapping[str, Any]], cmd.Command]] = {
    "answer": _answer,
    "child_ended": _child_ended,
    "text": lambda m, b: cmd.Receive(m.message_id, str(b["text"]), str(b.get("by", ""))),
    "cancel": lambda m, b: cmd.RequestCancel(
        str(b.get("by", "")), str(b.get("reason", "")), b.get("compensate") is True
    ),
    "suspend": lambda m, b: cmd.Move("suspend", str(b.get("reason", "")), str(b.get("by", "?"))),
    "resume": lambda m, b: cmd.Move("resume", str(b.get("reason", "")), str(b.get("by", "?"))),
}


def cancel_children(desk: Desk) -> None:
    """Copy the cancellation to every subtask, in the same append. A subtask is told once, however
    often this is called."""
    for wait in desk.view.waiting("child"):
        _send(desk, wait, "cancel", f"cancel:{wait.id}")


def _to_children(desk: Desk, kind: str) -> None:
    """`kind` is what the last event of the log says; each time it says so is a message of its
    own."""
    for wait in desk.view.waiting("child"):
        _send(desk, wait, kind, f"{kind}:{wait.id}:{desk.view.version}")


def _send(desk: Desk, wait: WaitView, kind: str, name: str) -> None:
    """Once here for each `name`. Nobody can know the message's own name before, and put another
    message in its place: that of a worker before this one may be there too, and is refused."""
    if name in desk.sent:
        return
    desk.sent.add(name)
    child, at = str(wait.spec["child"]), desk.setup.clock.now()
    by = {"by": f"run {desk.view.run_id}"}
    unique = f"{name}:{secrets.token_hex(12)}"
    desk.recorder.deliver(Message(child, unique, kind, by, at))
