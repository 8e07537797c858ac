"""The last step of the ladder: what has left its process group is in the control group."""

import asyncio
import os
import signal
import subprocess
import sys
from dataclasses import replace

import pytest
from tests.scenarios.agent.conftest import KINDS, ROOT
from tests.scenarios.agent.places import TIMING, agents, consistent, said
from tests.scenarios.agent.test_answers import scripted, turn
from tests.scenarios.agent.test_endings import bodies, gate
from tests.scenarios.agent.test_fault_points import submitted

from proctor.agent.driving.stopping import control_groups
from proctor.agent.tools import Cancel
from proctor.environments import proctable, tracking

QUICK = replace(TIMING, grace_s=0.3, cancel_s=5.0)
# Leaves its group and its parent when it is told to, says its id, and then stays.
ESCAPES = """
import os, signal, sys, time
signal.signal(signal.SIGINT, signal.SIG_DFL)  # ignored where the tests run in the background
given, told = sys.argv[1:] or (0, 1)
open(given).read(1)
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        with open(told, "w") as out:
            out.write(f"{os.getpid()}\\n")
        time.sleep(600)
    os._exit(0)
time.sleep(600)
"""


@pytest.fixture
def tracked(need):
    need(tracking.place(), "no control group can be made here")


class Escaping:
    """A tool's execution whose process leaves its group."""

    def __init__(self, *, then_ends=False):
        self.then_ends, self.escaped, self.pid = then_ends, asyncio.Event(), 0

    async def __call__(self, context):
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", ESCAPES, stdin=pipe, stdout=pipe, start_new_session=True
        )
        await context.started_group(process.pid)
        process.stdin.write(b"x")
        process.stdin.close()
        self.pid = int(await process.stdout.readline())
        self.escaped.set()
        if self.then_ends:
            process.kill()
        await process.wait()
        return "ok"


def kill(pid):
    if proctable.runs(pid):
        os.kill(pid, signal.SIGKILL)


def is_gone(folder):
    return not os.path.exists(folder)


async def cancelled(place, socket, escaping):
    tools = [gate(escaping, cancel=Cancel.PROCESS)]
    policy = scripted(turn(("gate", {})), said)
    async with agents(place, socket, policy=policy, tools=tools, timing=QUICK) as found:
        run_id = await found.submit("g")
        driver = asyncio.create_task(found.drive(run_id))
        await escaping.escaped.wait()
        assert proctable.runs(escaping.pid)
        assert os.getpgid(escaping.pid) != os.getpgrp()
        await found.cancel(run_id)
        await driver
        (stop,) = await bodies(found, run_id, "cancel.stop")
        (process,) = await bodies(found, run_id, "process.started")
        return await consistent(found, run_id), stop, process


def test_what_left_its_process_group_is_killed_too(place, socket, tracked):
    async def scenario():
        escaping = Escaping()
        view, stop, process = await cancelled(place, socket, escaping)
        try:
            assert not proctable.runs(escaping.pid)
            assert (stop["answer"], stop["means"]) == ("confirmed", ["SIGINT", "cgroup"])
            assert (view.state, view.action("a1").timed_out) == ("cancelled", True)
            assert is_gone(process["control_group"])
        finally:
            kill(escaping.pid)

    asyncio.run(scenario())


def test_without_control_groups_the_process_groups_are_all_that_is_said(place, socket, monkeypatch):
    monkeypatch.setattr(tracking, "place", lambda: None)

    async def scenario():
        escaping = Escaping()
        _, stop, process = await cancelled(place, socket, escaping)
        try:
            assert proctable.runs(escaping.pid)  # documented: it is not found
            assert (stop["answer"], stop["means"]) == ("confirmed", ["SIGINT"])
            assert "control_group" not in process
        finally:
            kill(escaping.pid)

    asyncio.run(scenario())


