"""From ready to running: conditions first, then locks and capacity, then the fenced start."""

from collections.abc import Iterator

from proctor.agent.core import commands as cmd
from proctor.agent.core.budgets import NOTHING, Cost
from proctor.agent.core.commands import Refusal
from proctor.agent.core.decide_actions import USED_UP, is_approved, runnable
from proctor.agent.core.drawing import comes_back
from proctor.agent.core.view import ActionView
from proctor.agent.driving.desk import Desk
from proctor.agent.driving.groups import started_group
from proctor.agent.driving.needs import need_of, revision_of, unmet
from proctor.agent.driving.outcomes import Execution
from proctor.agent.driving.recorder import LostRun
from proctor.agent.driving.seam import is_given
from proctor.agent.permissions import Ruling, subject
from proctor.agent.tools import Need, Tool, ToolContext
from proctor.kernel.faults import fault_point


async def start_ready(desk: Desk) -> bool:
    """Open what ready actions have to wait for, start what may start; whether anything was done.

    Tools are asked first, then all that may start is started together: nothing that is allowed in
    the log waits for another action's tool. What came in meanwhile is taken in before anything
    starts."""
    before = desk.view.version
    subjects: dict[str, str | None] = {}
    for action in desk.view.unfinished("ready"):
        # One that has not changed since is looked at again when it is its turn to start.
        if desk.looked.get(action.id) is not action:
            await _look_at(desk, action, subjects)
    free = desk.setup.slots - len(desk.dispatcher.running)
    candidates = iter(runnable(desk.view) if free > 0 else ())
    while free > 0 and (batch := await _startable(desk, candidates, subjects, free)):
        if desk.asked_tools:
            await _read_mail(desk)
        if desk.mail or desk.leave:
            break
        started = [action_id for action_id in batch if _start(desk, action_id, subjects[action_id])]
        await _execute_all(desk, started)
        free -= len(started)
    return desk.view.version != before


async def _startable(
    desk: Desk, candidates: Iterator[str], subjects: dict[str, str | None], most: int
) -> list[str]:
    """The next of `candidates` that nothing speaks against, at most `most`."""
    found: list[str] = []
    for action_id in candidates:
        action = desk.view.action(action_id)
        if action is None or action.state != "ready" or desk.held(action):
            continue
        if action_id not in subjects:
            await _look_at(desk, action, subjects)
        if action_id not in subjects:
            continue
        tool = desk.setup.tools.get(action.tool)
        if tool is not None and (not _has_conditions(tool) or await _unopposed(desk, action, tool)):
            found.append(action_id)
            if len(found) == most:
                break
    return found


async def _execute_all(desk: Desk, started: list[str]) -> None:
    if not started:
        return
    for action_id in started:
        del desk.looked[action_id]
    fault_point("agent.attempt.intent")
    await desk.recorder.flush()
    fault_point("agent.attempt.started")
    if not _surely_owns(desk):
        await _must_own(desk)
    for action_id in started:
        _execute(desk, action_id)


async def _read_mail(desk: Desk) -> None:
    """Look for what came in while a tool's own code was awaited: a cancellation that was
    acknowledged by now must be read before anything starts."""
    desk.asked_tools = desk.mail = False
    if await desk.recorder.journal.inbox_pending(desk.view.run_id, limit=1):
        desk.mail = True


async def _look_at(desk: Desk, action: ActionView, subjects: dict[str, str | None]) -> None:
    desk.looked[action.id] = action
    if desk.view.action(action.id) is not action or desk.view.state not in ("running", "finishing"):
        return  # the end of another one, which nobody can settle, ended this one or the run
    tool = _tool_of(desk, action)
    if tool is None:
        return
    ruling = desk.setup.permissions.ruling(action.tool, action.arguments)
    if ruling is Ruling.ALLOW and not is_given(tool.needs, Tool.needs):
        subjects[action.id] = None
        return
    await _meet(desk, action, tool, ruling, subjects)


def _surely_owns(desk: Desk) -> bool:
    """A worker whose lease ran out by its own clock starts nothing, whoever owns the run now. A
    machine that was suspended may not have counted that time: when its wall clock says more, the
    journal is asked."""
    clock = desk.setup.clock
    return clock.monotonic() < desk.lease_until and clock.now() < desk.recorder.lease.until


async def _must_own(desk: Desk) -> None:
    clock, lease = desk.setup.clock, desk.recorder.lease
    asked, ttl_s = clock.monotonic(), desk.setup.timing.lease_ttl_s
    renewed = await desk.setup.journal.renew(lease, ttl_s) if asked < desk.lease_until else None
    if renewed is None:
        raise LostRun(f"the lease of run {desk.view.run_id} ran out")
    desk.recorder.lease, desk.lease_until = renewed, asked + ttl_s


def _tool_of(desk: Desk, action: ActionView) -> Tool | None:
    """The action's tool; an action without one, or without attempts left, ends here."""
    tool = desk.setup.tools.get(action.tool)
    if tool is None or tool.effect.value != action.effect:
        reason = f"tool {action.tool!r} is not there as it was"
        desk.recorder.apply(cmd.CloseAction(action.id, "invalid", reason))
        return None
    if action.attempts >= action.max_attempts and action.effect != "non_repeatable":
        desk.recorder.apply(cmd.CloseAction(action.id, "denied", USED_UP))
        return None
    return tool


