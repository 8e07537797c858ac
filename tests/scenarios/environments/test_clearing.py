"""A run removes what dead drivers left before it opens environments of its own."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from tests.scenarios.runtime.plugins import Agent, Answers
from tests.scenarios.runtime.runs import run

from proctor.environments import proctable
from proctor.environments.contract import Environment
from proctor.environments.local import LocalEnvironment
from proctor.environments.owner import MARKER, Owner
from proctor.environments.reaping import host
from proctor.environments.reaping.leftovers import Leftover
from proctor.kernel.errors import EnvironmentFault

HERE = Owner.this_process()


@pytest.fixture
def dead():
    with subprocess.Popen(["sleep", "600"]) as child:
        ticks = proctable.start_ticks(child.pid)
        child.kill()
    return replace(HERE, pid=child.pid, started_ticks=ticks)


@pytest.fixture
def temp(tmp_path, monkeypatch):
    place = tmp_path / "temp"
    place.mkdir()
    monkeypatch.setattr(host, "temp_dir", lambda: str(place))
    return place


def folder(temp: Path, owner: Owner, **labels: str) -> Path:
    path = temp / owner.new_name()
    path.mkdir()
    (path / MARKER).write_bytes(owner.marker("local", labels))
    return path


def test_leftovers_of_the_dead_are_gone_when_the_first_task_starts(tmp_path, temp, dead):
    gone, living, kept = folder(temp, dead), folder(temp, HERE), folder(temp, dead, kept="true")
    seen = []

    class Looks(Agent):
        async def act(self, session, task, context):
            seen.extend(sorted(os.listdir(temp)))
            return "a"

    outcome = run(tmp_path, Answers, Looks, evaluation_mode="none")
    assert outcome.report.exit_code == 0
    assert set(seen) == {living.name, kept.name}
    assert not gone.exists()


class Boxes:
    """A source whose things cannot be removed."""

    rank = 1

    def __init__(self, owner):
        self.item = Leftover("box", "stuck", owner)

    async def list_owned(self):
        return [self.item]

    async def remove(self, item):
        raise EnvironmentFault("it is stuck")


def test_what_cannot_be_removed_is_said_and_stops_nothing(tmp_path, temp, dead):
    class Boxing(LocalEnvironment):
        id = "boxing"

        def owned(self):
            return Boxes(dead)

    outcome = run(tmp_path, Answers, Agent, Boxing, evaluation_mode="none")
    assert outcome.report.exit_code == 0
    assert outcome.report.counts.normal == 1


def test_a_provider_owns_nothing_else_by_default():
    assert Environment.owned(LocalEnvironment()) is None


def test_an_environment_that_was_kept_is_marked_so(tmp_path):
    """`--keep-environment`, by a driver that then ends: its folder stays until somebody asks."""
    place = tmp_path / "temp"
    place.mkdir()
    environ = {**os.environ, "TMPDIR": str(place)}
    (tmp_path / "rows.jsonl").write_text('{"id": "1", "input": "x", "target": "x"}\n')
    line = [sys.executable, "-m", "proctor"]
    asked = ["--benchmark", "table", "--data", "rows.jsonl", "--harness", "command", "-p",
             "harness.command=cat", "--keep-environment", "--progress", "none"]  # fmt: skip
    subprocess.run([*line, "run", *asked], cwd=tmp_path, env=environ, check=True)
    (kept,) = place.iterdir()
    reap = [*line, "env", "reap"]
    listed = subprocess.run(
        [*line, "env", "list"], env=environ, capture_output=True, text=True, check=True
    )
    assert "kept     folder         local" in listed.stdout
    subprocess.run(reap, env=environ, check=True)
    assert kept.exists()
    subprocess.run([*reap, "--kept"], env=environ, check=True)
    assert not kept.exists()
