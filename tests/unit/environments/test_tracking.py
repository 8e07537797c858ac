"""Control groups that know their members."""

import asyncio
import os
import subprocess
import sys

import pytest

from proctor.environments import cgroups, tracking

READS = "import sys; sys.stdin.read()"


@pytest.fixture(params=["newest", "oldest"])
def folder(need, request, monkeypatch):
    """In the hierarchy that is taken, and in the other one if there are two."""
    need(tracking.place(), "no control group can be made here")
    if request.param == "oldest":
        monkeypatch.setattr(tracking, "place", lambda: cgroups.own_places()[-1])
    made = tracking.new_group()
    assert made is not None
    yield made
    assert asyncio.run(tracking.end(made))
    assert not os.path.exists(made)


def started(program=READS):
    return subprocess.Popen(
        [sys.executable, "-c", program],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
    )


def test_members_are_taken_in_and_ended(folder):
    with started() as process:
        assert tracking.take_in(folder, process.pid)
        assert tracking.members(folder) == [process.pid]
        assert not tracking.remove_empty(folder)
        assert asyncio.run(tracking.end(folder))
        assert process.wait(10) == -9
    assert tracking.members(folder) == []


def test_a_group_that_starts_processes_without_end_is_ended(folder):
    """Each starts the next in a session of its own and ends: no list of them is ever complete."""
    program = "import os, sys\nsys.stdin.read(1)\nprint(flush=True)\n"
    program += "while True:\n    if os.fork():\n        os._exit(0)\n    os.setsid()\n"
    with started(program) as process:
        assert tracking.take_in(folder, process.pid)
        process.stdin.write(b"x")
        process.stdin.flush()
        process.stdout.readline()
        assert asyncio.run(tracking.end(folder))
    assert not os.path.exists(folder)


def test_who_is_in_a_group_of_its_own_stays_there(folder):
    other = tracking.new_group()
    try:
        with started() as process:
            assert tracking.take_in(other, process.pid)
            assert not tracking.take_in(folder, process.pid)
            assert tracking.members(other) == [process.pid]
            assert asyncio.run(tracking.end(other))
            process.wait(10)
    finally:
        asyncio.run(tracking.end(other))


def test_the_driver_itself_is_never_in_it(folder):
    with started() as process:
        tracking.take_in(folder, process.pid)
        assert os.getpid() not in tracking.members(folder)
        process.stdin.close()
        process.wait(10)
    assert tracking.remove_empty(folder)
    assert asyncio.run(tracking.end(folder))  # once more is fine


def test_a_group_that_is_gone_has_nobody_and_is_ended():
    gone = "/sys/fs/cgroup/proctor-agent-" + "a" * 24
    assert tracking.members(gone) == []
    assert asyncio.run(tracking.end(gone))


MOUNTS = """\
31 30 0:27 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct
33 30 0:29 /pod /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids
35 30 0:31 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw
"""


def test_groups_are_made_below_the_drivers_own(tmp_path, monkeypatch):
    (tmp_path / "mounts").write_text(MOUNTS)
    (tmp_path / "own").write_text("4:pids:/pod/7\n1:cpu,cpuacct:/x\n0::/user.slice/a.scope\n")
    monkeypatch.setattr(cgroups, "_MOUNTS", str(tmp_path / "mounts"))
    monkeypatch.setattr(cgroups, "_OWN", str(tmp_path / "own"))
    assert cgroups.own_places() == [
        "/sys/fs/cgroup/unified/user.slice/a.scope",
        "/sys/fs/cgroup/pids/7",
    ]
    assert cgroups.own_places(everywhere=True) == [
        "/sys/fs/cgroup/unified",
        "/sys/fs/cgroup/pids",
    ]
    monkeypatch.setattr(cgroups, "_MOUNTS", str(tmp_path / "none"))
    assert cgroups.own_places() == []
