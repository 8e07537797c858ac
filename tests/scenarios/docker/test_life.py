"""Containers that vanish, opens that are cancelled, drivers that are killed."""

import asyncio
import os
import signal
import subprocess
import sys

import pytest
from tests.engines import IMAGE

from proctor.environments.contract import EnvironmentSpec
from proctor.environments.docker import owned
from proctor.environments.docker.ending import by_itself
from proctor.environments.docker.engine import Engine
from proctor.environments.docker.owned import remove
from proctor.environments.network import NetworkMode, NetworkPhases, NetworkPolicy
from proctor.environments.reaping.leftovers import State
from proctor.kernel.errors import EnvironmentFault

OFFLINE = NetworkPolicy(NetworkMode.NO_NETWORK)

DRIVER = """
import asyncio, sys
from proctor.environments.contract import EnvironmentSpec
from proctor.environments.docker import DockerEnvironment, DockerOptions

async def main():
    place = DockerEnvironment(DockerOptions(host=sys.argv[1], image=sys.argv[2]))
    session = await place.open(EnvironmentSpec(), {"run": "killed", "attempt": "1"})
    running = asyncio.create_task(session.exec("touch begun; sleep 600"))
    await session.exec("until [ -e begun ]; do :; done")
    print("open", flush=True)
    await running

asyncio.run(main())
"""


def test_a_container_that_vanishes_is_noticed_at_once(place):
    async def case(session):
        waiting = asyncio.create_task(session.exec("touch begun; sleep 600"))
        await session.exec("until [ -e begun ]; do :; done")
        other = Engine(session.container.engine.endpoint)
        await remove(other, session.container.name)
        other.close()
        calls = (
            lambda: waiting,
            lambda: session.exec("true"),
            lambda: session.read("x"),
            lambda: session.write("x", b""),
            session.kill_processes,
        )
        for call in calls:
            with pytest.raises(EnvironmentFault) as raised:
                await call()
            assert raised.value.fault_code == "environment_gone", raised.value
        assert not await session.alive()

    place.run(case)


def test_a_container_that_is_frozen_is_removed(place):
    """A driver may be killed while it ends what an agent left."""

    async def case(session):
        engine, name = session.container.engine, session.container.name
        await engine.done("POST", f"/containers/{name}/pause")
        await session.close()

    place.run(case)


def test_a_container_that_stopped_is_gone_too(place):
    async def case(session):
        await session.container.engine.done(
            "POST", f"/containers/{session.container.name}/kill", {"signal": "KILL"}
        )
        with pytest.raises(EnvironmentFault) as raised:
            await session.exec("true")
        assert raised.value.fault_code == "environment_gone"
        assert not await session.alive()
        assert not await session.ended_inside()

    place.run(case)


def test_a_container_that_ended_of_itself_is_told_from_one_that_was_ended(place):
    async def case(session):
        assert not await session.ended_inside()  # it runs
        await session._commands._restart()  # which is no end
        first = (await session.container.facts())["State"]["Pid"]
        os.kill(first, signal.SIGKILL)  # as the kernel does that runs out of memory
        assert await session.ended_inside()
        assert not await session.alive()

    place.run(case)


@pytest.mark.parametrize(
    ("actions", "told"),
    [
        (["start", "exec_create: sh", "exec_start: sh", "die", "cleanup"], True),
        (["start", "oom", "died"], True),
        (["kill", "die", "start", "die"], True),
        (["restart", "start", "kill", "die"], False),
        (["kill", "die", "start", "restart", "die"], True),
        (["start", "exec", "restart", "die"], False),
        (["start", "die", "remove"], False),
        (["start"], False),
        (["die"], False),  # the engine was started again meanwhile, and knows no start
        ([], False),
    ],
)
def test_what_an_engine_records_about_an_end(actions, told):
    assert by_itself(actions) is told


def test_an_engine_that_is_not_there_is_told_before_anything_runs(place, tmp_path):
    environment = place.environment(host=f"unix://{tmp_path}/none.sock")
    (problem,) = environment.requirements()
    assert "no engine answers" in problem
    with pytest.raises(EnvironmentFault) as raised:
        asyncio.run(environment.open(EnvironmentSpec(), {}))
    assert raised.value.fault_code == "engine_unreachable"


def test_an_open_that_is_cancelled_at_any_call_leaves_nothing(place, monkeypatch):
    """At its first call, at its second, and so on, until it gets through."""
    spec = EnvironmentSpec(network=NetworkPhases(OFFLINE, NetworkPolicy(), OFFLINE))
    plain = Engine._sent
    cancelled_at = []

    async def cancelled_open(number):
        calls = 0

        async def sent(self, method, target, headers, body):
            nonlocal calls
            calls += 1
            if calls == number:
                opening.cancel()
            return await plain(self, method, target, headers, body)

        monkeypatch.setattr(Engine, "_sent", sent)
        opening = asyncio.ensure_future(place.environment().open(spec, {"run": "b14"}))
        await asyncio.wait((opening,))
        monkeypatch.setattr(Engine, "_sent", plain)
        if opening.cancelled():
            cancelled_at.append(number)
            return True
        await opening.result().close()
        return False

    number = 1
    while asyncio.run(cancelled_open(number)):
        assert place.own() == set(), f"cancelled at call {number}"
        number += 1
    assert cancelled_at == list(range(1, number))
    assert number > 5


@pytest.mark.every_engine
def test_a_killed_driver_leaves_what_the_reaper_finds_and_only_that(place):
    containers = place.containers()

    async def case(session):
        with subprocess.Popen(  # noqa: ASYNC220 - starting takes no time
            [sys.executable, "-c", DRIVER, place.address, IMAGE], stdout=subprocess.PIPE
        ) as driver:
            assert await asyncio.to_thread(driver.stdout.readline) == b"open\n"
            owned = await of(driver.pid)
            assert [(c.state, c.spared) for c in owned] == [(State.ALIVE, False)]
            driver.send_signal(signal.SIGKILL)
            await asyncio.to_thread(driver.wait)
        (left,) = await of(driver.pid)
        assert (left.state, left.labels) == (State.DEAD, {"run": "killed", "attempt": "1"})
        await containers.remove(left)
        await containers.remove(left)
        assert await of(driver.pid) == []
        (own,) = await of(os.getpid())
        assert (own.name, own.state) == (session.container.name, State.ALIVE)
        return await session.alive()

    async def of(pid):
        found = await containers.list_owned()
        return [item for item in found if item.owner is not None and item.owner.pid == pid]

    assert place.run(case)


def test_what_is_kept_or_of_another_machine_is_told(place, monkeypatch):
    containers = place.containers()

    async def case():
        async with await place.environment().open(EnvironmentSpec(), {"kept": "1"}) as session:
            name = session.container.name
            (kept,) = [c for c in await containers.list_owned() if c.name == name]
            assert kept.spared
            monkeypatch.setattr(owned, "machine_name", lambda: "another")
            (foreign,) = [c for c in await containers.list_owned() if c.name == name]
            assert foreign.state is State.UNKNOWN

    asyncio.run(case())


def test_a_health_check_is_waited_for(place):
    async def case(session):
        return (await session.exec("cat /tmp/tries | wc -l")).stdout.strip()

    check = "echo try >> /tmp/tries; [ $(wc -l < /tmp/tries) -ge 2 ]"
    assert place.run(case, healthcheck=check) == "2"
    with pytest.raises(EnvironmentFault) as raised:
        place.run(case, healthcheck="false", healthcheck_timeout_s=1.5)
    assert raised.value.fault_code == "unhealthy"
