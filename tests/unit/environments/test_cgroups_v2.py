"""Control groups of version 2 on the kernel itself, also where the usual controllers are bound to
version 1: finding and handing down, joining, killing, removing. What they limit there is what files
of version 2 are set to, which the other module checks on machines that have them.
"""

import os
import subprocess
from pathlib import Path

import pytest

from proctor.environments import cgroups, grouping
from proctor.environments.cgroups import Hierarchy
from proctor.environments.contract import Resources
from proctor.environments.grouping import ControlGroup, GroupLimits
from proctor.environments.owner import Owner
from proctor.kernel.errors import EnvironmentFault


@pytest.fixture
def unified(need, tmp_path):
    """A hierarchy of version 2: where it is mounted, else mounted for the test."""
    need(os.geteuid() == 0, "control groups of version 2 are tried by root only")
    for line in Path("/proc/self/mountinfo").read_text("utf-8").splitlines():
        fields, _, rest = line.partition(" - ")
        if rest.startswith("cgroup2 "):
            yield fields.split()[4]
            return
    place = tmp_path / "unified"
    place.mkdir()
    done = subprocess.run(["mount", "-t", "cgroup2", "none", str(place)], check=False)
    need(done.returncode == 0, "no hierarchy of version 2 can be mounted")
    yield str(place)
    subprocess.run(["umount", str(place)], check=True)


@pytest.fixture
def free(unified, need):
    """A controller that version 2 has here and hands to nobody yet; handed back at the end."""
    handed = f"{unified}/cgroup.subtree_control"
    offered = set(cgroups.read(f"{unified}/cgroup.controllers").split())
    left = sorted(offered - set(cgroups.read(handed).split()))
    need(left or offered, "version 2 has no controller here")
    yield left[0] if left else sorted(offered)[0]
    if left:
        cgroups.write(handed, f"-{left[0]}")


@pytest.fixture
def folder(unified):
    """A group of our own, gone at the end."""
    place = f"{unified}/proctor-test-{os.getpid()}"
    os.mkdir(place)
    yield place
    for inner in sorted(Path(place).rglob("*/"), reverse=True):
        grouping.remove_group(str(inner))
    assert grouping.remove_group(place)


def found_by_the_texts_of_the_kernel():
    texts = [Path(f"/proc/self/{name}").read_text("utf-8") for name in ("mountinfo", "cgroup")]
    return [place for place in cgroups.hierarchies(*texts) if place.version == 2]


def test_a_controller_of_version_2_is_found_and_handed_down(unified, free, monkeypatch):
    monkeypatch.setattr(cgroups, "CONTROLLERS", (free,))
    (place,) = found_by_the_texts_of_the_kernel()
    assert place == Hierarchy(2, (free,), unified, unified)
    assert cgroups._problem(place) == ""
    assert free in cgroups.read(f"{unified}/cgroup.subtree_control").split()
    probes = [name for name in os.listdir(unified) if name.startswith("proctor-probe")]
    assert probes == []


def test_a_group_with_processes_hands_nothing_down_and_says_so(folder, free, unified):
    cgroups.write(f"{unified}/cgroup.subtree_control", f"+{free}")
    with subprocess.Popen(["sleep", "600"]) as child:
        try:
            cgroups.write(f"{folder}/cgroup.procs", str(child.pid))
            problem = cgroups._problem(Hierarchy(2, (free,), folder, unified))
            assert problem.startswith(f"no control group can be made in {folder}: ")
        finally:
            child.kill()


def test_members_are_killed_and_the_group_is_removed(folder):
    group = f"{folder}/inner"
    os.mkdir(group)
    script = f"echo 0 > {group}/cgroup.procs && (setsid sleep 600 & echo $!; exec sleep 600)"
    with subprocess.Popen(["sh", "-c", script], stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        other = int(child.stdout.readline())
        assert set(grouping.members(group)) >= {child.pid, other}
        while not grouping.remove_group(group):  # until the kernel has let go of the dead
            pass
        assert child.wait(timeout=60) == -9
    assert grouping.members(group) == []
    assert not os.path.exists(group)


def test_limits_that_cannot_be_set_leave_no_group(folder, unified, monkeypatch):
    """`folder` hands no controllers down, so a group in it has no file for a limit."""
    place = Hierarchy(2, ("pids",), folder, unified)
    monkeypatch.setattr(grouping, "available", lambda: cgroups.Found((place,), {}))
    owner = Owner.this_process()
    with pytest.raises(EnvironmentFault) as caught:
        ControlGroup(owner.group_name(owner.new_name()), GroupLimits.of(Resources(pids=5)))
    assert caught.value.fault_code == "cannot_start"
    assert [entry for entry in os.listdir(folder) if entry.startswith("proctor")] == []
