"""The tools of `agenttools` that have an effect outside, as tools that wait for nothing
(`Tool.at_once`): `pure_at_once`, `idempotent_at_once` and so on. Whoever asks what happened is
answered as by the others."""

from proctor.agent.tools import Arguments, Tool, ToolContext, ToolResult
from proctor.kernel.faults import fault_point
from proctor.testing.agenttools import (
    Asking,
    IdempotentTool,
    NonRepeatableTool,
    PureTool,
    QueryableTool,
)
from proctor.testing.otherside import ask_now


class _AtOnce(Asking):
    def at_once(self, op_key: str, arguments: Arguments, context: ToolContext) -> ToolResult | None:
        fault_point("tool.before_effect")
        answer = ask_now(self._socket, self._request(op_key, arguments))
        fault_point("tool.after_effect")
        return self._result(answer, arguments)


class PureAtOnce(_AtOnce, PureTool):
    """Reads."""

    name = "pure_at_once"


class IdempotentAtOnce(_AtOnce, IdempotentTool):
    """The other side recognises its key."""

    name = "idempotent_at_once"


class QueryableAtOnce(_AtOnce, QueryableTool):
    """The other side can be asked."""

    name = "queryable_at_once"


class NonRepeatableAtOnce(_AtOnce, NonRepeatableTool):
    """Nobody knows but a person."""

    name = "non_repeatable_at_once"


def at_once_tools(socket: str) -> list[Tool]:
    """One of each effect class."""
    kinds = (PureAtOnce, IdempotentAtOnce, QueryableAtOnce, NonRepeatableAtOnce)
    return [kind(socket) for kind in kinds]
