"""Executes attempts that the log allows, and tells truthfully how they ended.

A confirmed stop is a known result. Everything that says nothing about the effect (a broken
connection, a time-out of something that cannot be stopped) is `lost`: the outcome is unknown.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from proctor.agent.core.view import ActionView
from proctor.agent.driving.alarm import Alarm
from proctor.agent.driving.stopping import GRACE_S, stop_groups
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
from proctor.kernel.clock import Clock
from proctor.kernel.faults import fault_point

TEXT_LIMIT = 16_384
"""Characters of a result that stay in the log; a longer one is kept as a blob."""


@dataclass(frozen=True, slots=True)
class Ended:
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
        self.work: asyncio.Task[ToolResult] | None = None
        self.began = 0.0
        self.told = False  # how it ended was handed in
        self.stopping = False  # whoever stops it hands in how it ended
        self.confirmed = False
        self.stopped = asyncio.Event()


class Dispatcher:
    """Runs attempts; `ended` is called in the event loop, once for each execution, and once more
    (late) when one that could not be stopped ends after all."""

    def __init__(
        self, clock: Clock, ended: Callable[[Ended], None], grace_s: float = GRACE_S
    ) -> None:
        self._clock = clock
        self._ended = ended
        self._grace_s = grace_s
        self._tasks: set[asyncio.Task[Any]] = set()
        self._alarm = Alarm(clock, self._look_at_time)
        self.running: dict[str, Execution] = {}

    def start(self, execution: Execution) -> None:
        """Begin; the attempt's start is in the log."""
        self.running[execution.action.id] = execution
        execution.began = self._clock.monotonic()
        work = asyncio.get_running_loop().create_task(self._execute(execution))
        execution.work = work
        self._tasks.add(work)
        work.add_done_callback(partial(self._done, execution))
        self._alarm.by(execution.began + execution.timeout_s)

    async def stop(self, action_id: str, tell: Callable[[str, tuple[str, ...]], None]) -> None:
        """Try to stop an execution. `tell(answer, means)` is called with confirmed, refused or
        timed_out before `ended` is called with how it ended."""
        execution = self.running.get(action_id)
        if execution is None or execution.work is None or execution.work.done():
            tell("confirmed", ())
        elif execution.tool.cancel is Cancel.NONE:
            tell("refused", ())
        elif execution.stopping:  # its time is up: that stop is under way
            await execution.stopped.wait()
            tell("confirmed" if execution.confirmed else "timed_out", ())
        else:
            execution.stopping = True
            means = await self._stop(execution)
            tell("confirmed" if execution.confirmed else "timed_out", means)
            execution.stopped.set()
            self._tell(execution)

    async def close(self) -> None:
        """Give up everything that still runs in this process and wait for its tasks."""
        for execution in list(self.running.values()):
            if execution.groups:
                await stop_groups(execution.groups, self._clock, self._grace_s)
        self._alarm.stop()
        tasks = [task for task in self._tasks if not task.done()]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=self._grace_s)

    # --- one execution

    def _spawn(self, coroutine: Any) -> "asyncio.Task[Any]":
        task = asyncio.get_running_loop().create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def _done(self, execution: Execution, work: "asyncio.Task[ToolResult]") -> None:
        """Its coroutine has ended, in time or late."""
        self._tasks.discard(work)
        if execution.told or not execution.stopping:
            self._tell(execution)

    def _look_at_time(self) -> None:
        now = self._clock.monotonic()
        for execution in list(self.running.values()):
            ends = execution.began + execution.timeout_s
            if ends > now:
                self._alarm.by(ends)
            elif not execution.stopping:
                execution.stopping = True
                self._spawn(self._time_out(execution))

    async def _time_out(self, execution: Execution) -> None:
        assert execution.work is not None
        if execution.work.done():  # just in time
            execution.stopping, execution.confirmed = False, True
        elif execution.tool.cancel is not Cancel.NONE:
            await self._stop(execution)
        execution.stopped.set()
        self._tell(execution)

    def _tell(self, execution: Execution) -> None:
        execution.told = True
        tool_ms = int((self._clock.monotonic() - execution.began) * 1000)
        if self.running.get(execution.action.id) is execution:
            del self.running[execution.action.id]
        self._ended(self._outcome(execution, tool_ms))

    async def _execute(self, execution: Execution) -> ToolResult:
        action = execution.action
        fault_point("agent.execute.begin")
        result = await execution.tool.execute(action.op_key, action.arguments, execution.context)
        fault_point("agent.execute.end")
        return result

    async def _stop(self, execution: Execution) -> tuple[str, ...]:
        assert execution.work is not None
        confirmed = True
        means: tuple[str, ...] = ("cancel",)
        if execution.tool.cancel is Cancel.PROCESS and execution.groups:
            confirmed, means = await stop_groups(execution.groups, self._clock, self._grace_s)
        execution.work.cancel()
        await asyncio.wait({execution.work}, timeout=self._grace_s)
        execution.confirmed = confirmed and execution.work.done()
        return means

    # --- what it came to

    def _outcome(self, execution: Execution, tool_ms: int) -> Ended:
        action, context = execution.action, execution.context
        work = execution.work
        assert work is not None
        head = (action.id, context.attempt, context.fence)
        limit = f"no end after {execution.timeout_s:g} s"
        if not work.done():
            if execution.tool.effect is Effect.PURE:
                return Ended(*head, "result", limit, timed_out=True, tool_ms=tool_ms)
            return Ended(*head, "lost", limit, tool_ms=tool_ms)
        if work.cancelled():
            return self._stopped(execution, head, tool_ms)
        error = work.exception()
        killed = execution.stopping and execution.tool.cancel is Cancel.PROCESS
        if error is None:
            ended = self._result(execution, head, work.result(), tool_ms)
            return replace(ended, timed_out=True) if killed and ended.outcome == "result" else ended
        text = _said(error)
        if isinstance(error, RefusedBeforeEffect):
            return Ended(*head, "refused", text, tool_ms=tool_ms)
        if isinstance(error, Rejected):
            return Ended(*head, "rejected", text, tool_ms=tool_ms)
        if isinstance(error, StoppedWithoutEffect):
            return Ended(*head, "stopped_without_effect", text, tool_ms=tool_ms)
        if killed and execution.confirmed:  # whatever it made of that: its processes are gone
            return self._stopped(execution, head, tool_ms)
        return Ended(*head, "lost", text, tool_ms=tool_ms)

    def _stopped(self, execution: Execution, head: tuple[str, int, int], tool_ms: int) -> Ended:
        """A coroutine that was cancelled: what is known depends on where its doing was."""
        tool = execution.tool
        text = f"stopped after {tool_ms / 1000:.1f} s"
        if tool.effect is Effect.PURE or (tool.cancel is Cancel.PROCESS and execution.confirmed):
            return Ended(*head, "result", text, timed_out=True, tool_ms=tool_ms)
        return Ended(*head, "lost", text, tool_ms=tool_ms)

    def _result(
        self, execution: Execution, head: tuple[str, int, int], result: Any, tool_ms: int
    ) -> Ended:
        if not isinstance(result, ToolResult):
            text = f"the tool returned {type(result).__name__}, not ToolResult"
            return Ended(*head, "lost", text, tool_ms=tool_ms)
        evidence = jsontext.sanitized(dict(result.evidence))
        try:
            objection = execution.tool.verdict(execution.action.arguments, result)
        except Exception as error:  # noqa: BLE001 - a tool's own check failed: that is its verdict
            objection = f"its check failed: {_said(error)}"
        text, whole = result.text, None
        if len(text) > TEXT_LIMIT:
            half = TEXT_LIMIT // 2
            cut = f"\n[… {len(text) - TEXT_LIMIT} characters left out …]\n"
            text, whole = text[:half] + cut + text[-half:], text
        return Ended(
            *head,
            "result",
            text,
            evidence,
            tool_ms=tool_ms,
            objection=objection,
            whole=whole,
        )


def _said(error: BaseException) -> str:
    text = str(error) or type(error).__name__
    return text if len(text) <= 2000 else text[:2000] + "…"
