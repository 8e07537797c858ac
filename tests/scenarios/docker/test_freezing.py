"""Containers that are frozen, seem to be, or are cleared while a command is on its way in."""

import asyncio

import pytest

from proctor.environments.docker import container as containers
from proctor.environments.docker import owned
from proctor.environments.docker.engine import Engine, EngineError
from proctor.environments.docker.entrance import Entrance

pytestmark = pytest.mark.every_engine


async def froze(session):
    name = session.container.name
    await session.container.engine.done("POST", f"/containers/{name}/pause")


async def paused(session):
    return (await session.container.facts())["State"].get("Paused")


def test_a_command_waits_while_the_engine_takes_the_container_for_frozen(place, monkeypatch):
    refused = asyncio.Event()
    ask = Engine.call

    async def told(self, method, path, *rest, **options):
        try:
            return await ask(self, method, path, *rest, **options)
        except EngineError:
            refused.set()
            raise

    async def case(session):
        monkeypatch.setattr(Engine, "call", told)
        await froze(session)
        waiting = asyncio.create_task(session.exec("echo on"))
        await refused.wait()
        await session.container.engine.done("POST", f"/containers/{session.container.name}/unpause")
        return (await waiting).stdout

    assert place.run(case) == "on\n"


def test_a_frozen_container_is_restarted(place):
    async def case(session):
        await froze(session)
        assert await session.container.restart()
        assert not await paused(session)
        return (await session.exec("echo on")).stdout

    assert place.run(case) == "on\n"


def test_a_frozen_container_is_cleared_and_goes_on(place):
    async def case(session):
        waiting = asyncio.create_task(session.exec("touch begun; sleep 600"))
        await session.exec("until [ -e begun ]; do :; done")
        await froze(session)
        await session.kill_processes()
        assert (await waiting).exit_code == 137
        assert not await paused(session)
        return (await session.exec("echo on")).stdout

    assert place.run(case) == "on\n"


def test_a_frozen_container_is_closed_and_reaped(place):
    async def closed(session):
        await froze(session)

    async def reaped(session):
        await froze(session)
        await owned.remove(session.container.engine, session.container.name)
        assert not await session.alive()

    place.run(closed)
    place.run(reaped)
    assert place.own() == set()


def test_a_command_on_its_way_in_is_ended_with_the_others(place, monkeypatch):
    on_its_way, shut, go = asyncio.Event(), asyncio.Event(), asyncio.Event()
    upgrade, settled = Engine.upgrade, Entrance._settled

    async def slow(self, path, json):
        on_its_way.set()
        await go.wait()
        return await upgrade(self, path, json)

    async def told(self, limit_s):
        shut.set()
        return await settled(self, limit_s)

    async def case(session):
        monkeypatch.setattr(Engine, "upgrade", slow)
        monkeypatch.setattr(Entrance, "_settled", told)
        late = asyncio.create_task(session.exec("sleep 600"))
        await on_its_way.wait()
        killing = asyncio.create_task(session.kill_processes())
        await shut.wait()
        go.set()
        await killing
        return (await late).exit_code

    assert place.run(case) == 137


def test_a_command_that_never_says_it_started_is_ended_by_a_restart(place, monkeypatch):
    monkeypatch.setattr(containers, "_ENTER_S", 0.2)

    async def case(session):
        await session.exec("printf '#!/bin/bash\\nexec sleep 600' > liar; chmod +x liar")
        await session.exec("cp /bin/sh /bin/kept; mv liar /bin/sh", user=0)
        mute = asyncio.create_task(session.exec("true"))
        await session.container.engine.call("GET", f"/containers/{session.container.name}/json")
        while not session.container.entrance._entering:  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0)
        before = await session.container.facts()
        await session.kill_processes()
        assert (await mute).exit_code == 137
        return before["State"]["StartedAt"], (await session.container.facts())["State"]["StartedAt"]

    before, after = place.run(case)
    assert before != after
