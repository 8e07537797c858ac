"""Events of actions, their attempts and waits."""

from typing import Any

from msgspec import field

from proctor.agent.core.events.base import AgentEvent, Json, kind


@kind("action.accepted", checked=True)
class ActionAccepted(AgentEvent, frozen=True, gc=False):
    """`resources`: `[mode, path]` each. `arguments` None: those of the call in its turn."""

    action: str
    turn: int
    call_id: str
    tool: str
    tool_version: str
    effect: str
    op_key: str
    resources: tuple[tuple[str, str], ...]
    max_attempts: int = 3
    compensates: str | None = None
    arguments: Json | None = None


@kind("call.refused")
class CallRefused(AgentEvent, frozen=True, gc=False):
    """A call that never became an action: unknown tool, arguments that do not fit."""

    turn: int
    call_id: str
    tool: str
    reason: str


@kind("wait.opened")
class WaitOpened(AgentEvent, frozen=True, gc=False):
    """`wait_kind`: approval, input, timer, child, statement, workspace, review. `due_ms` (UTC):
    when a timer is over, or when anything else expires. `spec` holds what the kind needs."""

    wait: str
    wait_kind: str
    action: str | None = None
    subject: str = ""
    prompt: str = ""
    due_ms: int | None = None
    spec: Json = field(default_factory=dict)


@kind("wait.closed")
class WaitClosed(AgentEvent, frozen=True, gc=False):
    """`how`: arrived, denied, expired, cancelled, superseded. `given_up`: the action that waits is
    not done again, and what it did before is not known."""

    wait: str
    how: str
    by: str = ""
    value: Any = None
    reason: str = ""
    message_id: str = ""
    given_up: bool = False


@kind("wait.overdue")
class WaitOverdue(AgentEvent, frozen=True, gc=False):
    """A subtask did not end in its time and was told to; the wait goes on until it has ended."""

    wait: str


@kind("action.closed")
class ActionClosed(AgentEvent, frozen=True, gc=False):
    """An end before any attempt, or between two: `event` is denied, expired, invalid, cancelled,
    given_up."""

    action: str
    event: str
    reason: str


@kind("attempt.started", checked=True)
class AttemptStarted(AgentEvent, frozen=True, gc=False):
    action: str
    attempt: int
    fence: int
    reserve: Json = field(default_factory=dict)


@kind("attempt.ended", checked=True)
class AttemptEnded(AgentEvent, frozen=True, gc=False):
    """`outcome` is an event of the action's table: result, rejected, refused,
    stopped_without_effect, lost. `timed_out`: a result, known because the stop was confirmed.
    `accepted`: a result that nothing is to be said against, so that its action is done; else an
    `action.judged` follows."""

    action: str
    attempt: int
    fence: int
    outcome: str
    text: str = ""
    evidence: Json = field(default_factory=dict)
    timed_out: bool = False
    cost: Json = field(default_factory=dict)
    accepted: bool = False


@kind("attempt.late")
class LateResult(AgentEvent, frozen=True, gc=False):
    """A result of a superseded attempt or of an action that is settled: evidence, no change."""

    action: str
    attempt: int
    outcome: str
    text: str = ""
    evidence: Json = field(default_factory=dict)


@kind("action.settled")
class ActionSettled(AgentEvent, frozen=True, gc=False):
    """How an unknown outcome became known, or that it cannot. `how` is an event of the action's
    table; `handover`: what is known, for the person who has to decide."""

    action: str
    how: str
    by: str
    text: str = ""
    evidence: Json = field(default_factory=dict)
    handover: Json = field(default_factory=dict)


@kind("action.judged")
class ActionJudged(AgentEvent, frozen=True, gc=False):
    """`verdict`: accepted, correct, not_accepted."""

    action: str
    verdict: str
    reason: str = ""


@kind("process.started")
class ProcessStarted(AgentEvent, frozen=True, gc=False):
    """A process group of an attempt: what a later worker needs to find and stop it.
    `control_group`: the folder of the group that also holds what leaves it, empty without one."""

    action: str
    attempt: int
    pgid: int
    start_ticks: int
    boot_id: str
    control_group: str = ""
