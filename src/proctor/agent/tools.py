"""The contract of a tool: what it does to the world, and how the runtime asks about it.

The effect class decides what happens when the runtime does not know how an execution ended:

    pure             nothing happened outside; done again
    idempotent       the other side recognises the operation key; done again with the same key
    queryable        the other side is asked by key; done again only if it says "did not happen"
    non_repeatable   never done again by itself; a person says what happened (the default)
"""

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Any, ClassVar

from msgspec import Struct, field

from proctor.agent.core.locks import EVERYTHING, Access
from proctor.agent.schemas import Schema
from proctor.kernel.digest import of_json

DEFAULT_TIMEOUT_S = 120.0
DEFAULT_MAX_ATTEMPTS = 3
Arguments = Mapping[str, Any]


class Effect(StrEnum):
    """What a second execution would do to the world."""

    PURE = "pure"
    IDEMPOTENT = "idempotent"
    QUERYABLE = "queryable"
    NON_REPEATABLE = "non_repeatable"


class Cancel(StrEnum):
    """How an execution can be stopped.

    `none`: not at all, its end is awaited. `cooperative`: its coroutine is cancelled; what had
    been sent may have happened. `process`: all its doing is in process groups that it named with
    `context.started_group`; once they are gone nothing more can happen.
    """

    NONE = "none"
    COOPERATIVE = "cooperative"
    PROCESS = "process"


class RefusedBeforeEffect(Exception):
    """The tool failed before anything was sent: no effect, the arguments may be corrected."""


class Rejected(Exception):
    """The other side said no explicitly: this attempt had no effect."""


class StoppedWithoutEffect(Exception):
    """A cancelled execution ended and knows that it had no effect."""


class ToolResult(Struct, frozen=True):
    """What a finished execution yields. `text` is for the model; `evidence` stays in the record
    and must be JSON."""

    text: str
    evidence: Mapping[str, Any] = field(default_factory=dict)


class Answer(StrEnum):
    """What the other side knows about an operation key."""

    HAPPENED = "happened"
    DID_NOT_HAPPEN = "did_not_happen"
    UNKNOWN = "unknown"


class QueryAnswer(Struct, frozen=True):
    """`result` is given with HAPPENED when the other side still knows it."""

    answer: Answer
    result: ToolResult | None = None


class Need(Struct, frozen=True):
    """A condition to be met before an action can start.

    `kind` is `input` (a person answers `prompt`), `timer` (`delay_s` passes) or `child` (a subtask
    with `goal` ends). `expires_s`: seconds until an unanswered input fails the action; None never.
    """

    kind: str
    prompt: str = ""
    delay_s: float | None = None
    expires_s: float | None = None
    goal: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict)


class Compensation(Struct, frozen=True):
    """A call that undoes an effect."""

    tool: str
    arguments: Mapping[str, Any]


async def _nothing(pgid: int) -> None:
    return None


class ToolContext(Struct, frozen=True):
    """What an execution is told. `answer` is what its need was answered with.

    `await started_group(pgid)` records a process group before the tool relies on it, so that a
    later worker can stop what a dead one left running.
    """

    run_id: str
    action_id: str
    attempt: int
    fence: int
    answer: Any = None
    started_group: Callable[[int], Awaitable[None]] = _nothing


