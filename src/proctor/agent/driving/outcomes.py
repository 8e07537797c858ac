"""What an execution came to, told truthfully. Whatever a tool returns or raises, there is an
outcome: one that is lost here would be lost for good."""

import asyncio
from collections.abc import Mapping
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from proctor.agent.core.view import ActionView
from proctor.agent.driving.seam import call, is_given, objection, said
from proctor.agent.tools import (
    Cancel,
    Effect,
    RefusedBeforeEffect,
    Rejected,
    StoppedWithoutEffect,
    Tool,
    ToolContext,
    ToolResult,
)
from proctor.kernel import jsontext

TEXT_LIMIT = 16_384
"""Characters of a result that stay in the log; a longer one is kept as a blob."""
EVIDENCE_LIMIT = 65_536
"""Characters of evidence, as JSON, that stay in the log; of larger one, its short entries do."""
_SHORT = 1000


class Ended(Struct, frozen=True, gc=False):
    """What one execution came to; the fields are those of `EndAttempt`. `whole`: the text when it
    is too long for the log."""

    action: str
    attempt: int
    fence: int
    outcome: str
    text: str = ""
    evidence: dict[str, Any] = field(default_factory=dict)
    timed_out: bool = False
    tool_ms: int = 0
    objection: str | None = None
    whole: str | None = None


class Execution:
    """One attempt that runs in a task of this process."""

    def __init__(
        self, tool: Tool, action: ActionView, context: ToolContext, timeout_s: float
    ) -> None:
        self.tool = tool
        self.action = action
        self.context = context
        self.timeout_s = timeout_s
        self.groups: set[int] = set()
        self.control_group = ""  # the folder of the one that holds what leaves these; else empty
        self.work: asyncio.Task[ToolResult] | None = None
        self.began = 0.0
        self.told = False  # how it ended was handed in
        self.stays_until = 0.0  # how long it is waited for when it runs on after that
        self.stopping = False  # whoever stops it hands in how it ended
        self.confirmed = False
        self._stopped: asyncio.Event | None = None

    @property
    def stopped(self) -> asyncio.Event:
        """Set when whoever stops it has handed in how that went."""
        if self._stopped is None:
            self._stopped = asyncio.Event()
        return self._stopped

    @property
    def lives(self) -> bool:
        """Whether its coroutine still runs."""
        return self.work is not None and not self.work.done()

    @property
    def can_end(self) -> bool:
        """Whether its coroutine can go on at all: the loop of a thread that has ended runs none."""
        return self.work is not None and not self.work.get_loop().is_closed()


def outcome_of(execution: Execution, tool_ms: int) -> Ended:
    """The outcome as it is known now. Never raises."""
    action, context, work = execution.action, execution.context, execution.work
    assert work is not None
    head = (action.id, context.attempt, context.fence)
    try:
        return _outcome(execution, work, head, tool_ms)
    except Exception as error:  # noqa: BLE001 - the tool's own values misbehave
        text = f"its result cannot be read: {said(error)}"
        return Ended(*head, "lost", text, tool_ms=tool_ms)


def outcome_at_once(execution: Execution, found: object, tool_ms: int) -> Ended:
    """The outcome of an execution that was not awaited: what it returned, or the exception that it
    raised. Never raises."""
    context = execution.context
    head = (execution.action.id, context.attempt, context.fence)
    try:
        if isinstance(found, Exception):
            return _raised(execution, head, found, tool_ms)
        return _result(execution, head, found, tool_ms)
    except Exception as error:  # noqa: BLE001 - the tool's own values misbehave
        text = f"its result cannot be read: {said(error)}"
        return Ended(*head, "lost", text, tool_ms=tool_ms)


