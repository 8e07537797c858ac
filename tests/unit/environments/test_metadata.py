"""A cloud's metadata stays out of reach for sandboxes that share the host's network."""

import asyncio
import os
import signal
import socket
import subprocess
import sys

import pytest

from proctor.environments.bubblewrap import BubblewrapEnvironment
from proctor.environments.bubblewrap.machine import machine
from proctor.environments.contract import EnvironmentSpec
from proctor.environments.netns import metadata
from proctor.environments.netns.sandbox import problem
from proctor.environments.owner import Owner
from proctor.environments.reaping import reaper
from proctor.environments.reaping.leftovers import State

NUMBER = os.getpid() % 200 + 20
ADDRESS = f"169.254.77.{NUMBER}"
"""An address of this machine for the time of a test; workers have different ones."""
KNOCK = f"import socket; socket.create_connection(({ADDRESS!r}, PORT), 5); print('reached')"
DRIVER = """
import asyncio, sys
from proctor.environments.bubblewrap import BubblewrapEnvironment
from proctor.environments.contract import EnvironmentSpec
async def main():
    async with await BubblewrapEnvironment().open(EnvironmentSpec(), {}) as session:
        assert (await session.exec("true")).ok
        print("open", flush=True)
        await asyncio.to_thread(sys.stdin.read)
asyncio.run(main())
"""


@pytest.fixture(autouse=True)
def _privileged(need):
    problems = BubblewrapEnvironment().requirements() or [problem()]
    need(not any(problems), "; ".join(problems))
    need(machine().ids is not None, "sandboxes have no user of their own here")


@pytest.fixture
def service():
    """A service on a link-local address of this machine; yields its port."""
    subprocess.run(["ip", "addr", "add", f"{ADDRESS}/32", "dev", "lo"], check=True)
    try:
        with socket.create_server((ADDRESS, 0)) as listener:
            yield listener.getsockname()[1]
    finally:
        subprocess.run(["ip", "addr", "del", f"{ADDRESS}/32", "dev", "lo"], check=True)


def tables():
    """Owners of tables, with their state."""
    found = asyncio.run(metadata.Tables().list_owned())
    return {item.owner: item.state for item in found}


def test_it_is_refused_inside_and_nowhere_else(service):
    async def case():
        async with await BubblewrapEnvironment().open(EnvironmentSpec(), {}) as session:
            return await session.exec(["python3", "-c", KNOCK.replace("PORT", str(service))])

    result = asyncio.run(case())
    assert "ConnectionRefusedError" in result.stderr
    assert "reached" not in result.stdout
    socket.create_connection((ADDRESS, service), 5).close()
    assert tables()[Owner.this_process()] is State.ALIVE


def driver():
    child = subprocess.Popen([sys.executable, "-c", DRIVER], stdin=-1, stdout=-1, text=True)
    assert child.stdout.readline() == "open\n"
    return child, next(owner for owner in tables() if owner.pid == child.pid)


def test_the_table_goes_with_the_process():
    child, owner = driver()
    assert tables()[owner] is State.ALIVE
    child.communicate("", timeout=60)
    assert child.returncode == 0
    assert owner not in tables()


def test_the_table_of_a_killed_process_is_reaped():
    child, owner = driver()
    child.kill()
    child.communicate()
    assert child.returncode == -signal.SIGKILL
    asyncio.run(reaper.reap([metadata.Tables()]))  # or somebody else has, at the start of a run
    assert owner not in tables()


def test_names_tell_everything_about_their_owner():
    owner = Owner.this_process()
    name = metadata.table_name(owner)
    (match,) = metadata._NAME.finditer(f"table inet {name}\ntable inet proctor_1\ntable ip x\n")
    assert metadata._leftover(match).owner == owner