class Tool(ABC):
    """One tool. What a subclass does not declare has the most careful meaning.

    `parameters`: the JSON schema of its arguments; a call that does not fit never becomes an
    action. Nothing is fetched for it, and its patterns have no look-around.

    `timeout_s`: seconds an attempt may take (120 by default). `max_attempts`: executions of one
    action, 3 by default; a non_repeatable action has more than one only after a person said that
    it did not happen.
    """

    name: ClassVar[str]
    version: ClassVar[str] = "1"
    description: ClassVar[str] = ""
    parameters: ClassVar[Mapping[str, Any]] = {"type": "object"}
    effect: ClassVar[Effect] = Effect.NON_REPEATABLE
    cancel: ClassVar[Cancel] = Cancel.NONE
    timeout_s: ClassVar[float] = DEFAULT_TIMEOUT_S
    max_attempts: ClassVar[int] = DEFAULT_MAX_ATTEMPTS

    def problem(self, arguments: Arguments) -> str | None:
        """Why these arguments cannot be executed, or None. A call with a problem never becomes an
        action. Must be quick and without effects."""
        return None

    def resources(self, arguments: Arguments) -> Sequence[Access]:
        """What an execution reads and writes; undeclared it excludes everything else."""
        return EVERYTHING

    def needs(self, arguments: Arguments) -> Need | None:
        """A condition to be met first, or None."""
        return None

    async def revision(self, arguments: Arguments) -> str:
        """What the resource is now (a hash, a version). An approval is bound to it."""
        return ""

    async def preconditions(self, arguments: Arguments) -> str | None:
        """Why the world does not allow the action now (a changed file, an old version), or None.
        Asked before every attempt; a reason ends the action without effect."""
        return None

    def at_once(self, op_key: str, arguments: Arguments, context: ToolContext) -> ToolResult | None:
        """The result of an execution that waits for nothing, else None (the default): then
        `execute` is awaited, so nothing may have been done before None is returned.

        Called in the event loop and without a time limit: for what takes well under a millisecond
        in this process. Effect classes, locks and records are those of `execute`, and so are the
        exceptions.
        """
        return None

    @abstractmethod
    async def execute(self, op_key: str, arguments: Arguments, context: ToolContext) -> ToolResult:
        """Do it. `op_key` is passed on as the other side's idempotency key.

        Raises RefusedBeforeEffect, Rejected or StoppedWithoutEffect when there was no effect. Any
        other exception says nothing about the effect: the outcome is unknown.
        """

    async def query(self, op_key: str, arguments: Arguments) -> QueryAnswer:
        """Ask the other side what became of `op_key`. Every queryable tool overrides it; an
        exception means that there is no answer yet, and it is asked again later."""
        return QueryAnswer(Answer.UNKNOWN)

    def verdict(self, arguments: Arguments, result: ToolResult) -> str | None:
        """Why a result is not acceptable, or None. Quick and without effects."""
        return None

    def compensate(self, arguments: Arguments, result: ToolResult) -> "Compensation | None":
        """The action that undoes a finished one, or None. It is an action of its own, with a key
        of its own, and may fail."""
        return None


class Toolbox:
    """The tools of a run by name. Raises ValueError for two of one name, or one that is not
    usable as declared."""

    def __init__(self, tools: Sequence[Tool] = ()) -> None:
        self._tools: dict[str, Tool] = {}
        self._schemas: dict[str, Schema] = {}
        for tool in tools:
            if tool.name in self._tools:
                raise ValueError(f"two tools are named {tool.name!r}")
            if tool.effect is Effect.QUERYABLE and type(tool).query is Tool.query:
                raise ValueError(f"tool {tool.name!r} is queryable and has no query()")
            if not tool.timeout_s > 0 or tool.max_attempts < 1:
                raise ValueError(f"tool {tool.name!r}: timeout_s and max_attempts must be above 0")
            self._tools[tool.name] = tool
            self._schemas[tool.name] = Schema(tool.parameters)

    def get(self, name: str) -> Tool | None:
        """The tool of this name, or None."""
        return self._tools.get(name)

    def misfit(self, tool: Tool, arguments: Arguments) -> str | None:
        """Why these arguments do not fit what the tool declares as `parameters`, or None."""
        return self._schemas[tool.name].problem(arguments)

    def __iter__(self) -> Iterator[Tool]:
        return iter(self._tools.values())

    def digest(self) -> str:
        """What identifies the tools: names, versions, effects."""
        return of_json(sorted([t.name, t.version, t.effect.value] for t in self))