def _outcome(
    execution: Execution, work: "asyncio.Task[ToolResult]", head: tuple[str, int, int], tool_ms: int
) -> Ended:
    limit = f"no end after {execution.timeout_s:g} s"
    if not work.done():
        if execution.tool.effect is Effect.PURE:
            return Ended(*head, "result", limit, timed_out=True, tool_ms=tool_ms)
        return Ended(*head, "lost", limit, tool_ms=tool_ms)
    if work.cancelled():
        return _stopped(execution, head, tool_ms)
    error = work.exception()
    if error is None:
        killed = execution.stopping and execution.tool.cancel is Cancel.PROCESS
        ended = _result(execution, head, work.result(), tool_ms)
        return replace(ended, timed_out=True) if killed and ended.outcome == "result" else ended
    return _raised(execution, head, error, tool_ms)


def _raised(
    execution: Execution, head: tuple[str, int, int], error: BaseException, tool_ms: int
) -> Ended:
    text = said(error)
    if isinstance(error, RefusedBeforeEffect):
        return Ended(*head, "refused", text, tool_ms=tool_ms)
    if isinstance(error, Rejected):
        return Ended(*head, "rejected", text, tool_ms=tool_ms)
    if isinstance(error, StoppedWithoutEffect):
        return Ended(*head, "stopped_without_effect", text, tool_ms=tool_ms)
    killed = execution.stopping and execution.tool.cancel is Cancel.PROCESS
    if killed and execution.confirmed:  # whatever it made of that: its processes are gone
        return _stopped(execution, head, tool_ms)
    return Ended(*head, "lost", text, tool_ms=tool_ms)


def _stopped(execution: Execution, head: tuple[str, int, int], tool_ms: int) -> Ended:
    """A coroutine that was cancelled: what is known depends on where its doing was."""
    tool = execution.tool
    text = f"stopped after {tool_ms / 1000:.1f} s"
    if tool.effect is Effect.PURE or (tool.cancel is Cancel.PROCESS and execution.confirmed):
        return Ended(*head, "result", text, timed_out=True, tool_ms=tool_ms)
    return Ended(*head, "lost", text, tool_ms=tool_ms)


def _result(execution: Execution, head: tuple[str, int, int], result: Any, tool_ms: int) -> Ended:
    if not isinstance(result, ToolResult):
        text = f"the tool returned {type(result).__name__}, not ToolResult"
        return Ended(*head, "lost", text, tool_ms=tool_ms)
    problem = None
    if is_given(execution.tool.verdict, Tool.verdict):
        problem = _judged(execution, result)
    text, whole = cut(result.text)
    empty = type(result.evidence) is dict and not result.evidence
    evidence = {} if empty else bounded(result.evidence)
    return Ended(*head, "result", text, evidence, tool_ms=tool_ms, objection=problem, whole=whole)


def _judged(execution: Execution, result: ToolResult) -> str | None:
    """What the tool's own check says against a result."""
    try:
        return objection(
            call(execution.tool.verdict, jsontext.copied(execution.action.arguments), result)
        )
    except Exception as error:  # noqa: BLE001 - a tool's own check failed: that is its verdict
        return f"its check failed: {said(error)}"


def cut(given: object) -> tuple[str, str | None]:
    """A result's text as it stays in the log, and the whole of it if that is longer."""
    text = given if type(given) is str else f"[the result's text was {type(given).__name__}]"
    if len(text) <= TEXT_LIMIT:
        return text, None
    half = TEXT_LIMIT // 2
    left_out = f"\n[… {len(text) - TEXT_LIMIT} characters left out …]\n"
    return text[:half] + left_out + text[-half:], text


def bounded(given: object) -> dict[str, Any]:
    """Evidence as JSON that the log can hold: of what is too large, only the short entries."""
    if not isinstance(given, Mapping):
        return {"left_out": f"evidence was {type(given).__name__}, not a mapping"}
    evidence: dict[str, Any] = jsontext.sanitized(dict(given), EVIDENCE_LIMIT // 4)
    if not evidence or (size := len(jsontext.dumps(evidence))) <= EVIDENCE_LIMIT:
        return evidence
    short: dict[str, Any] = {}
    room = EVIDENCE_LIMIT
    for name, value in evidence.items():
        length = len(jsontext.dumps([name, value]))
        if length <= _SHORT and length <= room:
            short[name] = value
            room -= length
    return {**short, "left_out": f"evidence of {size} characters", "evidence_chars": size}
