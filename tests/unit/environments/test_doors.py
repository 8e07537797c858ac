"""Doors to the driver's services when several things happen to them at once."""

import asyncio
import socket
from contextlib import asynccontextmanager, nullcontext

import pytest

from proctor.environments.netns import listening, sandbox
from proctor.environments.netns.door import Doors
from proctor.environments.netns.namespace import NetworkNamespace
from proctor.testing.conformance.environment_network import service

pytestmark = pytest.mark.usefixtures("leak_free")


@pytest.fixture(autouse=True)
def _may_enter(need):
    need(not sandbox.problem(), f"no network namespaces: {sandbox.problem()}")


class Places:
    """The namespaces that doors are made in; `ask` waits until it is `told`."""

    def __init__(self):
        self.namespace = NetworkNamespace()
        self.asked, self.told = asyncio.Event(), asyncio.Event()
        self.told.set()
        with self.namespace.entered():
            sandbox.links.set_up(ipv6=False)

    async def ask(self):
        self.asked.set()
        await self.told.wait()
        return nullcontext(self.namespace)

    def answers(self, address):
        """Whether somebody accepts at this address inside."""
        host, port = address.split(":")
        with self.namespace.entered():
            client = socket.socket()
        with client:
            client.settimeout(5)
            return client.connect_ex((host, int(port))) == 0


@asynccontextmanager
async def doors_with_a_service():
    places, doors = Places(), Doors()
    async with service("127.0.0.1") as port:
        try:
            yield places, doors, port
        finally:
            places.told.set()
            await doors.close(for_good=True)
            places.namespace.close()


def test_a_door_that_is_being_made_when_all_are_closed_stays_closed():
    async def case():
        async with doors_with_a_service() as (places, doors, port):
            places.told.clear()
            asking = asyncio.create_task(doors.address(places.ask, port))
            await places.asked.wait()
            closing = asyncio.create_task(doors.close())
            await asyncio.sleep(0)
            places.told.set()
            await closing
            with pytest.raises(OSError, match="ended meanwhile"):
                await asking
            assert places.answers(await doors.address(places.ask, port))  # asked for after it

    asyncio.run(case())


def test_doors_that_are_moved_when_all_are_closed_stay_closed():
    async def case():
        async with doors_with_a_service() as (places, doors, port):
            address = await doors.address(places.ask, port)
            assert places.answers(address)
            places.told.clear()
            places.asked.clear()
            moving = asyncio.create_task(doors.move(places.ask))
            await places.asked.wait()
            closing = asyncio.create_task(doors.close())
            await asyncio.sleep(0)
            places.told.set()
            await asyncio.gather(moving, closing)
            assert not places.answers(address)

    asyncio.run(case())


def test_one_that_is_asked_for_while_all_are_moved_is_the_moved_one():
    async def case():
        async with doors_with_a_service() as (places, doors, port):
            address = await doors.address(places.ask, port)
            again = asyncio.gather(
                doors.move(places.ask), *(doors.address(places.ask, port) for _ in range(3))
            )
            assert (await again)[1:] == [address] * 3
            await doors.close()
            assert not places.answers(address)

    asyncio.run(case())


def test_a_closing_that_is_cancelled_closes_all_the_same():
    async def case():
        async with doors_with_a_service() as (places, doors, port):
            address = await doors.address(places.ask, port)
            closing = asyncio.create_task(doors.close())
            await asyncio.sleep(0)
            closing.cancel()
            await asyncio.wait((closing,))
            await doors.close()
            assert not places.answers(address)

    asyncio.run(case())


def test_none_is_made_once_the_place_is_closed():
    async def case():
        async with doors_with_a_service() as (places, doors, port):
            await doors.close(for_good=True)
            with pytest.raises(OSError, match="ended"):
                await doors.address(places.ask, port)

    asyncio.run(case())


def test_none_is_made_to_a_port_where_nobody_listens():
    async def case():
        async with doors_with_a_service() as (places, doors, _):
            with socket.socket() as free:
                free.bind(("127.0.0.1", 0))
                with pytest.raises(OSError, match="nothing of the driver listens"):
                    await doors.address(places.ask, free.getsockname()[1])

    asyncio.run(case())


@pytest.mark.parametrize("look", [listening.listener, listening._in_table])
@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0", "::"])
def test_a_listening_socket_is_told_from_every_other(look, host):
    family = socket.AF_INET6 if ":" in host else socket.AF_INET

    def listening_at(port):
        made = socket.socket(family)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind((host, port))
        made.listen()
        return made

    with listening_at(0) as first:
        port = first.getsockname()[1]
        known = look(port)
        assert known
        assert look(port) == known
        with socket.create_connection(("127.0.0.1", port)):
            assert look(port) == known
    assert look(port) == ""
    with listening_at(port):
        assert look(port) not in ("", known)
