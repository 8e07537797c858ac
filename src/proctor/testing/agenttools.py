"""Tools for tests, one of every effect class, all with the same other side (`otherside`)."""

import asyncio
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from proctor.agent.core.locks import Access, Mode
from proctor.agent.tools import (
    Answer,
    Arguments,
    Cancel,
    Compensation,
    Effect,
    Need,
    QueryAnswer,
    Rejected,
    Tool,
    ToolContext,
    ToolResult,
)
from proctor.kernel.faults import fault_point
from proctor.testing.otherside import ask


class Asking(Tool):
    """Asks the other side for what it is for. Points `tool.before_effect`, `tool.after_effect`."""

    def __init__(self, socket: str) -> None:
        self._socket = socket

    async def execute(self, op_key: str, arguments: Arguments, context: ToolContext) -> ToolResult:
        fault_point("tool.before_effect")
        answer = await ask(self._socket, self._request(op_key, arguments))
        fault_point("tool.after_effect")
        return self._result(answer, arguments)

    @abstractmethod
    def _request(self, op_key: str, arguments: Arguments) -> dict[str, Any]: ...

    @abstractmethod
    def _result(self, answer: Mapping[str, Any], arguments: Arguments) -> ToolResult: ...


class Outside(Asking):
    """Has one effect outside for each execution. Arguments: `path` (what it writes, by default
    everything), `answer` (lose, refuse), `padding` (blanks in the result)."""

    once = False

    def resources(self, arguments: Arguments) -> Sequence[Access]:
        return (Access(Mode.WRITE, str(arguments.get("path", ""))),)

    def _request(self, op_key: str, arguments: Arguments) -> dict[str, Any]:
        return {"do": op_key, "once": self.once, "answer": arguments.get("answer")}

    def _result(self, answer: Mapping[str, Any], arguments: Arguments) -> ToolResult:
        if "refused" in answer:
            raise Rejected("the other side refused")
        text = f"effect {answer['effects']}" + " " * int(arguments.get("padding", 0))
        return ToolResult(text, {"effects": answer["effects"]})


class PureTool(Asking):
    """Reads; its executions are told to the other side all the same, under a name of their own."""

    name = "pure"
    effect = Effect.PURE

    def resources(self, arguments: Arguments) -> Sequence[Access]:
        return (Access(Mode.READ, str(arguments.get("path", ""))),)

    def _request(self, op_key: str, arguments: Arguments) -> dict[str, Any]:
        return {"do": f"read {op_key}"}

    def _result(self, answer: Mapping[str, Any], arguments: Arguments) -> ToolResult:
        return ToolResult("read" + " " * int(arguments.get("padding", 0)))


class IdempotentTool(Outside):
    """The other side recognises its key."""

    name = "idempotent"
    effect = Effect.IDEMPOTENT
    once = True


class QueryableTool(Outside):
    """The other side can be asked."""

    name = "queryable"
    effect = Effect.QUERYABLE

    async def query(self, op_key: str, arguments: Arguments) -> QueryAnswer:
        answer = await ask(self._socket, {"query": op_key})
        fault_point("tool.queried")
        if not answer["effects"]:
            return QueryAnswer(Answer.DID_NOT_HAPPEN)
        return QueryAnswer(Answer.HAPPENED, ToolResult(f"effect {answer['effects']}", answer))


class NonRepeatableTool(Outside):
    """Nobody knows but a person."""

    name = "non_repeatable"

    def compensate(self, arguments: Arguments, result: ToolResult) -> Compensation | None:
        return Compensation("idempotent", {"undo": True})


class AskTool(Tool):
    """A question to a person; the answer is its result."""

    name = "ask"
    effect = Effect.PURE

    def resources(self, arguments: Arguments) -> Sequence[Access]:
        return ()

    def needs(self, arguments: Arguments) -> Need | None:
        return Need("input", str(arguments["question"]), expires_s=arguments.get("expires_s"))

    async def execute(self, op_key: str, arguments: Arguments, context: ToolContext) -> ToolResult:
        return ToolResult(str(context.answer))


class TimerTool(Tool):
    """Lets time pass."""

    name = "timer"
    effect = Effect.PURE

    def resources(self, arguments: Arguments) -> Sequence[Access]:
        return ()

    def needs(self, arguments: Arguments) -> Need | None:
        return Need("timer", delay_s=float(arguments["delay_s"]))

    async def execute(self, op_key: str, arguments: Arguments, context: ToolContext) -> ToolResult:
        return ToolResult("time has passed")


class SubtaskTool(Tool):
    """Hands a goal to a run of its own; its result is the subtask's."""

    name = "subtask"
    effect = Effect.IDEMPOTENT

    def resources(self, arguments: Arguments) -> Sequence[Access]:
        return ()

    def needs(self, arguments: Arguments) -> Need | None:
        settings = {"limits": arguments["limits"]} if "limits" in arguments else {}
        return Need("child", goal=str(arguments["goal"]), settings=settings)

    async def execute(self, op_key: str, arguments: Arguments, context: ToolContext) -> ToolResult:
        return ToolResult(f"subtask {context.answer['state']}: {context.answer['result']}")


class ProcessTool(Tool):
    """Runs `argv` in a process group of its own. Point `tool.process_runs`."""

    name = "process"
    cancel = Cancel.PROCESS

    async def execute(self, op_key: str, arguments: Arguments, context: ToolContext) -> ToolResult:
        nowhere = asyncio.subprocess.DEVNULL
        process = await asyncio.create_subprocess_exec(
            *arguments["argv"],
            stdin=nowhere,
            stdout=nowhere,
            stderr=nowhere,
            start_new_session=True,
        )
        await context.started_group(process.pid)
        fault_point("tool.process_runs")
        code = await process.wait()
        return ToolResult(f"exit code {code}", {"exit_code": code})


class GateTool(Tool):
    """Waits inside an execution until the test opens it. `kind` sets effect and stopping."""

    name = "gate"
    effect = Effect.NON_REPEATABLE
    cancel = Cancel.COOPERATIVE

    def __init__(self, wait: Callable[[ToolContext], Any]) -> None:
        self._wait = wait

    def resources(self, arguments: Arguments) -> Sequence[Access]:
        return ()

    async def execute(self, op_key: str, arguments: Arguments, context: ToolContext) -> ToolResult:
        return ToolResult(str(await self._wait(context)))


def all_tools(socket: str) -> list[Tool]:
    """One of each."""
    return [
        PureTool(socket),
        IdempotentTool(socket),
        QueryableTool(socket),
        NonRepeatableTool(socket),
        AskTool(),
        TimerTool(),
        SubtaskTool(),
        ProcessTool(),
    ]
