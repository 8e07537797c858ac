"""What may be asked of a run. A command is a wish; `decide` answers with events or a refusal."""

from collections.abc import Mapping
from typing import Any

from msgspec import Struct, field

from proctor.agent.core.budgets import NOTHING, ONE_STEP, Cost, Limits
from proctor.agent.core.locks import Access

Json = Mapping[str, Any]


class Command(Struct, frozen=True, gc=False):
    """The parent of all commands."""


class Refusal(Struct, frozen=True, gc=False):
    """Nothing happens. `code` is for programs: state, unknown, cancelled, locks, attempts, budget,
    approval, blocked, closed, late, expired, key."""

    code: str
    reason: str


class CreateRun(Command, frozen=True, gc=False):
    """`on_unknown`: wait, tell_model or stop_run."""

    run_id: str
    task: Json
    config_digest: str
    permission_epoch: int = 0
    limits: Limits = Limits()
    on_unknown: str = "wait"
    parent: Json | None = None
    max_corrections: int = 2


class Claim(Command, frozen=True, gc=False):
    """An owner has the lease with this fence."""

    owner: str
    fence: int


class Release(Command, frozen=True, gc=False):
    reason: str = ""


class GiveUp(Command, frozen=True, gc=False):
    """The driver failed and releases the run, which it may not have claimed in the log yet; another
    worker may try."""

    owner: str
    reason: str


class HoldBack(Command, frozen=True, gc=False):
    """Too many workers died of the run: a person has to resume it."""


class Move(Command, frozen=True, gc=False):
    """`event`: started, block, unblock, suspend, resume."""

    event: str
    reason: str = ""
    by: str = ""


class Receive(Command, frozen=True, gc=False):
    """A text for the conversation."""

    message_id: str
    text: str
    by: str = ""


class RequestTurn(Command, frozen=True, gc=False):
    reserve: Cost = ONE_STEP
    assembled: Json = field(default_factory=dict)


class ProposedCall(Struct, frozen=True, gc=False):
    """A complete, parsed call of a known tool. `problem`: why it cannot become an action."""

    call_id: str
    tool: str
    arguments: Json
    problem: str | None = None
    tool_version: str = ""
    effect: str = "non_repeatable"
    resources: tuple[Access, ...] = ()
    max_attempts: int = 1


class Reply(Command, frozen=True, gc=False):
    """The reply to an open turn, complete."""

    turn: int
    text: str = ""
    calls: tuple[ProposedCall, ...] = ()
    cost: Cost = ONE_STEP


class TakeTurn(Command, frozen=True, gc=False):
    """A turn that was known at once: `RequestTurn` and its `Reply` in one."""

    reserve: Cost = ONE_STEP
    assembled: Json = field(default_factory=dict)
    text: str = ""
    calls: tuple[ProposedCall, ...] = ()
    cost: Cost = ONE_STEP


class CloseTurn(Command, frozen=True, gc=False):
    """`estimated` False: it is known that nothing was spent. `abandoned`: see `TurnClosed`."""

    turn: int
    reason: str
    estimated: bool = True
    abandoned: bool = False


class GiveCandidate(Command, frozen=True, gc=False):
    result: str


class Judge(Command, frozen=True, gc=False):
    """`checks`: `{check, accepted, reason, evidence}` each; none accepts."""

    checks: tuple[Json, ...] = ()


class OpenWait(Command, frozen=True, gc=False):
    kind: str
    action: str | None = None
    subject: str = ""
    prompt: str = ""
    due_ms: int | None = None
    spec: Json = field(default_factory=dict)


class CloseWait(Command, frozen=True, gc=False):
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


class Overdue(Command, frozen=True, gc=False):
    """The time of a subtask is over: it is told to end, and waited for without a limit."""

    wait: str


class CloseAction(Command, frozen=True, gc=False):
    """`event`: denied, expired, invalid, cancelled."""

    action: str
    event: str
    reason: str


class StartAttempt(Command, frozen=True, gc=False):
    """`approval`: the subject a person must have approved; None when nobody is asked."""

    action: str
    fence: int
    reserve: Cost = NOTHING
    approval: str | None = None


class EndAttempt(Command, frozen=True, gc=False):
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


class Settle(Command, frozen=True, gc=False):
    """What a query answered. `how`: happened, did_not_happen, cannot_be_settled."""

    action: str
    how: str
    by: str
    text: str = ""
    evidence: Json = field(default_factory=dict)
    handover: Json = field(default_factory=dict)


class NoteProcess(Command, frozen=True, gc=False):
    action: str
    attempt: int
    pgid: int
    start_ticks: int
    boot_id: str
    control_group: str = ""


class RequestCancel(Command, frozen=True, gc=False):
    by: str
    reason: str = ""
    compensate: bool = False


class AnswerStop(Command, frozen=True, gc=False):
    """`answer`: confirmed, refused, timed_out."""

    action: str
    attempt: int
    answer: str
    means: tuple[str, ...] = ()


class Compensate(Command, frozen=True, gc=False):
    """A new action that undoes `action`."""

    action: str
    call: ProposedCall


class Close(Command, frozen=True, gc=False):
    """The run is to end as `aim`: done, failed, stopped, cancelled."""

    aim: str
    reason: str = ""


class End(Command, frozen=True, gc=False):
    """Everything is cleaned up, or the time for it is over."""


class ChangeEpoch(Command, frozen=True, gc=False):
    epoch: int


class ChangeConfig(Command, frozen=True, gc=False):
    digest: str


class Revise(Command, frozen=True, gc=False):
    """The workspace after an action; `undeclared`: paths it wrote without saying so."""

    revision: str
    action: str = ""
    undeclared: tuple[str, ...] = ()


class Diverge(Command, frozen=True, gc=False):
    """The workspace is not what it was left as."""

    found: str
