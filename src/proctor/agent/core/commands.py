"""What may be asked of a run. A command is a wish; `decide` answers with events or a refusal."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from proctor.agent.core.budgets import NOTHING, ONE_STEP, Cost, Limits
from proctor.agent.core.locks import Access

Json = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Command:
    """The parent of all commands."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """Nothing happens. `code` is for programs: state, unknown, cancelled, locks, attempts, budget,
    approval, blocked, closed, late, expired, key."""

    code: str
    reason: str


@dataclass(frozen=True, slots=True)
class CreateRun(Command):
    """`on_unknown`: wait, tell_model or stop_run."""

    run_id: str
    task: Json
    config_digest: str
    permission_epoch: int = 0
    limits: Limits = Limits()
    on_unknown: str = "wait"
    parent: Json | None = None
    max_corrections: int = 2


@dataclass(frozen=True, slots=True)
class Claim(Command):
    """An owner has the lease with this fence."""

    owner: str
    fence: int


@dataclass(frozen=True, slots=True)
class Release(Command):
    reason: str = ""


@dataclass(frozen=True, slots=True)
class GiveUp(Command):
    """The driver failed and releases the run, which it may not have claimed in the log yet; another
    worker may try."""

    owner: str
    reason: str


@dataclass(frozen=True, slots=True)
class HoldBack(Command):
    """Too many workers died of the run: a person has to resume it."""


@dataclass(frozen=True, slots=True)
class Move(Command):
    """`event`: started, block, unblock, suspend, resume."""

    event: str
    reason: str = ""
    by: str = ""


@dataclass(frozen=True, slots=True)
class Receive(Command):
    """A text for the conversation."""

    message_id: str
    text: str
    by: str = ""


@dataclass(frozen=True, slots=True)
class RequestTurn(Command):
    reserve: Cost = ONE_STEP
    assembled: Json = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ProposedCall:
    """A complete, parsed call of a known tool. `problem`: why it cannot become an action."""

    call_id: str
    tool: str
    arguments: Json
    problem: str | None = None
    tool_version: str = ""
    effect: str = "non_repeatable"
    resources: tuple[Access, ...] = ()
    max_attempts: int = 1


@dataclass(frozen=True, slots=True)
class Reply(Command):
    """The reply to an open turn, complete."""

    turn: int
    text: str = ""
    calls: tuple[ProposedCall, ...] = ()
    cost: Cost = ONE_STEP


@dataclass(frozen=True, slots=True)
class TakeTurn(Command):
    """A turn that was known at once: `RequestTurn` and its `Reply` in one."""

    reserve: Cost = ONE_STEP
    assembled: Json = field(default_factory=dict)
    text: str = ""
    calls: tuple[ProposedCall, ...] = ()
    cost: Cost = ONE_STEP


@dataclass(frozen=True, slots=True)
class CloseTurn(Command):
    """`estimated` False: it is known that nothing was spent."""

    turn: int
    reason: str
    estimated: bool = True


@dataclass(frozen=True, slots=True)
class GiveCandidate(Command):
    result: str


@dataclass(frozen=True, slots=True)
class Judge(Command):
    """`checks`: `{check, accepted, reason, evidence}` each; none accepts."""

    checks: tuple[Json, ...] = ()


@dataclass(frozen=True, slots=True)
class OpenWait(Command):
    kind: str
    action: str | None = None
    subject: str = ""
    prompt: str = ""
    due_ms: int | None = None
    spec: Json = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CloseWait(Command):
    """`how`: arrived, denied, expired, cancelled, superseded. For an approval `value` holds `scope`
    (once, run) and perhaps `expires_ms`; for a statement `happened` and `text`. `source`: person,
    clock, child, runtime. `meant`: what a person said (approval, statement, answer, denial; empty:
    not told). `at_ms`: when it was acknowledged, None now."""

    wait: str
    how: str
    by: str = ""
    value: Any = None
    reason: str = ""
    message_id: str = ""
    source: str = "person"
    meant: str = ""
    at_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Overdue(Command):
    """The time of a subtask is over: it is told to end, and waited for without a limit."""

    wait: str


@dataclass(frozen=True, slots=True)
class CloseAction(Command):
    """`event`: denied, expired, invalid, cancelled."""

    action: str
    event: str
    reason: str


@dataclass(frozen=True, slots=True)
class StartAttempt(Command):
    """`approval`: the subject a person must have approved; None when nobody is asked."""

    action: str
    fence: int
    reserve: Cost = NOTHING
    approval: str | None = None


@dataclass(frozen=True, slots=True)
class EndAttempt(Command):
    """`outcome`: result, rejected, refused, stopped_without_effect, lost. `objection`: why a
    result is not acceptable."""

    action: str
    attempt: int
    fence: int
    outcome: str
    text: str = ""
    evidence: Json = field(default_factory=dict)
    timed_out: bool = False
    cost: Cost = NOTHING
    objection: str | None = None


@dataclass(frozen=True, slots=True)
class Settle(Command):
    """What a query answered. `how`: happened, did_not_happen, cannot_be_settled."""

    action: str
    how: str
    by: str
    text: str = ""
    evidence: Json = field(default_factory=dict)
    handover: Json = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class NoteProcess(Command):
    action: str
    attempt: int
    pgid: int
    start_ticks: int
    boot_id: str
    control_group: str = ""


@dataclass(frozen=True, slots=True)
class RequestCancel(Command):
    by: str
    reason: str = ""
    compensate: bool = False


@dataclass(frozen=True, slots=True)
class AnswerStop(Command):
    """`answer`: confirmed, refused, timed_out."""

    action: str
    attempt: int
    answer: str
    means: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Compensate(Command):
    """A new action that undoes `action`."""

    action: str
    call: ProposedCall


@dataclass(frozen=True, slots=True)
class Close(Command):
    """The run is to end as `aim`: done, failed, stopped, cancelled."""

    aim: str
    reason: str = ""


@dataclass(frozen=True, slots=True)
class End(Command):
    """Everything is cleaned up, or the time for it is over."""


@dataclass(frozen=True, slots=True)
class ChangeEpoch(Command):
    epoch: int


@dataclass(frozen=True, slots=True)
class ChangeConfig(Command):
    digest: str


@dataclass(frozen=True, slots=True)
class Revise(Command):
    """The workspace after an action; `undeclared`: paths it wrote without saying so."""

    revision: str
    action: str = ""
    undeclared: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Diverge(Command):
    """The workspace is not what it was left as."""

    found: str
