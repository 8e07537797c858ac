"""Damaged, moved and owned run directories: what is mended, and what is refused."""

import json
import os
import shutil
import signal

import pytest
from tests.scenarios.runtime.killing import COMMAND, LIMIT_S, Scene, until
from tests.scenarios.runtime.plugins import Agent, Answers
from tests.scenarios.runtime.runs import resume, run

import proctor
from proctor.kernel.errors import RunDirectoryError, RunIsLive


def test_a_torn_task_record_loses_no_announced_attempt(tmp_path):
    """`task.json` is not synced: after a power failure it may be empty."""
    outcome = run(tmp_path, Answers, k=2)
    whole = next(outcome.run_dir.glob("details/*/*/task.json"))
    text = whole.read_bytes()
    before = {p: p.read_bytes() for p in outcome.run_dir.glob("details/*/*/*/result.json")}
    for torn in (b"", text[:20], b"\0" * 50):
        whole.write_bytes(torn)
        assert [t.id for t in proctor.load(outcome.run_dir).tasks()] == ["t1"]
        again = resume(outcome.run_dir)
        assert again.report.counts.reused_attempts == 2
        assert whole.read_bytes() == text
    assert {p: p.read_bytes() for p in before} == before


def test_stray_temporary_files_are_ignored(tmp_path):
    outcome = run(tmp_path, Answers, k=2)
    for path in list(outcome.run_dir.rglob("*.json")):
        path.with_name(path.name + ".tmp").write_bytes(path.read_bytes()[:30])
    again = resume(outcome.run_dir)
    assert again.report.counts.reused_attempts == 2
    assert again.report.exit_code == 0


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("result.json", lambda data: data[:40], "damaged record"),
        ("result.json", lambda data: data.replace(b'"t1"', b'"t2"'), "record is of task 't2'"),
        ("result.json", lambda data: data.replace(b'"attempt":1', b'"attempt":2'), "attempt 2"),
        (
            "result.json",
            lambda data: data.replace(b".v1", b".v9"),
            "not a proctor.attempt.v1 record",
        ),
        ("artifacts/kept.txt", lambda data: b"other", "not the recorded one"),
        ("artifacts/kept.txt", None, "artifact missing"),
    ],
)
def test_a_record_that_is_not_what_it_was_is_refused_and_nothing_changes(
    tmp_path, name, change, message
):
    class Keeps(Agent):
        async def act(self, session, task, context):
            context.artifact_path("kept.txt").write_text("evidence")
            return "a"

    outcome = run(tmp_path, Answers, Keeps)
    path = next(outcome.run_dir.glob(f"details/*/*/attempt-1/{name}"))
    if change is None:
        path.unlink()
    else:
        path.write_bytes(change(path.read_bytes()))
    before = {p: p.read_bytes() for p in outcome.run_dir.rglob("*")
              if p.is_file() and not p.name.startswith("owner")}  # fmt: skip
    with pytest.raises(RunDirectoryError, match=message):
        resume(outcome.run_dir)
    assert {p: p.read_bytes() for p in before} == before
    assert proctor.load(outcome.run_dir).status == "completed"
    assert proctor.load(outcome.run_dir).live_owner is None


def test_what_is_graded_again_is_what_the_agent_left(tmp_path):
    class Keeps(Agent):
        async def act(self, session, task, context):
            context.artifact_path("kept.txt").write_text("evidence")
            return "a"

    class Crashes(Answers):
        async def evaluate(self, prepared, result, session):
            raise OSError("no grade yet")

    outcome = run(tmp_path, Crashes, Keeps)
    next(outcome.run_dir.glob("details/*/*/attempt-1/artifacts/kept.txt")).write_text("forged")
    Crashes.evaluate = Answers.evaluate
    with pytest.raises(RunDirectoryError, match="not the recorded one"):
        resume(outcome.run_dir)


