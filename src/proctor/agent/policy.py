"""What to do next: the seam above the runtime. A policy proposes, the runtime disposes."""

import inspect
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from typing import ClassVar, TypeAlias

from msgspec import Struct

from proctor.agent.context import Message
from proctor.agent.core.budgets import ONE_STEP, Cost
from proctor.models.contract import ToolCall


class Proposal(Struct, frozen=True):
    """A finished turn. Without calls, `text` is the candidate for the result. `cost` None: what
    the turn had reserved."""

    text: str = ""
    calls: tuple[ToolCall, ...] = ()
    cost: Cost | None = None


class TurnContext(Struct, frozen=True):
    """Which turn is asked for (from 1) of which run; `left_steps` of its budget, None unlimited.
    `replied`: how many turns before it had a reply, None if that was not counted."""

    run_id: str
    turn: int
    left_steps: int | None = None
    replied: int | None = None


class Policy(ABC):
    """A loop or graph above the runtime. Keeps nothing that matters: after a crash another
    instance is asked for the next turn with the same conversation."""

    name: ClassVar[str] = "policy"
    version: ClassVar[str] = "1"

    def worst_case(self, messages: Sequence[Message]) -> Cost:
        """What one turn can cost at most; reserved before it is asked for."""
        return ONE_STEP

    def at_once(self, messages: Sequence[Message], context: TurnContext) -> Proposal | None:
        """The next turn if it is known without asking anybody, else None (the default): then
        `propose` is awaited.

        `messages` are made when they are looked at; `propose` is given a list.

        For scripts and graphs. Must be quick and have no effects: the request, the reply and the
        start of what it asks for are recorded together, so after a crash it may be asked again.
        """
        return None

    @abstractmethod
    async def propose(self, messages: Sequence[Message], context: TurnContext) -> Proposal:
        """The next turn. Cancelled when the run is. An exception closes the turn, whose whole
        reservation then counts as spent, and another turn is asked for."""


Step: TypeAlias = (
    Proposal
    | Callable[[Sequence[Message]], Proposal]
    | Callable[[Sequence[Message]], Awaitable[Proposal]]
)


class ScriptedPolicy(Policy):
    """The n-th reply is step n of a script: a proposal, or a function of the conversation. A reply
    that was lost is given again. A script that is used up proposes its end."""

    name = "scripted"

    def __init__(self, steps: Sequence[Step], end: str = "done") -> None:
        self._steps = tuple(steps)
        self._end = end

    def at_once(self, messages: Sequence[Message], context: TurnContext) -> Proposal | None:
        step = self._step(messages, context)
        return step if isinstance(step, Proposal) else None

    def _step(self, messages: Sequence[Message], context: TurnContext) -> Step:
        replied = context.replied
        if replied is None:
            replied = sum(1 for message in messages if message["role"] == "assistant")
        return self._steps[replied] if replied < len(self._steps) else Proposal(self._end)

    async def propose(self, messages: Sequence[Message], context: TurnContext) -> Proposal:
        step = self._step(messages, context)
        if isinstance(step, Proposal):
            return step
        made = step(messages)
        if inspect.isawaitable(made):
            made = await made
        return made
