"""Nothing is done twice, or after its time: failing appends, executions that run on, groups."""

import asyncio
import os
import subprocess
import sys
from contextlib import suppress
from dataclasses import replace

import pytest
from tests.scenarios.agent.places import TIMING, agents, consistent, said
from tests.scenarios.agent.test_answers import scripted, turn

from proctor.agent.api import Agents
from proctor.agent.core.locks import Access, Mode
from proctor.agent.driving.recorder import LostRun
from proctor.agent.tools import Answer, Cancel, Effect, QueryAnswer, Tool, Toolbox, ToolResult
from proctor.kernel.clock import SystemClock
from proctor.kernel.errors import StorageError


def tool(name, execute, **attributes):
    """A tool from a function of its context, non-repeatable and without resources by default."""

    async def executed(self, op_key, arguments, context):
        return await execute(context)

    attributes = {"resources": lambda self, arguments: (), **attributes}
    return type("Made", (Tool,), {"name": name, "execute": executed, **attributes})()


class Through:
    """A journal that a test can interfere with."""

    def __init__(self, journal):
        self._journal = journal

    def __getattr__(self, name):
        return getattr(self._journal, name)


class Failing(Through):
    """Its append of a process group takes long, and the next start of an attempt then fails."""

    def __init__(self, journal, how):
        super().__init__(journal)
        self.how, self.armed, self.noting = how, False, asyncio.Event()

    async def append(self, run_id, version, fence, events, *rest):
        kinds = [event.kind for event in events]
        if "process.started" in kinds:
            self.noting.set()
            for _ in range(50):  # the coordinator decides meanwhile
                await asyncio.sleep(0)
            self.armed = True
        elif self.armed and "attempt.started" in kinds:
            self.armed = False
            if self.how == "error":
                raise StorageError("the disk is full, once")
            row = await self.run_row(run_id)
            await self.claim(run_id, "other/b/1/2/x", 30, dead_owner=row.owner)
        return await self._journal.append(run_id, version, fence, events, *rest)


@pytest.mark.parametrize(("how", "error"), [("error", StorageError), ("conflict", LostRun)])
def test_a_start_that_another_task_failed_to_record_is_not_executed(place, socket, how, error):
    """A tool records its group while the coordinator decides a start: the tool's flush takes the
    start along, and it is not recorded."""
    sent = []

    def write(self, arguments):
        return (Access(Mode.WRITE, "m"),)

    async def scenario():
        async with agents(place, socket) as base:
            journal, checked = Failing(base.setup.journal, how), asyncio.Event()

            async def groups(context):
                await checked.wait()
                await context.started_group(os.getpgrp() + 1_000_000)
                await asyncio.Event().wait()

            async def hold(context):
                return ToolResult("h")

            async def mail(context):
                sent.append(context.attempt)
                return ToolResult("sent")

            async def careful(self, arguments):
                checked.set()
                await journal.noting.wait()

            tools = [
                tool("groups", groups, cancel=Cancel.PROCESS),
                tool("hold", hold, effect=Effect.PURE, resources=write),
                tool("mail", mail, resources=write, preconditions=careful),
            ]
            policy = scripted(turn(("groups", {}), ("hold", {}), ("mail", {})), said)
            setup = replace(base.setup, journal=journal, policy=policy, tools=Toolbox(tools))
            found = Agents(setup)
            run_id = await found.submit("g")
            with pytest.raises(error):
                await found.drive(run_id)
            log = await base.setup.journal.read_events(run_id)
            started = [e.body["action"] for e in log if e.kind == "attempt.started"]
            assert (started, sent) == (["a1", "a2"], [])

    asyncio.run(scenario())


def test_nobody_is_asked_while_the_own_execution_runs_on(place, socket):
    """Its time was up, it could not be stopped, and it has its effect after all."""
    done, asked, door = [], [], asyncio.Event()

    async def pay(context):
        await door.wait()
        done.append(context.attempt)
        return ToolResult("paid")

    async def query(self, op_key, arguments):
        asked.append(len(done))
        return QueryAnswer(Answer.HAPPENED if done else Answer.DID_NOT_HAPPEN)

    async def open_late(found, run_id):
        async for event in found.watch(run_id):
            if event.kind == "attempt.ended":
                door.set()

    async def scenario():
        tools = [tool("pay", pay, effect=Effect.QUERYABLE, query=query, timeout_s=0.02)]
        policy = scripted(turn(("pay", {})), said)
        timing = replace(TIMING, late_s=30)
        async with agents(place, socket, policy=policy, tools=tools, timing=timing) as found:
            run_id = await found.submit("g")
            opener = asyncio.create_task(open_late(found, run_id))
            await found.drive(run_id)
            await opener
            view = await consistent(found, run_id)
            assert (view.state, view.candidate) == ("done", "paid")
            assert (done, view.action("a1").attempts) == ([1], 1)
            assert 0 not in asked

    asyncio.run(scenario())


