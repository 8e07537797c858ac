"""Control groups: where they are found, what they limit, that they go."""

import asyncio
import os
import signal
import subprocess

import pytest

from proctor.environments import cgroups, grouping
from proctor.environments.bubblewrap import BubblewrapEnvironment
from proctor.environments.cgroups import Hierarchy, available, hierarchies
from proctor.environments.contract import EnvironmentSpec, Resources
from proctor.environments.grouping import ControlGroup, GroupLimits
from proctor.environments.network import NetworkMode, NetworkPhases, NetworkPolicy
from proctor.environments.owner import Owner
from proctor.kernel.errors import EnvironmentFault

OFF = NetworkPolicy(NetworkMode.NO_NETWORK)
OFFLINE = NetworkPhases(OFF, OFF, OFF)

pytestmark = pytest.mark.usefixtures("leak_free")


@pytest.fixture
def groups(need):
    """The hierarchies of this machine; all controllers must be usable."""
    found = available()
    need(not found.reasons, f"control groups cannot be used: {found.reasons}")
    return found.hierarchies


def own_groups():
    """The groups of this process that exist now."""
    prefix = Owner.this_process().new_name().rpartition("-")[0] + "-"
    return {
        f"{place.parent}/{name}"
        for place in available().hierarchies
        for name in os.listdir(place.parent)
        if name.startswith(prefix)
    }


def fresh_name():
    owner = Owner.this_process()
    return owner.group_name(owner.new_name())


def run(command, wishes, **more):
    """The result of one command in a new sandbox that must leave no group behind."""

    async def body():
        spec = EnvironmentSpec(network=OFFLINE, resources=wishes)
        async with await BubblewrapEnvironment().open(spec, {"run": "r"}) as session:
            result = await session.exec(command, timeout_s=60, **more)
            return result, own_groups()

    result, during = asyncio.run(body())
    assert own_groups() == set()
    return result, during


@pytest.fixture
def bubblewrap(need, groups):
    problems = BubblewrapEnvironment().requirements()
    need(not problems, "; ".join(problems))


# --- finding

V1 = """\
30 24 0:26 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755
31 30 0:27 / /sys/fs/cgroup/cpu rw,relatime shared:9 - cgroup cgroup rw,cpu,cpuacct
32 30 0:28 /pod/7 /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory
33 30 0:29 /other /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids
34 30 0:30 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,name=systemd
"""
OWN = "4:memory:/pod/7/inner\n3:pids:/elsewhere\n2:cpu,cpuacct:/\n1:name=systemd:/\n0::/a/b\n"


def test_version_1_is_found_in_its_mounts():
    assert list(hierarchies(V1, OWN)) == [
        Hierarchy(1, ("cpu",), *["/sys/fs/cgroup/cpu"] * 2),
        Hierarchy(1, ("memory",), "/sys/fs/cgroup/memory/inner", "/sys/fs/cgroup/memory"),
    ]  # the mount of pids shows another part of the hierarchy than ours


def make_v2(root, handed_down):
    """A tree of files as version 2 shows it, `handed_down` by group."""
    for group, controllers in handed_down.items():
        folder = root / group
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "cgroup.subtree_control").write_text(controllers)
        (folder / "cgroup.controllers").write_text("cpuset cpu io memory pids\n")


@pytest.mark.parametrize(
    ("handed_down", "parent", "controllers"),
    [
        ({".": "cpu memory pids", "a": "memory pids", "a/b": ""}, "a", ("memory", "pids")),
        ({".": "cpu memory pids", "a": "", "a/b": "pids"}, "a/b", ("pids",)),
        ({".": "cpu memory pids", "a": "", "a/b": ""}, ".", ("memory", "pids", "cpu")),
        ({".": "", "a": "", "a/b": ""}, ".", ("memory", "pids", "cpu")),
    ],
)
def test_version_2_is_taken_where_it_hands_controllers_down(
    tmp_path, handed_down, parent, controllers
):
    make_v2(tmp_path, handed_down)
    mounts = f"35 30 0:31 / {tmp_path} rw - cgroup2 cgroup2 rw,nsdelegate\n"
    (found,) = hierarchies(mounts, "0::/a/b\n")
    assert found == Hierarchy(2, controllers, os.path.normpath(tmp_path / parent), str(tmp_path))


def test_hybrid_machines_use_both(tmp_path):
    make_v2(tmp_path, {".": "pids", "a": "", "a/b": ""})
    mounts = V1 + f"35 30 0:31 / {tmp_path} rw - cgroup2 cgroup2 rw\n"
    versions = [(place.version, place.controllers) for place in hierarchies(mounts, OWN)]
    assert versions == [(1, ("cpu",)), (1, ("memory",)), (2, ("pids",))]


