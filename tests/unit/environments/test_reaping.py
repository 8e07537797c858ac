"""What dead drivers left is found by its owner's mark; what lives is never touched."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from proctor.environments import proctable
from proctor.environments.cgroups import available
from proctor.environments.owner import MARKER, Owner, group_in_name
from proctor.environments.reaping import host, reaper
from proctor.environments.reaping.leftovers import Leftover, State, state_of
from proctor.environments.variables import SESSION_MARK
from proctor.kernel.errors import EnvironmentFault

HERE = Owner.this_process()


@pytest.fixture(scope="module")
def dead():
    """A driver of this boot and pid namespace that has ended."""
    with subprocess.Popen(["sleep", "600"]) as child:
        ticks = proctable.start_ticks(child.pid)
        child.kill()
    return replace(HERE, pid=child.pid, started_ticks=ticks)


@pytest.fixture(autouse=True)
def temp(tmp_path, monkeypatch):
    """The folder of temporary files: one of our own, where nobody else cleans up."""
    place = tmp_path / "temp"
    place.mkdir()
    monkeypatch.setattr(host, "temp_dir", lambda: str(place))
    monkeypatch.setenv("TMPDIR", str(place))
    return place


@pytest.fixture
def place(temp):
    """Makes folders as an owner would."""

    def make(owner, labels=None, *, marker=True):
        path = temp / owner.new_name()
        path.mkdir(mode=0o700)
        if marker:
            (path / MARKER).write_bytes(owner.marker("local", labels or {}))
        return path

    return make


def reaped(**options):
    outcome = asyncio.run(reaper.reap(**options))
    assert outcome.problems == []
    return {item.name for item in outcome.removed}


def listed():
    found, problems = asyncio.run(reaper.list_owned())
    assert problems == []
    return {item.name: item for item in found}


# --- who lives


def test_a_driver_is_dead_only_for_sure(dead):
    assert state_of(HERE) is State.ALIVE
    assert state_of(replace(HERE, boot_id="another", namespace="7")) is State.ALIVE
    assert state_of(dead) is State.DEAD
    assert state_of(replace(dead, namespace="7")) is State.UNKNOWN
    assert state_of(replace(dead, boot_id="")) is State.UNKNOWN
    assert state_of(replace(dead, boot_id="another", namespace="7")) is State.DEAD
    # A new process has got the id of a driver that ended.
    assert state_of(replace(HERE, started_ticks=HERE.started_ticks - 1)) is State.DEAD


# --- folders


def test_folders_of_the_dead_go_and_those_of_the_living_stay(place, dead):
    living, gone = place(HERE), place(dead, {"run": "r", "attempt": "1"})
    locked = gone / "locked"
    locked.mkdir()
    (locked / "file").write_text("x")
    locked.chmod(0)
    found = listed()
    assert found[living.name].state is State.ALIVE
    assert found[gone.name].state is State.DEAD
    assert found[gone.name].to_json()["labels"] == {"run": "r", "attempt": "1"}
    assert gone.name in reaped(dry_run=True)
    assert gone.exists()
    assert gone.name in reaped()
    assert not gone.exists()
    assert living.exists()
    assert gone.name not in reaped()


def test_a_look_tells_whether_there_is_something_to_do(temp, dead):
    assert not reaper.something_is_left()
    (temp / HERE.new_name()).mkdir()
    (temp / "proctor-something-else").mkdir()
    assert not reaper.something_is_left()
    (temp / dead.new_name()).mkdir()
    assert reaper.something_is_left()


@pytest.mark.parametrize("label", ["kept", "resumable"])
def test_what_is_kept_stays_until_somebody_asks(place, dead, label):
    kept = place(dead, {label: "true"})
    assert listed()[kept.name].spared
    assert kept.name not in reaped()
    assert kept.exists()
    assert kept.name in reaped(kept=True)
    assert not kept.exists()


def test_a_driver_killed_in_the_first_instant(place, dead):
    bare, half = place(dead, marker=False), place(dead, marker=False)
    (half / MARKER).write_text('{"pid": 1')
    living = place(HERE, marker=False)
    assert {bare.name, half.name} <= reaped()
    assert living.exists()


def test_a_marker_that_contradicts_its_name_settles_nothing(place, dead):
    other = replace(dead, started_ticks=dead.started_ticks + 1)
    forged = place(dead, marker=False)
    (forged / MARKER).write_bytes(other.marker("local", {}))
    odd = place(dead, marker=False)
    (odd / MARKER).symlink_to("/etc/hostname")  # not followed
    (odd / "file").write_text("x")
    os.mkfifo(place(dead, marker=False) / MARKER)  # must not block
    living = place(HERE, marker=False)
    (living / MARKER).write_bytes(replace(dead, boot_id="another").marker("local", {}))
    names = reaped()
    assert not names & {forged.name, odd.name, living.name}
    assert listed()[odd.name].state is State.UNKNOWN


def test_links_are_no_folders_of_ours(dead, temp, tmp_path):
    (tmp_path / "precious").write_text("x")
    link = temp / dead.new_name()
    link.symlink_to(tmp_path)
    assert link.name not in listed()
    assert link.name not in reaped()
    assert (tmp_path / "precious").exists()


# --- processes


def sleeper(name, **more):
    """A sleeping process that was started in the session `name`."""
    return subprocess.Popen(
        ["sleep", "600"], env={SESSION_MARK: name}, start_new_session=True, **more
    )


def test_processes_of_the_dead_are_killed_whatever_group_they_made(dead):
    name, living = dead.new_name(), HERE.new_name()
    ours, theirs, other = sleeper(living), sleeper(name), sleeper("something")
    try:
        reaped()  # or somebody else has, at the start of a run
        assert theirs.wait(30) == -signal.SIGKILL
        assert ours.poll() is None
        assert other.poll() is None
    finally:
        for child in (ours, theirs, other):
            child.kill()
            child.wait()


def test_processes_of_another_pid_namespace_are_not_ours_to_judge(dead, need):
    need(os.geteuid() == 0, "making a pid namespace takes root")
    name = dead.new_name()
    script = "echo up; read x; exit 7"
    inside = subprocess.Popen(
        ["unshare", "--fork", "--pid", "sh", "-c", script], env={SESSION_MARK: name, **os.environ},
        stdin=-1, stdout=-1,
    )  # fmt: skip
    try:
        assert inside.stdout.readline() == b"up\n"
        mine = [i for i in asyncio.run(reaper.list_owned())[0] if i.name == name]
        # Only `unshare` itself, which is still in our namespace.
        assert [item.where for item in mine] == [str(inside.pid)]
    finally:
        inside.communicate(b"\n", timeout=30)
    assert inside.returncode == 7


# --- control groups


def test_groups_of_the_dead_are_removed_with_their_members(dead, need):
    need(not available().reasons, "control groups cannot be used here")
    parents = [place.parent for place in available().hierarchies]
    names = {owner: owner.group_name(owner.new_name()) for owner in (dead, HERE)}
    made = [os.path.join(parent, name) for parent in parents for name in names.values()]
    for folder in made:
        os.mkdir(folder)
    member = subprocess.Popen(["sleep", "600"], start_new_session=True)
    try:
        for folder in made:
            if group_in_name(os.path.basename(folder)) == dead:
                Path(folder, "cgroup.procs").write_text(str(member.pid))
        removed = reaped()  # or somebody else has, at the start of a run
        member.wait(30)
        assert names[HERE] not in removed
        assert [f for f in made if os.path.isdir(f)] == [
            os.path.join(parent, names[HERE]) for parent in parents
        ]
    finally:
        member.kill()
        member.wait()
        for folder in made:
            if os.path.isdir(folder):
                os.rmdir(folder)


# --- providers


class Boxes:
    """A provider's own things, some of which cannot be removed."""

    rank = 1

    def __init__(self, *items):
        self.left = list(items)

    async def list_owned(self):
        return list(self.left)

    async def remove(self, item):
        if item.name == "stuck":
            raise EnvironmentFault("it is stuck")
        self.left.remove(item)


