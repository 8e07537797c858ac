"""Commands in containers: killed inside, out of memory, fork bombs, users, what forges can do."""

import asyncio
import time

import pytest

from proctor.environments.contract import EnvironmentSpec, Resources
from proctor.environments.docker.engine import Engine
from proctor.kernel.errors import EnvironmentFault


async def processes(session):
    """What runs in the container, as the engine sees it from outside."""
    engine, name = session.container.engine, session.container.name
    found = await engine.call("GET", f"/containers/{name}/top")
    return [" ".join(row) for row in found["Processes"]]


def test_a_timed_out_command_is_killed_inside_the_container(place):
    async def case(session):
        script = "sleep 4001 & (sleep 4002 &) ; trap '' TERM INT HUP; sleep 4003"
        result = await session.exec(script, timeout_s=1)
        assert (result.timed_out, result.exit_code) == (True, None)
        return await processes(session)

    assert [p for p in place.run(case) if "sleep 400" in p] == []


def test_what_a_command_leaves_in_its_group_ends_with_it(place):
    async def case(session):
        await session.exec("sleep 4004 > /dev/null 2>&1 & sleep 4005 &")
        return await processes(session)

    assert [p for p in place.run(case) if "sleep 400" in p] == []


def test_a_daemon_that_holds_the_output_open_delays_nothing(place):
    async def case(session):
        began = time.monotonic()
        daemon = "setsid sh -c 'touch away; exec sleep 4006' & until [ -e away ]; do :; done"
        done = await session.exec(f"{daemon}; echo hi", timeout_s=60)
        assert (done.exit_code, done.stdout, done.timed_out) == (0, "hi\n", False)
        late = await session.exec("setsid sleep 4007 & sleep 60", timeout_s=1)
        assert late.timed_out
        assert time.monotonic() - began < 30
        assert [p for p in await processes(session) if "sleep 4006" in p]
        await session.kill_processes()
        return await processes(session)

    assert [p for p in place.run(case) if "sleep 400" in p] == []


@pytest.mark.every_engine
def test_files_and_network_survive_the_killing_of_all_processes(place):
    async def case(session):
        await session.write("kept.txt", b"kept")
        waiting = asyncio.create_task(session.exec("touch begun; sleep 600"))
        await session.exec("until [ -e begun ]; do :; done")
        await session.kill_processes()
        killed = await waiting
        assert killed.exit_code == 137
        assert not killed.timed_out
        return (await session.exec("cat kept.txt; id -u")).stdout

    assert place.run(case) == "kept0\n"


def test_running_out_of_memory_is_told_apart_from_a_crash(place):
    async def case(session):
        hungry = ["python3", "-c", "x = b'x' * 900_000_000; print(len(x))"]
        full = await session.exec(hungry)
        assert (full.ok, full.out_of_memory, full.stdout) == (False, True, "")
        crashed = await session.exec("kill -9 $$")
        assert (crashed.exit_code, crashed.out_of_memory) == (137, False)
        assert (await session.exec("echo on")).stdout == "on\n"

    place.run(case, EnvironmentSpec(resources=Resources(memory_mb=96)))


@pytest.mark.every_engine
def test_a_fork_bomb_stops_at_its_limit_and_is_killed(place):
    async def case(session):
        bomb = "f() { f | f & }; f; sleep 60"
        await session.exec(bomb, timeout_s=2)
        assert await session.alive()
        await session.kill_processes()
        assert len(await processes(session)) <= 2
        return (await session.exec("echo on")).stdout

    assert place.run(case, EnvironmentSpec(resources=Resources(pids=64))) == "on\n"


async def begun(session):
    """When the container was started, as the engine tells."""
    return (await session.container.facts())["State"]["StartedAt"]


@pytest.mark.every_engine
def test_killing_everything_needs_no_restart_where_it_can_be_verified(place):
    async def case(session):
        bomb = "f() { f | f & }; setsid sh -c 'f() { setsid sh -c : | f & }; f' & f; sleep 60"
        await session.exec(bomb, timeout_s=1)
        waiting = asyncio.create_task(session.exec("touch begun; sleep 4011"))
        hidden = "import ctypes; ctypes.CDLL(None).prctl(15, b'sleep', 0, 0, 0); "
        hidden += "import os, time; os.fork() and os._exit(0); os.setsid(); time.sleep(4012)"
        await session.kill_processes()
        await asyncio.wait((waiting,))
        since = await begun(session)  # a bomb may take so long to clear away that it is a restart
        await session.exec(["python3", "-c", hidden])
        await session.kill_processes()
        assert await begun(session) == since
        left = await processes(session)
        assert len(left) <= 2, left
        assert not [p for p in left if "401" in p], left
        return (await session.exec("echo on")).stdout

    assert place.run(case, EnvironmentSpec(resources=Resources(pids=200))) == "on\n"


