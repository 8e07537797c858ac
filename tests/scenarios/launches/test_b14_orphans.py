"""B14: resources are marked before they exist, so a stop removes exactly this run's."""

import asyncio
import json
import signal
from pathlib import Path

import pytest
from tests.scenarios.launches.process import Events, request_file, rooms_request, timed_end
from tests.scenarios.launches.stage import provider
from tests.scenarios.runtime.plugins import Agent, Answers
from tests.scenarios.runtime.runs import request

import proctor
from proctor.environments.local import LocalSession
from proctor.kernel.errors import EnvironmentFault

GRACE_S = 2.0


def rooms(place: Path) -> dict[str, int]:
    """How many rooms each run has, by its directory."""
    found: dict[str, int] = {}
    for path in (place / "registry").iterdir():
        run_dir = json.loads(path.read_text("utf-8"))["run_dir"]
        found[run_dir] = found.get(run_dir, 0) + 1
    return found


@pytest.mark.slow
def test_b14_an_interrupt_while_opening_removes_what_was_made(tmp_path, start):
    ours, theirs = Events(tmp_path / "ours"), Events(tmp_path / "theirs")
    file = request_file(tmp_path, rooms_request(tmp_path))
    other = start("run", file, events=theirs, hold="run")
    for _ in range(3):
        theirs.until("run")
    [other_dir] = rooms(tmp_path)
    first = start("run", file, "--json", events=ours, hold="open")
    for _ in range(3):
        ours.until("open")
    assert sorted(rooms(tmp_path).values()) == [3, 3]

    first.signal(signal.SIGINT)
    ended = timed_end(first, GRACE_S + 1.0)
    assert ended.code == 130
    [run] = ended.document["runs"]
    assert run["counts"] == {
        "tasks": 3, "normal": 0, "error": 0, "fatal": 0, "interrupted": 3, "attempts": 0,
        "reused_attempts": 0,
    }  # fmt: skip
    assert run["primary"]["value"] is None
    assert rooms(tmp_path) == {other_dir: 3}
    assert other.process.poll() is None
    loaded = proctor.load(run["run_dir"])
    assert loaded.status == "interrupted"
    assert {task.state for task in loaded.tasks()} == {"running"}

    # An orphan under the labels of the first run is still there when it goes on.
    orphan = tmp_path / "registry" / f"{Path(run['run_dir']).name}-t1-1.json"
    orphan.write_text(json.dumps({"run_dir": run["run_dir"]}), "utf-8")
    again = start("resume", run["run_dir"], "--json").end()
    assert again.code == 0
    assert again.document["runs"][0]["counts"]["normal"] == 3
    assert rooms(tmp_path) == {other_dir: 3, run["run_dir"]: 1}
    assert orphan.exists()

    other.signal(signal.SIGTERM)
    assert other.end().code == 143
    assert rooms(tmp_path) == {run["run_dir"]: 1}
    ours.close()
    theirs.close()


class One(Answers):
    """One task."""


def test_a_room_that_cannot_be_closed_is_a_warning_beside_the_first_error(tmp_path):
    class Sticky(LocalSession):
        async def close(self):
            await super().close()
            raise EnvironmentFault("room 17 is still there")

    class Rooms(provider("b14-sticky")):
        async def open_session(self, spec, labels):
            return Sticky(spec, labels, self._settings)

    class Failing(Agent):
        async def act(self, session, task, context):
            raise EnvironmentFault("the first error")

    report = asyncio.run(proctor.arun(request(tmp_path, One, Failing, Rooms)))
    [attempt] = proctor.load(report.run_dir).attempts()
    found = {issue["code"]: issue for issue in attempt.record["issues"]}
    assert "the first error" in attempt.record["error"]
    assert found["environment"]["severity"] == "fatal"
    assert found["cleanup_failed"]["severity"] == "warning"
    assert "room 17 is still there" in found["cleanup_failed"]["message"]


def test_a_room_that_cannot_be_opened_is_an_environment_error(tmp_path):
    class Taken(provider("b14-taken")):
        async def open_session(self, spec, labels):
            raise EnvironmentFault(f"the name {labels['task']} is taken")

    report = asyncio.run(proctor.arun(request(tmp_path, One, Agent, Taken)))
    [attempt] = proctor.load(report.run_dir).attempts()
    [issue] = attempt.record["issues"]
    assert (issue["cause"], issue["phase"], issue["severity"]) == ("environment", "open", "fatal")
    assert attempt.metrics == {}


def test_labels_tell_the_run_the_task_and_the_attempt(tmp_path):
    seen = []

    class Labelled(provider("b14-labels")):
        async def open_session(self, spec, labels):
            seen.append(dict(labels))
            return await super().open_session(spec, labels)

    report = asyncio.run(proctor.arun(request(tmp_path, One, Agent, Labelled, k=2)))
    run_dir = report.run_dir
    expected = {"run": Path(run_dir).name, "run_dir": run_dir, "task": "t1"}
    assert seen == [{**expected, "attempt": "1"}, {**expected, "attempt": "2"}]