@pytest.mark.parametrize("trick", ["pipe", "link", "outside"])
def test_an_artifact_that_is_no_file_of_the_attempt_is_not_opened(tmp_path, trick):
    """A directory from elsewhere may hold a pipe, which would block the reader for ever."""

    class Keeps(Agent):
        async def act(self, session, task, context):
            context.artifact_path("kept.txt").write_text("evidence")
            return "a"

    outcome = run(tmp_path, Answers, Keeps)
    kept = next(outcome.run_dir.glob("details/*/*/attempt-1/artifacts/kept.txt"))
    kept.unlink()
    if trick == "pipe":
        os.mkfifo(kept)
    elif trick == "link":
        kept.symlink_to("/dev/zero")
    else:
        record = kept.parents[1] / "result.json"
        record.write_text(record.read_text().replace("kept.txt", "../../../../../../x"))
    with pytest.raises(RunDirectoryError, match="artifact missing"):
        resume(outcome.run_dir)


@pytest.mark.parametrize("text", [b"", b"[]", b"{}", b'{"status": "running"}', b"\xff"])
def test_a_damaged_run_info_is_refused(tmp_path, text):
    outcome = run(tmp_path, Answers)
    (outcome.run_dir / "run_info.json").write_bytes(text)
    with pytest.raises(RunDirectoryError):
        resume(outcome.run_dir)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("run_id", None), ("run_id", 7), ("run_id", "../../x"), ("run_id", "\ud800"),
        ("status", None), ("status", []), ("status", "done"),
        ("executions", 3), ("executions", "x"),
        ("reuse", "x"), ("reuse", {}), ("reuse", {"source": "/", "copied": "no"}),
        ("components", {}), ("components", {"benchmark": 5}),
    ],
)  # fmt: skip
def test_a_run_info_with_a_wrong_value_is_refused_and_stays(tmp_path, name, value):
    outcome = run(tmp_path, Answers)
    place = outcome.run_dir / "run_info.json"
    damaged = json.dumps({**json.loads(place.read_text()), name: value})
    place.write_text(damaged)
    with pytest.raises(RunDirectoryError, match=name):
        resume(outcome.run_dir)
    assert place.read_text() == damaged


def test_a_run_directory_may_be_moved(tmp_path):
    outcome = run(tmp_path, Answers, k=2)
    moved = tmp_path / "elsewhere with blanks"
    shutil.copytree(outcome.run_dir, moved)
    shutil.rmtree(tmp_path / "results")
    assert resume(moved).report.counts.reused_attempts == 2


@pytest.mark.slow
def test_a_live_run_is_refused_and_a_dead_one_is_not(tmp_path):
    scene = Scene(tmp_path, COMMAND, tasks=2, k=1, works_s=60, concurrency=2)
    process = scene.run()
    try:
        assert until(lambda: len(scene.told("run")) == 2)
        assert proctor.load(scene.run_dir).status == "running"
        with pytest.raises(RunIsLive, match=f"in use by process {process.pid} on"):
            resume(scene.run_dir)
        other = scene.resume()
        assert other.wait(LIMIT_S) == 2
        assert scene.output()["error"]["code"] == "run_is_live"
        assert process.poll() is None
    finally:
        process.kill()
        process.wait(LIMIT_S)
        for agent in scene.processes():
            os.kill(int(agent.split()[0]), signal.SIGKILL)
    assert proctor.load(scene.run_dir).status == "dead"


def test_evidence_that_cannot_be_read_is_said(tmp_path):
    """An agent's folders, deeper than a path can say."""

    class Keeps(Agent):
        async def act(self, session, task, context):
            context.artifact_path("kept.txt").write_text("evidence")
            here = os.open(context.artifact_path("kept.txt").parent, os.O_RDONLY)
            for _ in range(17):
                os.mkdir("a" * 250, dir_fd=here)
                deeper = os.open("a" * 250, os.O_RDONLY, dir_fd=here)
                os.close(here)
                here = deeper
            os.close(here)
            return "a"

    outcome = run(tmp_path, Answers, Keeps)
    assert outcome.codes() == ["warning collect agent artifacts_unreadable"]
    assert "File name too long" in outcome.record()["issues"][0]["message"]
    assert [a["path"] for a in outcome.record()["artifacts"]] == ["kept.txt"]
    assert outcome.record()["metrics"] == {"right": True}