def test_what_a_tool_leaves_running_when_it_ends_is_left_alone(place, socket, tracked):
    """It ended by itself: nobody asked to stop anything."""

    async def scenario():
        escaping = Escaping(then_ends=True)
        tools = [gate(escaping, cancel=Cancel.PROCESS)]
        policy = scripted(turn(("gate", {})), said)
        async with agents(place, socket, policy=policy, tools=tools, timing=QUICK) as found:
            run_id = await found.submit("g")
            view = await found.drive(run_id)
            (process,) = await bodies(found, run_id, "process.started")
        try:
            assert (view.state, view.action("a1").state) == ("done", "done")
            assert tracking.members(process["control_group"]) == [escaping.pid]
        finally:
            assert await tracking.end(process["control_group"])
            assert not proctable.runs(escaping.pid)

    asyncio.run(scenario())


@pytest.mark.parametrize("place", KINDS, indirect=True)
def test_the_next_worker_kills_what_left_the_group_of_a_dead_one(
    place, socket, worker, tmp_path, tracked
):
    script, given, told = (str(tmp_path / name) for name in ("escapes.py", "given", "told"))
    with open(script, "w", encoding="ascii") as file:
        file.write(ESCAPES)
    os.mkfifo(given)
    os.mkfifo(told)
    goal = "process " + "|".join((sys.executable, script, given, told))
    run_id = submitted(place, socket, goal)
    assert worker(place, run_id, "tool.process_runs", 1) == -9
    with open(given, "w", encoding="ascii") as gate_:
        gate_.write("x")
    with open(told, encoding="ascii") as file:
        escaped = int(file.readline())

    async def after():
        async with agents(place, socket) as found:
            (process,) = (await found.view(run_id)).action("a1").processes
            assert proctable.runs(escaped)
            await found.drive(run_id)
            assert not proctable.runs(escaped)
            view = await consistent(found, run_id)
            assert view.action("a1").state == "stopped"
            assert "SIGINT, cgroup" in view.action("a1").text
            assert is_gone(process["control_group"])

    try:
        asyncio.run(after())
    finally:
        kill(escaped)


@pytest.mark.parametrize("place", KINDS, indirect=True)
def test_a_group_that_its_killed_driver_did_not_name_goes_with_the_next_one(
    place, socket, worker, tracked
):
    """The driver dies between making it and recording it, and its process ends by itself."""
    run_id = submitted(place, socket, "process " + "|".join((sys.executable, "-c", "0")))
    argv = [sys.executable, "-m", "tests.scenarios.agent.child", place.text(), socket, run_id]
    with subprocess.Popen([*argv, "stop", "agent.group.made", "1"], cwd=ROOT) as driver:
        os.waitpid(driver.pid, os.WUNTRACED)
        own = f"proctor-agent-{driver.pid}-"
        made = [name for name in os.listdir(tracking.place()) if name.startswith(own)]
        driver.kill()

    async def log():
        async with agents(place, socket) as found:
            return await bodies(found, run_id, "process.started")

    assert len(made) == 1
    assert asyncio.run(log()) == []
    assert worker(place, run_id) == 0
    assert is_gone(f"{tracking.place()}/{made[0]}")


@pytest.mark.parametrize(
    "named",
    [
        "/",
        "/sys/fs/cgroup",
        "/tmp/proctor-agent-" + "0" * 24,
        "/sys/fs/cgroup/../../../tmp/proctor-agent-" + "0" * 24,
        "proctor-agent-" + "0" * 24,
        7,
        None,
        ["x"],
    ],
)
def test_a_log_does_not_say_which_groups_are_killed(named):
    """Only groups of this boot that this program has made are touched."""
    process = {"boot_id": proctable.boot_id(), "control_group": named}
    assert control_groups([process]) == set()


def test_a_group_of_an_earlier_boot_is_another_one(tracked):
    folder = tracking.new_group()
    try:
        here = {"boot_id": proctable.boot_id(), "control_group": folder}
        assert control_groups([here]) == {folder}
        assert control_groups([{**here, "boot_id": "another"}]) == set()
    finally:
        assert tracking.remove_empty(folder)
