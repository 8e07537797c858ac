"""Events of the run, its inbox, its turns, its end."""

from msgspec import field

from proctor.agent.core.events.base import AgentEvent, Json, kind


@kind("run.created")
class RunCreated(AgentEvent, frozen=True, gc=False):
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
class RunClaimed(AgentEvent, frozen=True, gc=False):
    owner: str
    fence: int
    recovered: bool = False


@kind("run.released")
class RunReleased(AgentEvent, frozen=True, gc=False):
    owner: str
    reason: str = ""


@kind("run.given_up")
class RunGivenUp(AgentEvent, frozen=True, gc=False):
    """Its driver failed, and nothing goes on until another worker claims the run."""

    owner: str
    reason: str


@kind("run.moved")
class RunMoved(AgentEvent, frozen=True, gc=False):
    """`event` is one of the run's table: started, block, unblock, suspend, resume, correct."""

    event: str
    reason: str = ""
    by: str = ""


@kind("run.candidate")
class CandidateGiven(AgentEvent, frozen=True, gc=False):
    """The policy says it is done. A signal, not the result."""

    result: str
    turn: int


@kind("run.judged")
class CandidateJudged(AgentEvent, frozen=True, gc=False):
    """`checks`: one `{check, accepted, reason, evidence}` each."""

    accepted: bool
    checks: tuple[Json, ...] = ()


@kind("run.closing")
class RunClosing(AgentEvent, frozen=True, gc=False):
    """The run is to end as `aim` (done, failed, stopped, cancelled) once it is cleaned up."""

    aim: str
    reason: str = ""


@kind("run.ended")
class RunEnded(AgentEvent, frozen=True, gc=False):
    """`unsettled`: what nobody knows the outcome of. `told`: the digest of what a subtask tells its
    parent (`telling`)."""

    state: str
    unsettled: tuple[Json, ...] = ()
    told: str = ""


@kind("run.config_changed")
class ConfigChanged(AgentEvent, frozen=True, gc=False):
    """The program that resumed the run has other tools or another policy."""

    before: str
    after: str


# --- the inbox


@kind("message.received")
class MessageReceived(AgentEvent, frozen=True, gc=False):
    """A text for the conversation. `voids`: it came when there was a candidate, which is none any
    more."""

    message_id: str
    text: str
    by: str = ""
    voids: bool = False


@kind("message.refused")
class MessageRefused(AgentEvent, frozen=True, gc=False):
    """A message that changed nothing: an answer to a closed wait, a second decision."""

    message_id: str
    message_kind: str
    reason: str
    body: Json = field(default_factory=dict)


# --- turns: one request to the policy or its model


@kind("turn.requested", checked=True)
class TurnRequested(AgentEvent, frozen=True, gc=False):
    """`reserve` is what it may cost at most; `assembled` says what went into its input."""

    turn: int
    reserve: Json = field(default_factory=dict)
    assembled: Json = field(default_factory=dict)


@kind("turn.replied", checked=True)
class TurnReplied(AgentEvent, frozen=True, gc=False):
    """`calls`: `{call_id, tool, arguments}` each, in the model's order. Without a request before it
    this is a turn that was known at once; `assembled` then says what went into its input."""

    turn: int
    text: str = ""
    calls: tuple[Json, ...] = ()
    cost: Json = field(default_factory=dict)
    assembled: Json = field(default_factory=dict)


@kind("turn.closed")
class TurnClosed(AgentEvent, frozen=True, gc=False):
    """No reply will come. `estimated`: the whole reservation counts as its cost. `abandoned`: the
    worker that asked was lost or has left, which says nothing about the policy."""

    turn: int
    reason: str
    estimated: bool = True
    abandoned: bool = False


# --- cancelling


@kind("cancel.requested")
class CancelRequested(AgentEvent, frozen=True, gc=False):
    """The first record: no new attempts."""

    by: str
    reason: str = ""
    compensate: bool = False


@kind("cancel.stop")
class StopAnswered(AgentEvent, frozen=True, gc=False):
    """The second record, one for each running attempt. `answer`: confirmed, refused, timed_out."""

    action: str
    attempt: int
    answer: str
    means: tuple[str, ...] = ()


@kind("cancel.effects")
class EffectsSettled(AgentEvent, frozen=True, gc=False):
    """The third record. `effects`: none, done, unknown, compensated."""

    action: str
    effects: str
    compensated_by: str | None = None


# --- permissions and the workspace


@kind("permission.granted")
class PermissionGranted(AgentEvent, frozen=True, gc=False):
    """A decision for this run: later actions with the same subject need not ask again."""

    subject: str
    by: str
    expires_ms: int | None = None


@kind("permission.epoch")
class EpochChanged(AgentEvent, frozen=True, gc=False):
    """The permissions changed: approvals of an older epoch are void."""

    epoch: int


@kind("workspace.revised")
class WorkspaceRevised(AgentEvent, frozen=True, gc=False):
    revision: str
    action: str = ""


@kind("workspace.undeclared_write")
class UndeclaredWrite(AgentEvent, frozen=True, gc=False):
    """An action changed files it had not declared."""

    action: str
    paths: tuple[str, ...]


@kind("workspace.diverged")
class WorkspaceDiverged(AgentEvent, frozen=True, gc=False):
    """The workspace is not what the log says."""

    expected: str
    found: str