def test_a_provider_adds_its_own_and_one_failure_stops_nothing(dead):
    boxes = Boxes(
        Leftover("box", "stuck", dead), Leftover("box", "theirs", HERE),
        Leftover("box", "nobody's", None), Leftover("box", "old", dead),
    )  # fmt: skip
    outcome = asyncio.run(reaper.reap([boxes]))
    assert [item.name for item in outcome.removed if item.kind == "box"] == ["old"]
    assert outcome.problems == ["box stuck: it is stuck"]
    assert [item.name for item in boxes.left] == ["stuck", "theirs", "nobody's"]


def test_what_a_process_had_just_started_goes_too(dead):
    class Growing(Boxes):
        """Removing one brings another to light, as a shell that is killed leaves a new child."""

        async def remove(self, item):
            await super().remove(item)
            if item.name != "3":
                self.left.append(Leftover("box", str(int(item.name) + 1), dead))

    boxes = Growing(Leftover("box", "1", dead))
    outcome = asyncio.run(reaper.reap([boxes], dry_run=True))
    assert [item.name for item in outcome.removed if item.kind == "box"] == ["1"]
    outcome = asyncio.run(reaper.reap([boxes]))
    assert [item.name for item in outcome.removed if item.kind == "box"] == ["1", "2", "3"]
    assert boxes.left == []


def test_a_provider_that_does_not_answer_is_a_problem(dead):
    class Silent(Boxes):
        async def list_owned(self):
            raise EnvironmentFault("no engine")

    _, problems = asyncio.run(reaper.list_owned([Silent()]))
    assert "no engine" in problems
    assert asyncio.run(reaper.reap([Silent()])).problems == ["no engine"]


# --- the commands


def command(*words):
    done = subprocess.run(
        [sys.executable, "-m", "proctor", "env", *words],
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


def test_the_commands_list_and_remove(place, dead):
    gone, living = place(dead, {"run": "r-1"}), place(HERE)
    code, out, _ = command("list")
    rows = {line.split()[-1]: line.split() for line in out.splitlines()}
    assert code == 0
    assert rows[gone.name][:5] == ["dead", "folder", "local", str(dead.pid), "r-1"]
    assert rows[living.name][0] == "alive"
    listed_json = json.loads(command("list", "--json")[1])
    states = {item["name"]: item["state"] for item in listed_json["owned"]}
    assert (states[gone.name], states[living.name]) == ("dead", "alive")
    code, out, _ = command("reap", "--dry-run")
    assert code == 0
    assert out.startswith("would remove ")
    assert f"folder {gone.name}" in out
    assert gone.exists()
    document = json.loads(command("reap", "--json")[1])
    assert gone.name in {item["name"] for item in document["removed"]}
    assert document["problems"] == []
    assert not gone.exists()
    assert living.exists()


def test_names_of_folders_cannot_fool_the_terminal(place, dead):
    trap = place(dead, {"run": "a\x1b[2Jb\nc", "kept": "true"})
    assert "\x1b" not in command("list")[1]
    assert trap.exists()
