"""Events of the run, its inbox, its turns, its end."""

from dataclasses import dataclass, field

from proctor.agent.core.events.base import AgentEvent, Json, kind


@kind("run.created")
@dataclass(frozen=True, slots=True)
class RunCreated(AgentEvent):
    """`task`: goal, acceptance, scope. `limits`: see `Budgets`. `max_corrections`: how often a
    candidate that is not accepted goes back to the policy."""

    run_id: str
    task: Json
    config_digest: str
    permission_epoch: int = 0
    limits: Json = field(default_factory=dict)
    on_unknown: str = "wait"
    parent: Json | None = None
    max_corrections: int = 2


@kind("run.claimed")
@dataclass(frozen=True, slots=True)
class RunClaimed(AgentEvent):
    owner: str
    fence: int
    recovered: bool = False


@kind("run.released")
@dataclass(frozen=True, slots=True)
class RunReleased(AgentEvent):
    owner: str
    reason: str = ""


@kind("run.given_up")
@dataclass(frozen=True, slots=True)
class RunGivenUp(AgentEvent):
    """Its driver failed, and nothing goes on until another worker claims the run."""

    owner: str
    reason: str


@kind("run.moved")
@dataclass(frozen=True, slots=True)
class RunMoved(AgentEvent):
    """`event` is one of the run's table: started, block, unblock, suspend, resume, correct."""

    event: str
    reason: str = ""
    by: str = ""


@kind("run.candidate")
@dataclass(frozen=True, slots=True)
class CandidateGiven(AgentEvent):
    """The policy says it is done. A signal, not the result."""

    result: str
    turn: int


@kind("run.judged")
@dataclass(frozen=True, slots=True)
class CandidateJudged(AgentEvent):
    """`checks`: one `{check, accepted, reason, evidence}` each."""

    accepted: bool
    checks: tuple[Json, ...] = ()


@kind("run.closing")
@dataclass(frozen=True, slots=True)
class RunClosing(AgentEvent):
    """The run is to end as `aim` (done, failed, stopped, cancelled) once it is cleaned up."""

    aim: str
    reason: str = ""


@kind("run.ended")
@dataclass(frozen=True, slots=True)
class RunEnded(AgentEvent):
    """`unsettled`: what nobody knows the outcome of. `told`: the digest of what a subtask tells its
    parent (`telling`)."""

    state: str
    unsettled: tuple[Json, ...] = ()
    told: str = ""


@kind("run.config_changed")
@dataclass(frozen=True, slots=True)
class ConfigChanged(AgentEvent):
    """The program that resumed the run has other tools or another policy."""

    before: str
    after: str


# --- the inbox


@kind("message.received")
@dataclass(frozen=True, slots=True)
class MessageReceived(AgentEvent):
    """A text for the conversation. `voids`: it came when there was a candidate, which is none any
    more."""

    message_id: str
    text: str
    by: str = ""
    voids: bool = False


@kind("message.refused")
@dataclass(frozen=True, slots=True)
class MessageRefused(AgentEvent):
    """A message that changed nothing: an answer to a closed wait, a second decision."""

    message_id: str
    message_kind: str
    reason: str
    body: Json = field(default_factory=dict)


# --- turns: one request to the policy or its model


@kind("turn.requested")
@dataclass(frozen=True, slots=True)
class TurnRequested(AgentEvent):
    """`reserve` is what it may cost at most; `assembled` says what went into its input."""

    turn: int
    reserve: Json = field(default_factory=dict)
    assembled: Json = field(default_factory=dict)


@kind("turn.replied")
@dataclass(frozen=True, slots=True)
class TurnReplied(AgentEvent):
    """`calls`: `{call_id, tool, arguments}` each, in the model's order. Without a request before it
    this is a turn that was known at once; `assembled` then says what went into its input."""

    turn: int
    text: str = ""
    calls: tuple[Json, ...] = ()
    cost: Json = field(default_factory=dict)
    assembled: Json = field(default_factory=dict)


@kind("turn.closed")
@dataclass(frozen=True, slots=True)
class TurnClosed(AgentEvent):
    """No reply will come. `estimated`: the whole reservation counts as its cost."""

    turn: int
    reason: str
    estimated: bool = True


# --- cancelling


@kind("cancel.requested")
@dataclass(frozen=True, slots=True)
class CancelRequested(AgentEvent):
    """The first record: no new attempts."""

    by: str
    reason: str = ""
    compensate: bool = False


@kind("cancel.stop")
@dataclass(frozen=True, slots=True)
class StopAnswered(AgentEvent):
    """The second record, one for each running attempt. `answer`: confirmed, refused, timed_out."""

    action: str
    attempt: int
    answer: str
    means: tuple[str, ...] = ()


@kind("cancel.effects")
@dataclass(frozen=True, slots=True)
class EffectsSettled(AgentEvent):
    """The third record. `effects`: none, done, unknown, compensated."""

    action: str
    effects: str
    compensated_by: str | None = None


# --- permissions and the workspace


@kind("permission.granted")
@dataclass(frozen=True, slots=True)
class PermissionGranted(AgentEvent):
    """A decision for this run: later actions with the same subject need not ask again."""

    subject: str
    by: str
    expires_ms: int | None = None


@kind("permission.epoch")
@dataclass(frozen=True, slots=True)
class EpochChanged(AgentEvent):
    """The permissions changed: approvals of an older epoch are void."""

    epoch: int


@kind("workspace.revised")
@dataclass(frozen=True, slots=True)
class WorkspaceRevised(AgentEvent):
    revision: str
    action: str = ""


@kind("workspace.undeclared_write")
@dataclass(frozen=True, slots=True)
class UndeclaredWrite(AgentEvent):
    """An action changed files it had not declared."""

    action: str
    paths: tuple[str, ...]


@kind("workspace.diverged")
@dataclass(frozen=True, slots=True)
class WorkspaceDiverged(AgentEvent):
    """The workspace is not what the log says."""

    expected: str
    found: str