@pytest.mark.parametrize("effect", [Effect.QUERYABLE, Effect.NON_REPEATABLE])
def test_what_runs_on_for_too_long_is_for_a_person_and_not_done_again(place, socket, effect):
    begun = []

    async def hang(context):
        begun.append(context.attempt)
        await asyncio.Event().wait()

    async def query(self, op_key, arguments):
        return QueryAnswer(Answer.DID_NOT_HAPPEN)

    async def scenario():
        tools = [tool("pay", hang, effect=effect, query=query, timeout_s=0.02)]
        policy = scripted(turn(("pay", {})), said)
        timing = replace(TIMING, late_s=0.1, grace_s=0.1)
        async with agents(place, socket, policy=policy, tools=tools, timing=timing) as found:
            run_id = await found.submit("g")
            view = await found.drive(run_id)
            assert (view.state, view.action("a1").state) == ("waiting", "stopped")
            assert begun == [1]

    asyncio.run(scenario())


def test_the_end_of_what_cannot_be_stopped_is_awaited(place, socket):
    ends, door = [], asyncio.Event()

    async def transfer(context):
        try:
            await door.wait()
            ends.append("whole")
            return ToolResult("receipt 77")
        except asyncio.CancelledError:
            ends.append("cut off")
            raise

    async def scenario():
        tools = [tool("pay", transfer, timeout_s=0.02)]
        policy = scripted(turn(("pay", {})), said)
        timing = replace(TIMING, late_s=30)
        async with agents(place, socket, policy=policy, tools=tools, timing=timing) as found:
            run_id = await found.submit("g")
            driver = asyncio.create_task(found.drive(run_id))
            async for event in found.watch(run_id):
                if event.kind == "wait.opened":  # a person is asked: nobody else could go on
                    break
            await asyncio.wait({driver}, timeout=0.3)
            assert not driver.done()
            door.set()
            await driver
            log = await found.setup.journal.read_events(run_id)
            (late,) = [e.body for e in log if e.kind == "attempt.late"]
            assert (ends, late["text"]) == (["whole"], "receipt 77")

    asyncio.run(scenario())


def test_a_group_that_starts_while_its_execution_is_stopped_is_killed(place, socket, tmp_path):
    mark, statuses, running = tmp_path / "effect", [], asyncio.Event()
    second = f"input(); open({str(mark)!r}, 'w')"

    async def both(context):
        first = [sys.executable, "-c", "import time; time.sleep(60)"]
        process = await asyncio.create_subprocess_exec(*first, start_new_session=True)
        await context.started_group(process.pid)
        running.set()
        with suppress(asyncio.CancelledError):  # it may be told before its process has ended
            await process.wait()
        argv = [sys.executable, "-c", second]
        pipe = subprocess.PIPE  # it has its effect when it is told to, if it still lives then
        late = subprocess.Popen(argv, stdin=pipe, start_new_session=True)  # noqa: ASYNC220 - no step between
        try:
            await context.started_group(late.pid)
        finally:
            late.communicate(b"go\n", timeout=20)
            statuses.append(late.returncode)
        return ToolResult("both ran")

    async def scenario():
        tools = [tool("bash", both, cancel=Cancel.PROCESS)]
        async with agents(place, socket, policy=scripted(turn(("bash", {}))), tools=tools) as found:
            run_id = await found.submit("g")
            driver = asyncio.create_task(found.drive(run_id))
            await running.wait()
            await found.cancel(run_id)
            view = await driver
            assert view.state == "cancelled"
            assert statuses == [-9]
        assert not mark.exists()

    asyncio.run(scenario())


@pytest.mark.parametrize("group", [0, 1, -5, True, "7", None])
def test_what_is_no_group_of_its_own_is_refused(place, socket, group):
    async def scenario():
        seen = []

        async def bad(context):
            for pgid in (group, os.getpgrp()):
                with pytest.raises(ValueError, match="not a process group"):
                    await context.started_group(pgid)
                seen.append(pgid)
            return ToolResult("ok")

        tools = [tool("bad", bad, cancel=Cancel.PROCESS)]
        policy = scripted(turn(("bad", {})), said)
        async with agents(place, socket, policy=policy, tools=tools) as found:
            run_id = await found.submit("g")
            view = await found.drive(run_id)
            assert (view.candidate, len(seen)) == ("ok", 2)

    asyncio.run(scenario())


class Jumping(SystemClock):
    """A clock whose steady time the test moves."""

    __slots__ = ("by",)

    def monotonic(self):
        return super().monotonic() + getattr(self, "by", 0.0)

    def move(self, seconds):
        object.__setattr__(self, "by", seconds)


def test_a_lease_counts_from_when_it_was_asked_for(place, socket):
    """The journal took longer to answer than the lease lasts: nothing may start under it."""
    clock, sent = Jumping(), []

    class Slow(Through):
        async def claim(self, run_id, owner, ttl_s, **more):
            lease = await self._journal.claim(run_id, owner, ttl_s, **more)
            clock.move(ttl_s + 1)
            return lease

    async def mail(context):
        sent.append(context)
        return ToolResult("sent")

    async def scenario():
        policy = scripted(turn(("mail", {})), said)
        more = {"policy": policy, "tools": [tool("mail", mail)], "clock": clock}
        async with agents(place, socket, **more) as base:
            found = Agents(replace(base.setup, journal=Slow(base.setup.journal)))
            run_id = await found.submit("g")
            with pytest.raises(LostRun, match="ran out"):
                await found.drive(run_id)
            assert sent == []

    asyncio.run(scenario())
