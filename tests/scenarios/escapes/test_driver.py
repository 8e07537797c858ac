"""The way to a service of the driver is a way to that service alone."""

import asyncio
from dataclasses import replace

import pytest

from proctor.testing.conformance.environment_network import METADATA, host_address, probe, service

HOLDER = """
import os, socket, sys
host, port = sys.argv[1].rsplit(":", 1)
held = socket.create_connection((host, int(port)), 5)
open("held", "w").close()
try:
    print("cut off" if not held.recv(10) else "answered")
except ConnectionError:
    print("cut off")
"""
CROWD = """
import socket, sys, time
host, port = sys.argv[1].rsplit(":", 1)
held = [socket.create_connection((host, int(port)), 5) for _ in range(100)]
open("crowded", "w").close()
time.sleep(86395)
"""
ASKED = """
import socket, sys
host, port = sys.argv[1].rsplit(":", 1)
for line in sys.argv[2:]:
    with socket.create_connection((host, int(port)), 5) as s:
        s.sendall(line.encode() + b"\\r\\n\\r\\n")
        print(s.recv(100).split(b" ")[1].decode())
"""


def hold(cell, case):
    """A case in a sandbox that has a way to the driver."""

    async def body():
        environment = cell.provider.environment()
        spec = replace(cell.spec(), driver_access=True)
        async with await environment.open(spec, {"run": "escapes"}) as session:
            return await case(session)

    return asyncio.run(body())


@pytest.mark.every_engine
def test_one_service_is_reached_and_no_other(cell):
    async def case(session):
        async with service("127.0.0.1") as wanted, service("127.0.0.1") as other, service() as any_:
            given = (await session.driver_address(wanted)).replace(":", " ")
            assert (await probe(session, (given,))).answers == [given]
            host = host_address() or "127.0.0.1"
            shut = [f"127.0.0.1 {wanted}", f"127.0.0.1 {other}", f"localhost {other}"]
            shut += [f"{address} {any_}" for address in (host, "0.0.0.0", "127.0.0.1", "::1")]
            shut += [f"{METADATA} 80", f"198.18.0.1 {any_}"]
            seen = await probe(session, tuple(shut), proxy=tuple(shut[1:]))
            # What is asked for on the way does not change where it leads: the service answers.
            lines = [
                f"CONNECT 127.0.0.1:{other} HTTP/1.1", f"GET http://127.0.0.1:{other}/ HTTP/1.1",
            ]  # fmt: skip
            argv = ["python3", "-c", ASKED, await session.driver_address(wanted), *lines]
            return seen.answers, (await session.exec(argv)).stdout.split()

    assert hold(cell, case) == ([], ["200", "200"])


def test_it_ends_for_connections_that_are_open_too(cell):
    async def case(session):
        async with service("127.0.0.1") as port:
            address = await session.driver_address(port)
            holding = asyncio.create_task(session.exec(["python3", "-c", HOLDER, address]))
            await session.exec("until [ -e held ]; do :; done", timeout_s=60)
            await session.end_driver_access()
            ended = await holding
            return ended.stdout, (await probe(session, (address.replace(":", " "),))).answers

    assert hold(cell, case) == ("cut off\n", [])


def test_whoever_takes_the_port_later_is_not_reached(cell):
    """The service ended first, as one does that a harness closes or that crashed."""

    async def case(session):
        async with service("127.0.0.1") as port:
            given = (await session.driver_address(port)).replace(":", " ")
            before = (await probe(session, (given,))).answers
        async with service("127.0.0.1", port):
            later = (await probe(session, (given,))).answers
            asked = (await session.driver_address(port)).replace(":", " ")
            return (
                before == [given],
                later,
                asked == given,
                (await probe(session, (given,))).answers,
            )

    same, later, asked, again = hold(cell, case)
    assert (same, later, asked) == (True, [], True)
    assert len(again) == 1  # who asks for it again gets the new one


def test_a_crowd_in_one_sandbox_does_not_keep_others_out(sandbox):
    async def case(session):
        other = sandbox.provider.environment()
        spec = replace(sandbox.spec(), driver_access=True)
        async with (
            service("127.0.0.1") as port,
            await other.open(spec, {"run": "escapes"}) as neighbour,
        ):
            crowd = ["python3", "-c", CROWD, await session.driver_address(port)]
            running = asyncio.create_task(session.exec(crowd))
            await session.exec("until [ -e crowded ]; do :; done", timeout_s=60)
            theirs = (await neighbour.driver_address(port)).replace(":", " ")
            seen = await probe(neighbour, (theirs,))
            await session.kill_processes()
            await asyncio.wait((running,))
            own = (await session.driver_address(port)).replace(":", " ")
            return seen.answers == [theirs], (await probe(session, (own,))).answers == [own]

    assert hold(sandbox, case) == (True, True)


def test_it_survives_a_restart_of_the_container_at_the_same_address(sandbox):
    async def case(session):
        async with service("127.0.0.1") as port:
            before = await session.driver_address(port)
            if hasattr(session, "container"):
                await session._commands._restart()
            after = (await session.driver_address(port)).replace(":", " ")
            return before.replace(":", " ") == after, (await probe(session, (after,))).answers

    same, answers = hold(sandbox, case)
    assert same
    assert len(answers) == 1