async def _meet(
    desk: Desk, action: ActionView, tool: Tool, ruling: Ruling, subjects: dict[str, str | None]
) -> None:
    """Check the action's conditions; when all are met, note what an approval must be bound to."""
    if ruling is Ruling.DENY:
        desk.recorder.apply(cmd.CloseAction(action.id, "denied", "not permitted"))
        return
    wanted: str | None = None
    if ruling is Ruling.ASK:
        await desk.recorder.flush()  # the tool's own code may take its time
        desk.asked_tools = True
        wanted = await subject_of(desk, action, tool)
        if wanted is None:
            return
        if not is_approved(desk.view, action, wanted, desk.now_ms()):
            _ask_approval(desk, action, wanted)
            return
    try:
        need = need_of(tool, action)
    except ValueError as error:
        desk.recorder.apply(cmd.CloseAction(action.id, "invalid", str(error)))
        return
    if need is not None and need.kind not in action.met:
        _open_need(desk, action, need)
        return
    subjects[action.id] = wanted


async def subject_of(desk: Desk, action: ActionView, tool: Tool) -> str | None:
    """What an approval is bound to now; None: it cannot be told, and the action has ended."""
    try:
        revision = await revision_of(tool, action)
    except ValueError as error:
        if action.state == "ready":
            desk.recorder.apply(cmd.CloseAction(action.id, "invalid", str(error)))
        return None
    epoch = max(desk.view.epoch, desk.setup.permissions.epoch)
    return subject(action.tool, tool.version, action.arguments, revision, epoch)


def _ask_approval(desk: Desk, action: ActionView, wanted: str) -> None:
    expires = desk.setup.permissions.ask_expires_s
    due = None if expires is None else desk.now_ms() + int(expires * 1000)
    prompt = f"May {action.tool} be executed with these arguments?"
    spec = {"tool": action.tool, "arguments": action.arguments}
    desk.recorder.apply(cmd.OpenWait("approval", action.id, wanted, prompt, due, spec))


def _open_need(desk: Desk, action: ActionView, need: Need) -> None:
    due_s = need.delay_s if need.kind == "timer" else need.expires_s
    due = None if due_s is None else desk.now_ms() + int(due_s * 1000)
    spec = dict(need.settings)
    if need.kind == "child":
        spec |= {"child": child_id(action), "goal": need.goal}
    answer = desk.recorder.apply(
        cmd.OpenWait(need.kind, action.id, prompt=need.prompt, due_ms=due, spec=spec)
    )
    if not isinstance(answer, Refusal) or answer.code not in ("budget", "invalid"):
        return
    if answer.code == "invalid":
        desk.recorder.apply(cmd.CloseAction(action.id, "invalid", answer.reason))
    elif not comes_back(desk.view):  # else it is asked again when something was given back
        desk.recorder.apply(cmd.CloseAction(action.id, "denied", answer.reason))


def child_id(action: ActionView) -> str:
    """The run of a subtask: named by the key of its action, so a second spawn finds the first."""
    return f"sub-{action.op_key.removeprefix('sha256:')[:32]}"


def _has_conditions(tool: Tool) -> bool:
    return is_given(tool.preconditions, Tool.preconditions)


async def _unopposed(desk: Desk, action: ActionView, tool: Tool) -> bool:
    """Whether the world allows the action now, as its tool says; else it ends here."""
    await desk.recorder.flush()  # the tool's own code may take its time
    desk.asked_tools = True
    objection = await unmet(tool, action)
    if objection is not None:
        desk.recorder.apply(cmd.CloseAction(action.id, "invalid", objection))
    return objection is None


def _start(desk: Desk, action_id: str, approval: str | None) -> bool:
    action = desk.view.action(action_id)
    tool = desk.setup.tools.get(action.tool) if action is not None else None
    if action is None or tool is None:
        return False
    reserve = _tool_time(desk, tool)
    if reserve.tool_ms < tool.timeout_s * 1000 and reserve.tool_ms and comes_back(desk.view):
        return False  # others have reserved the rest, and may give some of it back
    answer = desk.recorder.apply(
        cmd.StartAttempt(action_id, desk.recorder.lease.fence, reserve, approval)
    )
    if isinstance(answer, Refusal):
        if answer.code in ("budget", "attempts"):
            desk.recorder.apply(cmd.CloseAction(action_id, "denied", answer.reason))
        return False
    return True


def _tool_time(desk: Desk, tool: Tool) -> Cost:
    """Tool time is reserved only where it is limited; never more than is left, which then also
    limits the attempt."""
    left = desk.view.budgets.left.tool_ms
    if left is None:
        return NOTHING
    return Cost(tool_ms=max(1, min(int(tool.timeout_s * 1000), left)))


def _execute(desk: Desk, action_id: str) -> None:
    action = desk.view.action(action_id)
    tool = desk.setup.tools.get(action.tool) if action is not None else None
    if action is None or tool is None or action.state != "running":
        return
    reserved = desk.view.budgets.open.get(action.source, NOTHING).tool_ms
    timeout_s = min(tool.timeout_s, reserved / 1000) if reserved else tool.timeout_s
    number = action.attempts

    async def note_group(pgid: int) -> None:
        await started_group(desk, execution, pgid)

    context = ToolContext(
        desk.view.run_id,
        action_id,
        number,
        action.fence,
        action.answer,
        note_group,
    )
    execution = Execution(tool, action, context, timeout_s)
    desk.dispatcher.start(execution)
