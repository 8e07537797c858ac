"""kill -9 at random points of a driver with sandboxes open; then `proctor env reap`.

Afterwards process table, network namespaces, interfaces, firewall tables, control groups, mounts,
containers and temporary folders are as before, and a driver that lives beside it is not touched.
By default a seeded sample of points; `scripts/test --full` kills 50 times on each provider.
"""

import json
import os
import random
import select
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from tests import engines
from tests.scenarios.environments.providers import Provider

from proctor.environments import proctable
from proctor.environments.cgroups import available
from proctor.environments.variables import SESSION_MARK

ROOT = Path(__file__).resolve().parents[3]
PROVIDERS = ("local", "bubblewrap", "docker", "podman")
STEPS = 16
SAMPLE = {"local": 3, "bubblewrap": 4, "docker": 1, "podman": 1}


class Driver:
    """`driver.py` in a process of its own."""

    def __init__(self, provider: str, kind: str, temp: Path) -> None:
        self._environ = {**os.environ, "TMPDIR": str(temp), "PYTHONPATH": str(ROOT)}
        if provider in engines.ADDRESSES:
            self._environ["DOCKER_HOST"] = engines.address(provider)
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.scenarios.environments.driver", provider, kind],
            cwd=ROOT, env=self._environ, stdin=-1, stdout=-1, text=True, bufsize=1,
        )  # fmt: skip

    def line(self) -> str:
        return self.process.stdout.readline().strip()

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()

    def reap(self) -> dict:
        """What `proctor env reap` says."""
        line = [sys.executable, "-m", "proctor", "env", "reap", "--json"]
        done = subprocess.run(line, env=self._environ, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def traces(self) -> list[str]:
        """What there is of this driver on the machine."""
        mark = f"proctor-{self.process.pid}-"
        names = (entry.name for entry in Path(self._environ["TMPDIR"]).iterdir())
        found = [name for name in names if name.startswith(mark)]
        for pid in proctable.pids():
            if proctable.variable(pid, SESSION_MARK).startswith(mark):
                found.append(f"process {pid}")
        for place in available().hierarchies:
            found += [n for n in os.listdir(place.parent) if n.startswith(mark)]
        mounts = Path("/proc/self/mounts").read_text("utf-8")
        return found + [line for line in mounts.splitlines() if mark in line]

    def containers(self) -> list[str]:
        """Its containers, on the engine that it uses."""
        import asyncio

        from proctor.environments.docker import Containers
        from proctor.environments.docker.endpoint import endpoint

        found = asyncio.run(Containers(endpoint(self._environ["DOCKER_HOST"])).list_owned())
        return [c.name for c in found if c.owner and c.owner.pid == self.process.pid]

    def networks(self) -> list[int]:
        """Descriptors of the network namespaces that its commands are in now. While they are
        open, no other namespace gets the number of one of these."""
        mark = f"proctor-{self.process.pid}-"
        found = []
        for pid in proctable.pids():
            if proctable.variable(pid, SESSION_MARK).startswith(mark):
                try:
                    found.append(os.open(f"/proc/{pid}/ns/net", os.O_RDONLY))
                except OSError:  # it has ended since
                    continue
        return found


def network_of(pid: int | str) -> str:
    try:
        return os.readlink(f"/proc/{pid}/ns/net")
    except OSError:
        return ""


def host_links() -> list[str]:
    """The host's interfaces, but for those of container engines."""
    engines_own = ("veth", "docker", "cni", "br-", "podman", "prtest")
    return sorted(n for _, n in socket.if_nameindex() if not n.startswith(engines_own))


def tables_of(pid: int) -> list[str]:
    """A driver's tables in the host's firewall."""
    done = subprocess.run(["nft", "list", "tables"], capture_output=True, text=True, check=False)
    return [line for line in done.stdout.splitlines() if f"proctor_{pid}_" in line]


@pytest.fixture
def usable(need, provider):
    reason = Provider(provider).missing()
    need(not reason, reason)
    if provider in engines.ADDRESSES:
        engines.ensure_image(provider)
    return provider


def check(provider: str, dice: random.Random, temp: Path) -> None:
    """Kill a driver at one random point and look at what is left."""
    before = host_links()
    driver = Driver(provider, "busy", temp)
    try:
        for _ in range(dice.randint(1, STEPS)):
            assert driver.line(), "the driver ended by itself"
        # Not only at the steps that it tells of: a little later, too.
        select.select([], [], [], dice.choice((0, 0.001, 0.01, 0.1)))
        held = driver.networks()
    finally:
        driver.kill()
    outcome = driver.reap()
    assert outcome["problems"] == []
    assert driver.traces() == []
    if provider in engines.ADDRESSES:
        assert driver.containers() == []
    assert host_links() == before
    assert tables_of(driver.process.pid) == []
    networks = {os.readlink(f"/proc/self/fd/{fd}") for fd in held} - {network_of("self")}
    assert not networks & {network_of(pid) for pid in proctable.pids()}
    for fd in held:
        os.close(fd)


@pytest.mark.slow
@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.every_engine
def test_nothing_of_a_killed_driver_stays_and_a_living_one_works_on(provider, usable, tmp_path):
    living = Driver(usable, "living", tmp_path)
    try:
        assert living.line() == "ready"
        held = living.traces()
        for point in range(SAMPLE[usable]):
            check(usable, random.Random(f"{usable} {point}"), tmp_path)
            living.process.stdin.write("go\n")
            assert living.line() == "fine"
            assert set(held) <= set(living.traces())
        living.process.communicate("", timeout=60)
        assert living.process.returncode == 0
        assert living.traces() == []
    finally:
        living.kill()
        living.reap()


@pytest.mark.full
@pytest.mark.parametrize("part", range(5))
@pytest.mark.parametrize("provider", PROVIDERS)
def test_fifty_random_points(provider, usable, part, tmp_path):
    for point in range(part * 10, part * 10 + 10):
        check(usable, random.Random(f"full {usable} {point}"), tmp_path)