def test_why_a_controller_cannot_be_used_is_said(monkeypatch, tmp_path):
    (tmp_path / "mounts").write_text(f"31 30 0:27 / {tmp_path}/none rw - cgroup cgroup rw,memory\n")
    (tmp_path / "own").write_text("1:memory:/\n")
    monkeypatch.setattr(cgroups, "_MOUNTS", str(tmp_path / "mounts"))
    monkeypatch.setattr(cgroups, "_OWN", str(tmp_path / "own"))
    found = available.__wrapped__()
    assert found.controllers == ()
    assert "No such file" in found.reasons["memory"]
    assert "mounted" in found.reasons["pids"]


# --- groups


def test_settings_of_version_2():
    place = Hierarchy(2, ("memory", "pids", "cpu"), "/x", "/x")
    limits = GroupLimits(memory_mb=2, pids=7, cpus=1.5)
    assert dict(grouping._settings(limits, place)) == {
        "memory.max": "2097152",
        "pids.max": "7",
        "cpu.max": "150000 100000",
    }


def sleepers(group):
    """A shell with two sleeping children, all of them in the group."""
    join = 'for f; do echo 0 > "$f"; done; sleep 600 & setsid sleep 600 & echo in; wait'
    child = subprocess.Popen(["sh", "-c", join, "sh", *group.entrances], stdout=subprocess.PIPE)
    assert child.stdout.readline() == b"in\n"
    child.stdout.close()
    return child


def test_members_are_killed_and_the_group_is_removed(groups):
    async def body():
        group = ControlGroup(fresh_name(), GroupLimits(pids=50, cpus=0.5))
        assert len(own_groups()) == len(group.entrances) == 2
        child = sleepers(group)
        await asyncio.gather(group.remove(), asyncio.to_thread(child.wait, 30))
        await group.remove()
        return child.returncode

    assert asyncio.run(body()) == -signal.SIGKILL
    assert own_groups() == set()


def test_a_group_that_cannot_be_made_leaves_nothing(groups):
    name = fresh_name()
    with pytest.raises(EnvironmentFault) as caught:
        ControlGroup(name, GroupLimits(pids=-1, cpus=1))
    assert caught.value.fault_code == "cannot_start"
    assert own_groups() == set()


# --- sandboxes

EAT = """
import os, sys
def eat(more):
    held = bytearray(60_000_000)
    for at in range(0, len(held), 4096): held[at] = 1
    os.write(1, b'+')
    if more == 1: return 0
    child = os.fork()
    if child == 0: os._exit(eat(more - 1))
    return 3 if os.waitpid(child, 0)[1] else held[0] - 1
sys.exit(eat(int(sys.argv[1])))
"""
"""So many processes that hold 60 MB each, all at the same time."""


def test_memory_counts_for_all_processes_together_and_is_told_apart(bubblewrap):
    many, during = run(["python3", "-c", EAT, "8"], Resources(memory_mb=200))
    assert many.out_of_memory
    assert not many.ok
    assert during
    few, _ = run(["python3", "-c", EAT, "1"], Resources(memory_mb=200))
    assert (few.ok, few.out_of_memory) == (True, False)


def test_a_crash_is_not_out_of_memory(bubblewrap):
    crash, _ = run("kill -SEGV $$", Resources(memory_mb=200))
    assert not crash.ok
    assert not crash.out_of_memory


def test_a_command_may_have_limits_of_its_own(bubblewrap):
    own = Resources(memory_mb=100)
    eaten, during = run(["python3", "-c", EAT, "3"], Resources(), resources=own)
    assert eaten.out_of_memory
    assert during == set(), "the command's group outlived it"


def test_processes_are_counted_for_all_commands_together(bubblewrap):
    async def body():
        spec = EnvironmentSpec(network=OFFLINE, resources=Resources(pids=40))
        async with await BubblewrapEnvironment().open(spec, {"run": "r"}) as session:
            bomb = "import os, time\nfor _ in range(60):\n  if not os.fork(): time.sleep(600)"
            results = await asyncio.gather(
                *(session.exec(["python3", "-c", bomb], timeout_s=60) for _ in range(2))
            )
            return [result.ok for result in results]

    assert asyncio.run(body()) == [False, False]
    assert own_groups() == set()


def test_processor_time_is_shared_out(bubblewrap):
    burn = "import time, resource\nend = time.monotonic() + 1\nwhile time.monotonic() < end: pass\n"
    burn += "u = resource.getrusage(resource.RUSAGE_SELF)\nprint(u.ru_utime + u.ru_stime)"
    result, _ = run(["python3", "-c", burn], Resources(cpus=0.25))
    assert float(result.stdout) < 0.6  # without the limit, up to 1 s of processor time
