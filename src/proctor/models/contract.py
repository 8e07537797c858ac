"""The contract of a model adapter: one chat completion at a time."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, ClassVar, TypeAlias


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens and money of one call, or a sum of calls. `input_tokens` includes cached ones.

    `cost_usd` is an exact decimal, None when no price is known.
    """

    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    reasoning_tokens: int = 0
    requests: int = 0
    cost_usd: Decimal | None = None

    def __add__(self, other: "Usage") -> "Usage":
        cost = self.cost_usd
        if other.cost_usd is not None:
            cost = other.cost_usd if cost is None else cost + other.cost_usd
        return Usage(
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.cached_tokens + other.cached_tokens,
            self.reasoning_tokens + other.reasoning_tokens,
            self.requests + other.requests,
            cost,
        )

    @classmethod
    def total(cls, usages: Sequence["Usage"]) -> "Usage":
        """The sum of many."""
        costs = [u.cost_usd for u in usages if u.cost_usd is not None]
        return cls(
            sum([u.input_tokens for u in usages]),
            sum([u.output_tokens for u in usages]),
            sum([u.cached_tokens for u in usages]),
            sum([u.reasoning_tokens for u in usages]),
            sum([u.requests for u in usages]),
            sum(costs, Decimal(0)) if costs else None,
        )

    def to_json(self) -> dict[str, Any]:
        return {
            "input_tokens": self.input_tokens,
            "output_tokens": self.output_tokens,
            "cached_tokens": self.cached_tokens,
            "reasoning_tokens": self.reasoning_tokens,
            "requests": self.requests,
            "cost_usd": None if self.cost_usd is None else format(self.cost_usd, "f"),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "Usage":
        cost = data.get("cost_usd")
        return cls(
            int(data["input_tokens"]),
            int(data["output_tokens"]),
            int(data.get("cached_tokens", 0)),
            int(data.get("reasoning_tokens", 0)),
            int(data.get("requests", 0)),
            None if cost is None else Decimal(cost),
        )


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call the model asks for; `arguments` is the parsed object."""

    id: str
    name: str
    arguments: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ModelReply:
    """A finished turn. `finish_reason`: stop, length, tool_calls, content_filter."""

    text: str
    usage: Usage = Usage(requests=1)
    tool_calls: tuple[ToolCall, ...] = ()
    reasoning: str | None = None
    finish_reason: str = "stop"
    extra: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CallContext:
    """Who asks: lets scripted models answer by task, and limits and budgets be charged."""

    task_id: str
    attempt: int
    reference: str | None = None


Message: TypeAlias = Mapping[str, Any]
"""`{"role": "system|user|assistant|tool", "content": …}` as in chat completions."""


class Model(ABC):
    """An endpoint plus parameters. `name` is the model's id as the user wrote it, no adapter.

    An adapter can also be made with an empty name, to list it; it then makes no calls.
    """

    id: ClassVar[str]
    version: ClassVar[str] = "1"
    Options: ClassVar[type[Any] | None] = None

    def __init__(self, name: str, options: Any = None) -> None:
        self.name = name
        self.options = options

    def requirements(self) -> list[str]:
        """What is missing for the adapter to work; empty when ready."""
        return []

    def settings(self) -> dict[str, Any]:
        """What identifies this model for reuse: everything that can change an answer."""
        return {"adapter": self.id, "version": self.version, "name": self.name}

    @abstractmethod
    async def complete(
        self, messages: Sequence[Message], *, context: CallContext, **parameters: Any
    ) -> ModelReply:
        """One completion. Raises ModelFault; `permanent` for errors that must not be re-sent."""

    def worst_case(
        self, messages: Sequence[Message], parameters: Mapping[str, Any]
    ) -> Usage | None:
        """An upper bound of what one call can use and cost, for budgets; None when unknown.

        `cost_usd` is None when no price is known.
        """
        return None

    async def close(self) -> None:
        """Release connections. Idempotent."""
