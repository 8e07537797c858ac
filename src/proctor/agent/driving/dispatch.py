"""Executes attempts that the log allows, and tells how they ended.

A confirmed stop is a known result. Everything that says nothing about the effect (a broken
connection, a time-out of something that cannot be stopped) is `lost`: the outcome is unknown. What
runs on after that is remembered: while it does, nobody may ask about it or do it again.
"""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any

from proctor.agent.driving.alarm import Alarm
from proctor.agent.driving.outcomes import Ended, Execution, outcome_at_once, outcome_of
from proctor.agent.driving.seam import awaited, call, is_given
from proctor.agent.driving.stopping import GRACE_S, stop_groups
from proctor.agent.tools import Cancel, Tool, ToolResult
from proctor.environments import tracking
from proctor.kernel import jsontext
from proctor.kernel.clock import Clock
from proctor.kernel.faults import fault_point

LATE_S = 60.0
_LOOK_S = 0.05


class Dispatcher:
    """Runs attempts; `ended` is called in the event loop, once for each execution, and once more
    (late) when one that could not be stopped ends after all."""

    def __init__(
        self,
        clock: Clock,
        ended: Callable[[Ended], None],
        grace_s: float = GRACE_S,
        late_s: float = LATE_S,
        lingering: "set[Execution] | None" = None,
    ) -> None:
        """`lingering`: this run's executions that run on in this process, also those of drivers
        before this one, which may be in another thread (`setup.lingering`)."""
        self._clock = clock
        self._ended = ended
        self._grace_s = grace_s
        self._late_s = late_s
        self._tasks: set[asyncio.Task[Any]] = set()
        self._alarm = Alarm(clock, self._look_at_time)
        self.running: dict[str, Execution] = {}
        # How they ended was told, and they run on.
        self.lingering: set[Execution] = set() if lingering is None else lingering

    def lives(self, action_id: str) -> bool:
        """Whether an execution of this action runs here, also one whose time was up."""
        return action_id in self.running or any(
            execution.action.id == action_id and execution.can_end
            for execution in tuple(self.lingering)
        )

    def stays(self, action_id: str | None = None) -> bool:
        """Whether the end of an execution (of this action) is still awaited after its time: for
        at most `late_s` seconds."""
        now = self._clock.monotonic()
        return any(
            now < execution.stays_until and action_id in (None, execution.action.id)
            for execution in tuple(self.lingering)
        )

    async def ends(self, action_id: str) -> bool:
        """Wait while an execution of this action is awaited; whether none runs any more."""
        here = asyncio.get_running_loop()
        while found := [e for e in tuple(self.lingering) if e.action.id == action_id and e.can_end]:
            left = max(e.stays_until for e in found) - self._clock.monotonic()
            works = [e.work for e in found if e.work is not None and e.work.get_loop() is here]
            if left <= 0:
                return False
            if works:
                await asyncio.wait(works, timeout=left, return_when=asyncio.FIRST_COMPLETED)
                await asyncio.sleep(0)  # its end is handed in first
            else:  # of a driver in another thread, whose tasks cannot be awaited here
                await self._clock.sleep(min(left, _LOOK_S))
        return True

    def abandon(self, action_id: str) -> None:
        """No longer wait for an execution, which runs on."""
        execution = self.running.pop(action_id, None)
        if execution is not None:
            execution.told = True
            self._linger(execution, 0.0)

    def _linger(self, execution: Execution, late_s: float) -> None:
        if execution.lives:
            execution.stays_until = self._clock.monotonic() + late_s
            self.lingering.add(execution)

    def start(self, execution: Execution) -> None:
        """Begin; the attempt's start is in the log. It has ended then if its tool waits for
        nothing."""
        if self._at_once(execution):
            return
        self.running[execution.action.id] = execution
        execution.began = self._clock.monotonic()
        work = asyncio.get_running_loop().create_task(self._execute(execution))
        execution.work = work
        self._tasks.add(work)
        work.add_done_callback(partial(self._done, execution))
        self._alarm.by(execution.began + execution.timeout_s)

    def _at_once(self, execution: Execution) -> bool:
        """Execute without a task; False: it has to be awaited."""
        action, began = execution.action, self._clock.monotonic()
        found: object
        try:
            at_once = execution.tool.at_once
            if not is_given(at_once, Tool.at_once):
                return False
            fault_point("agent.execute.begin")
            arguments = jsontext.copied(action.arguments)
            found = call(at_once, action.op_key, arguments, execution.context)
        except Exception as error:  # noqa: BLE001 - somebody else's code: it is told as the outcome
            found = error
        if found is None:
            return False
        fault_point("agent.execute.end")
        tool_ms = int((self._clock.monotonic() - began) * 1000)
        self._ended(outcome_at_once(execution, found, tool_ms))
        return True

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

    async def close(self, *, waits: bool = True) -> None:
        """Give up everything that still runs in this process and wait for its tasks. What cannot be
        cancelled is awaited (if `waits`) until it is late, and then runs on: whoever drives the run
        here next knows of it."""
        left = [*self.running.values(), *tuple(self.lingering)]
        for execution in left:  # also what it starts from now on
            execution.stopping = True
        for execution in left:
            await self._stop_processes(execution)
        self._alarm.stop()
        for execution in self.running.values():
            self._linger(execution, self._late_s)
        self.running.clear()
        kept = {e.work for e in tuple(self.lingering) if e.tool.cancel is Cancel.NONE}
        tasks = [task for task in self._tasks if not task.done() and task not in kept]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=self._grace_s)
        for action_id in {e.action.id for e in tuple(self.lingering) if waits and e.work in kept}:
            await self.ends(action_id)

    # --- one execution

    def _spawn(self, coroutine: Any) -> "asyncio.Task[Any]":
        task = asyncio.get_running_loop().create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def _done(self, execution: Execution, work: "asyncio.Task[ToolResult]") -> None:
        """Its coroutine has ended, in time or late."""
        self._tasks.discard(work)
        self.lingering.discard(execution)
        if execution.control_group and not execution.stopping:
            # What it left running on purpose keeps it; nothing is looked for there any more.
            tracking.leave(execution.control_group)
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
        self._linger(execution, self._late_s)
        tool_ms = int((self._clock.monotonic() - execution.began) * 1000)
        if self.running.get(execution.action.id) is execution:
            del self.running[execution.action.id]
        self._ended(outcome_of(execution, tool_ms))

    async def _execute(self, execution: Execution) -> ToolResult:
        action = execution.action
        fault_point("agent.execute.begin")
        execute = execution.tool.execute
        arguments = jsontext.copied(action.arguments)
        result = await awaited(execute, action.op_key, arguments, execution.context)
        fault_point("agent.execute.end")
        return result

    async def _stop(self, execution: Execution) -> tuple[str, ...]:
        assert execution.work is not None
        confirmed = True
        means: tuple[str, ...] = ("cancel",)
        if execution.tool.cancel is Cancel.PROCESS and execution.groups:
            confirmed, means = await self._stop_processes(execution)
        execution.work.cancel()
        await asyncio.wait({execution.work}, timeout=self._grace_s)
        if execution.tool.cancel is Cancel.PROCESS and execution.groups:
            # A group that was named meanwhile, or that one of these started and left behind.
            again, more = await self._stop_processes(execution)
            confirmed, means = again, (means + more if more else means)
        execution.confirmed = confirmed and execution.work.done()
        return means

    async def _stop_processes(self, execution: Execution) -> tuple[bool, tuple[str, ...]]:
        return await stop_groups(
            execution.groups,
            self._clock,
            self._grace_s,
            control_group=execution.control_group,
        )
