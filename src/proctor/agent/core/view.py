"""The current view of a run: what the log amounts to now. A value; `evolve` makes the next one."""

from collections.abc import Mapping
from typing import Any, TypeVar

from msgspec import Struct, field

from proctor.agent.core.budgets import Budgets
from proctor.agent.core.deaths import too_many
from proctor.agent.core.locks import Access
from proctor.agent.core.sequence import Sequence32
from proctor.kernel.agent_states import ENDED_RUN_STATES, SETTLED_ACTION_STATES

Json = Mapping[str, Any]


class ActionView(Struct, frozen=True, gc=False):
    """One action. `reservation` names the budget entry of its last attempt; `effects` and `stop`
    are the answers of a cancellation; `seq_*` are places in the log. `past`: what its attempts did
    beyond doubt (done), or that one of them may have had an effect (unknown). `spawned`: the run of
    its subtask. `unknown_ms` (UTC): since when its outcome is not known."""

    id: str
    turn: int
    call_id: str
    tool: str
    tool_version: str
    effect: str
    arguments: Json
    op_key: str
    resources: tuple[Access, ...]
    max_attempts: int
    accepted_seq: int
    compensates: str | None = None
    state: str = "ready"
    attempts: int = 0
    fence: int = 0
    wait: str | None = None
    met: tuple[str, ...] = ()
    answer: Any = None
    approved: str = ""
    text: str = ""
    evidence: Json = field(default_factory=dict)
    timed_out: bool = False
    reason: str = ""
    handover: Json = field(default_factory=dict)
    started_seq: int = 0
    ended_seq: int = 0
    stop: str = ""
    effects: str = ""
    processes: tuple[Json, ...] = ()
    past: str = ""
    spawned: str = ""
    approved_until: int | None = None
    unknown_ms: int = 0

    @property
    def open(self) -> bool:
        """Whether its state is not final."""
        return self.state not in SETTLED_ACTION_STATES

    @property
    def source(self) -> str:
        """The budget entry of the attempt that is or was running."""
        return f"{self.id}.{self.attempts}"


class WaitView(Struct, frozen=True, gc=False):
    """An open or closed wait; `state` is open or how it was closed."""

    id: str
    kind: str
    action: str | None
    subject: str
    prompt: str
    due_ms: int | None
    spec: Json
    opened_seq: int
    state: str = "open"
    by: str = ""
    value: Any = None


class TurnView(Struct, frozen=True, gc=False):
    """One request to the policy. `state`: open, replied, closed. `outcomes` has an entry for each
    call: `("action", id)` or `("refused", reason)`. `abandoned`: as in `TurnClosed`."""

    number: int
    state: str = "open"
    text: str = ""
    calls: tuple[Json, ...] = ()
    outcomes: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    reason: str = ""
    abandoned: bool = False


class CancelView(Struct, frozen=True, gc=False):
    """A cancellation that was requested."""

    by: str
    reason: str
    seq: int
    at_ms: int
    compensate: bool = False


class View(Struct, frozen=True, gc=False):
    """A run as its log says it is. `version` is the seq of the last event it contains.

    `deaths`: workers in a row that died while they drove it (`deaths.py`).
    `items` is the conversation in order: `("turn", number)`, `("message", text)` and `("judged",
    reasons)`. `open_actions` and `open_waits` are short; everything else grows without copying.
    """

    run_id: str = ""
    version: int = 0
    state: str = ""
    task: Json = field(default_factory=dict)
    config_digest: str = ""
    epoch: int = 0
    on_unknown: str = "wait"
    parent: Json | None = None
    owner: str | None = None
    fence: int = 0
    last_ms: int = 0
    candidate: str | None = None
    corrections: int = 0
    max_corrections: int = 2
    checks: tuple[Json, ...] = ()
    aim: str = ""
    aim_reason: str = ""
    closing_ms: int = 0
    trouble: str = ""
    unsettled: tuple[Json, ...] = ()
    turns: Sequence32[TurnView] = field(default_factory=Sequence32)
    items: Sequence32[tuple[str, Any]] = field(default_factory=Sequence32)
    actions: Sequence32[ActionView] = field(default_factory=Sequence32)
    open_actions: tuple[str, ...] = ()
    waits: Sequence32[WaitView] = field(default_factory=Sequence32)
    open_waits: tuple[str, ...] = ()
    budgets: Budgets = Budgets()
    cancel: CancelView | None = None
    grants: Mapping[str, int | None] = field(default_factory=dict)
    revision: str = ""
    deaths: int = 0

    @property
    def held(self) -> bool:
        """Whether too many workers died of it: no code of its policy or tools is run any more."""
        return too_many(self.deaths)

    @property
    def ended(self) -> bool:
        """Whether nothing drives the run any more."""
        return self.state in ENDED_RUN_STATES

    def action(self, action_id: str) -> ActionView | None:
        """The action of this id, or None."""
        return _named(self.actions, action_id)

    def wait(self, wait_id: str) -> WaitView | None:
        """The wait of this id, or None."""
        return _named(self.waits, wait_id)

    def turn(self, number: int) -> TurnView | None:
        """The turn of this number (from 1), or None."""
        turns = self.turns
        place = number - 1 - turns.before
        if place >= 0:
            return turns.tail[place] if place < len(turns.tail) else None
        return turns[number - 1] if number > 0 else None

    def unfinished(self, *states: str) -> list[ActionView]:
        """Open actions in these states (all of them by default), in order of acceptance."""
        if not self.open_actions:
            return []
        first, last = int(self.open_actions[0][1:]), int(self.open_actions[-1][1:])
        if 8 < last - first < 2 * len(self.open_actions):  # close together, as of one turn
            near = self.actions.span(first - 1, last)
            found = [a for a in near if a.state not in SETTLED_ACTION_STATES]
        else:
            found = [self.actions[int(name[1:]) - 1] for name in self.open_actions]
        return [a for a in found if a.state in states] if states else found

    def waiting(self, *kinds: str) -> list[WaitView]:
        """Open waits of these kinds (all of them by default), in order of opening."""
        if not self.open_waits:
            return []
        found = [self.waits[int(name[1:]) - 1] for name in self.open_waits]
        return [w for w in found if w.kind in kinds] if kinds else found

    @property
    def open_turn(self) -> TurnView | None:
        """The request that waits for its reply, or None."""
        last = self.turns.last
        return last if last is not None and last.state == "open" else None


N = TypeVar("N", ActionView, WaitView)


def _named(items: Sequence32[N], name: str) -> N | None:
    """The item that an id such as `a12` names: the twelfth; None for any other text."""
    try:
        index = int(name[1:]) - 1
        place = index - items.before
        found: N = items.tail[place] if place >= 0 else items[index]  # nearly always a new one
    except (ValueError, IndexError):
        return None
    return found if found.id == name else None