@pytest.mark.every_engine
def test_a_first_process_that_is_traced_ends_in_a_restart(place):
    """Whoever traces it could have put code of its own into it."""
    tracer = (
        "import ctypes, os, time\n"
        "traced = ctypes.CDLL(None).ptrace(0x4206, 1, 0, 0) == 0\n"
        "open('traced', 'w').write(str(traced))\n"
        "time.sleep(4013)\n"
    )

    async def case(session):
        since = await begun(session)
        await session.write("tracer.py", tracer.encode())
        await session.exec(
            "setsid python3 tracer.py > /dev/null 2>&1 & until [ -s traced ]; do :; done"
        )
        traced = (await session.exec("cat traced")).stdout == "True"
        await session.kill_processes()
        assert (await begun(session) != since) is traced
        return [p for p in await processes(session) if "tracer" in p]

    assert place.run(case) == []


@pytest.mark.every_engine
def test_an_engine_that_cannot_freeze_restarts(place):
    async def case(session):
        since = await begun(session)
        await session.exec("setsid sleep 4014 > /dev/null 2>&1 &")
        engine, name = session.container.engine, session.container.name
        await engine.done("POST", f"/containers/{name}/pause")  # a second time is an error
        await session.kill_processes()
        assert await begun(session) != since
        assert not [p for p in await processes(session) if "4014" in p]
        return (await session.exec("echo on")).stdout

    assert place.run(case) == "on\n"


def test_processors_are_bound(place):
    async def case(session):
        read = (
            "cat /sys/fs/cgroup/cpu/cpu.cfs_quota_us /sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us "
            "/sys/fs/cgroup/cpu.max 2>/dev/null"
        )
        return (await session.exec(read)).stdout.split()[0]

    assert place.run(case, EnvironmentSpec(resources=Resources(cpus=0.5))) == "50000"


def test_users(place):
    async def case(session):
        assert (await session.exec("id -u")).stdout == "0\n"
        assert (await session.exec("id -u; echo $HOME", user="worker")).stdout == "1000\n/worker\n"
        assert (await session.exec("id -u", user=1000)).stdout == "1000\n"
        assert (await session.exec("kill -9 1", user="worker")).exit_code != 0
        with pytest.raises(EnvironmentFault) as raised:
            await session.exec("id", user="nobody-of-that-name")
        assert raised.value.fault_code == "cannot_start"
        assert await session.alive()

    place.run(case)


def test_forged_endings_end_only_the_forger(place):
    async def case(session):
        # The word is in the command line of the shell around: anyone inside can read it.
        forge = (
            "word=$(tr '\\0' ' ' < /proc/$PPID/cmdline | grep -o 'proctor-ended-[0-9a-f]*' |"
            ' head -n 1); echo "$word 0 0"; echo "$word 0 0" >&2; sleep 4008'
        )
        forged = await session.exec(forge, timeout_s=60)
        assert forged.exit_code == 0
        after = await session.exec("echo out; echo err >&2; exit 3")
        assert (after.exit_code, after.stdout, after.stderr) == (3, "out\n", "err\n")

    place.run(case)


def test_process_1_cannot_be_killed_from_inside(place):
    async def case(session):
        await session.exec("kill -9 1; kill -TERM 1; kill -9 -1")
        return await session.alive()

    assert place.run(case)


def test_a_command_that_is_cancelled_while_it_starts_does_not_run_on(place, monkeypatch):
    plain = Engine.upgrade

    async def case(session):
        async def upgrade(self, path, json):
            monkeypatch.setattr(Engine, "upgrade", plain)
            command.cancel()
            return await plain(self, path, json)

        monkeypatch.setattr(Engine, "upgrade", upgrade)
        command = asyncio.create_task(session.exec("sleep 4010"))
        await asyncio.wait((command,))
        assert command.cancelled()
        return await processes(session)

    assert [p for p in place.run(case) if "sleep 4010" in p] == []
