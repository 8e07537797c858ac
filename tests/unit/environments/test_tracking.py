"""Control groups that know their members."""

import asyncio
import os
import secrets
import subprocess
import sys

import pytest

from proctor.environments import cgroups, proctable, tracking

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


def started(program=READS, *words):
    return subprocess.Popen(
        [sys.executable, "-c", program, *words],
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


# --- what dead drivers leave

MAKES = """
import sys
from proctor.environments import tracking
tracking.place = lambda: sys.argv[1]
print(tracking.new_group(), flush=True)
"""


@pytest.fixture
def ours(need, monkeypatch):
    """A place that nobody else sweeps."""
    need(tracking.place(), "no control group can be made here")
    made = f"{tracking.place()}/proctor-test-{secrets.token_hex(6)}"
    os.mkdir(made)
    monkeypatch.setattr(tracking, "place", lambda: made)
    yield made
    asyncio.run(tracking.end(made))


@pytest.fixture
def orphan(ours):
    """A group whose driver has ended."""
    argv = [sys.executable, "-c", MAKES, ours]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=True)
    return done.stdout.strip()


def test_an_empty_group_of_a_dead_driver_is_swept(orphan):
    assert tracking.is_group(orphan)
    assert os.path.isdir(orphan)
    assert tracking.sweep() == [orphan]
    assert not os.path.exists(orphan)
    assert tracking.sweep() == []


def test_who_is_in_the_group_of_a_dead_driver_is_left_alone(orphan):
    """It may have been left running on purpose; the group goes when it has ended."""
    inner = f"{orphan}/inner"
    with started() as process:
        assert tracking.take_in(orphan, process.pid)
        os.mkdir(inner)
        assert tracking.sweep() == []
        assert os.path.isdir(inner)
        assert process.poll() is None
        process.stdin.close()
        process.wait(10)
    assert tracking.sweep() == [orphan]


def test_groups_of_living_drivers_are_left_alone(ours):
    made = tracking.new_group()
    with started(MAKES + READS, ours) as process:
        theirs = process.stdout.readline().decode().strip()
        assert tracking.sweep() == []
        assert os.path.isdir(made)
        assert os.path.isdir(theirs)
        process.stdin.close()
        process.wait(10)
    assert tracking.sweep() == [theirs]
    assert os.path.isdir(made)


def test_what_was_left_with_somebody_in_it_is_swept_when_they_have_ended(ours):
    made = tracking.new_group()
    with started() as process:
        assert tracking.take_in(made, process.pid)
        tracking.leave(made)
        assert tracking.sweep() == []
        process.stdin.close()
        process.wait(10)
    assert tracking.sweep() == [made]
    empty = tracking.new_group()
    tracking.leave(empty)
    assert not os.path.exists(empty)


def test_a_new_group_sweeps_at_most_once_in_a_while(orphan, monkeypatch):
    monkeypatch.setattr(tracking, "_swept", {})
    made = tracking.new_group()
    assert not os.path.exists(orphan)
    sweeps = []
    monkeypatch.setattr(tracking, "sweep", lambda: sweeps.append(1))
    assert tracking.remove_empty(made)
    assert tracking.remove_empty(tracking.new_group())
    assert sweeps == []
    monkeypatch.setattr(tracking, "_SWEEP_S", 0.0)
    assert tracking.remove_empty(tracking.new_group())
    assert sweeps == [1]


@pytest.mark.parametrize(
    "name",
    [
        "proctor-agent-1-1-0123456789ab.4026531836.another-boot",
        "proctor-agent-{pid}-1-0123456789ab.{namespace}.{boot}",
        "proctor-agent-999999999-1-0123456789ab.{namespace}.{boot}",
    ],
    ids=["another boot", "a later process of its number", "no process"],
)
def test_whose_driver_is_dead(name):
    here = {"namespace": proctable.pid_namespace(), "boot": proctable.boot_id()}
    name = name.format(pid=os.getpid(), **here).replace("another-boot", "a" * 36)
    assert tracking._is_of_the_dead(name)


@pytest.mark.parametrize(
    "name",
    [
        "proctor-agent-999999999-1-0123456789ab.1.{boot}",
        "proctor-agent-{pid}-{ticks}-0123456789ab.{namespace}.{boot}",
        "proctor-agent-" + "0" * 24,
        "proctor-999999999-1-0123456789ab.{namespace}.{boot}",
        "proctor-agent-999999999-1-0123456789ab.{namespace}.{boot}/x",
        "system.slice",
    ],
)
def test_whose_driver_is_not_known_to_be_dead(name):
    ticks = proctable.start_ticks(os.getpid())
    here = {"namespace": proctable.pid_namespace(), "boot": proctable.boot_id(), "ticks": ticks}
    assert not tracking._is_of_the_dead(name.format(pid=os.getpid(), **here))
