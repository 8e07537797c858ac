"""Process groups of an execution: recorded before the tool relies on them, and stopped at once when
the execution is being stopped itself."""

import asyncio
import os
import signal

from proctor.agent.core import commands as cmd
from proctor.agent.core.commands import Refusal
from proctor.agent.driving.desk import Desk
from proctor.agent.driving.outcomes import Execution
from proctor.agent.driving.stopping import stop_groups
from proctor.environments import proctable, tracking
from proctor.kernel.faults import fault_point


class ExecutionStopped(Exception):
    """The execution is being stopped, or has ended: it may start no processes any more."""


async def started_group(desk: Desk, execution: Execution, pgid: int) -> None:
    """Record a group. Raises ExecutionStopped, after it has killed the group, when the execution
    may not go on; ValueError for what is no group of its own."""
    if type(pgid) is not int or pgid <= 1 or pgid == os.getpgrp():
        raise ValueError(f"{pgid!r:.50} is not a process group that the tool has started")
    execution.groups.add(pgid)
    if not execution.control_group:
        execution.control_group = tracking.new_group() or ""
        fault_point("agent.group.made")
    if execution.control_group:
        tracking.take_in(execution.control_group, pgid)
    if not _may_start(execution) or not await _recorded(desk, execution, pgid):
        await _kill(desk, execution, pgid)
    if not _may_start(execution):
        await _kill(desk, execution, pgid)


def _may_start(execution: Execution) -> bool:
    return not execution.stopping and not execution.told and execution.lives


async def _recorded(desk: Desk, execution: Execution, pgid: int) -> bool:
    action, number = execution.action.id, execution.context.attempt
    ticks = proctable.start_ticks(pgid) or 0
    noted = desk.recorder.apply(
        cmd.NoteProcess(action, number, pgid, ticks, proctable.boot_id(), execution.control_group)
    )
    if isinstance(noted, Refusal):
        return False
    # A task of its own: a tool that is cancelled here must not cut off what others have to say.
    flushed = desk.spawn(desk.recorder.flush())
    flushed.add_done_callback(lambda task: task.cancelled() or task.exception())
    await asyncio.shield(flushed)
    return True


async def _kill(desk: Desk, execution: Execution, pgid: int) -> None:
    timing, folder = desk.setup.timing, execution.control_group
    await stop_groups({pgid}, desk.setup.clock, timing.grace_s, (signal.SIGKILL,), folder)
    raise ExecutionStopped(f"process group {pgid} was killed: its execution is being stopped")
