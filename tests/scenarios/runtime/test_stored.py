"""B02 and B05: real processes, killed and short of disk space, and what is stored of them."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from tests.scenarios.runtime.killing import COMMAND, LIMIT_S, Scene, examine, resumed

import proctor

AGENT = """
import os
async def agent(task, session, model):
    with open({log!r}, "a") as log:
        log.write(f"{{task.id}}\\n")
    reply = await model.complete([{{"role": "user", "content": task.input}}])
    return reply.text
"""


@pytest.mark.slow
def test_replaying_from_storage_gives_the_same_distinct_observations(tmp_path):
    """B02: killed after attempt 3 is stored and before anything is summed up."""
    log = tmp_path / "calls"
    (tmp_path / "agent.py").write_text(AGENT.format(log=str(log)))
    rule = {"when": {"task": "t1"}, "by": "attempt", "replies": ["no", "yes", "no"]}
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump({"version": 1, "rules": [rule]}))
    (tmp_path / "rows.jsonl").write_text('{"id": "t1", "input": "?", "target": "yes"}\n')
    arguments = [
        "run", "--benchmark", "table", "--data", "rows.jsonl", "--harness", "python",
        "-p", "harness.callable=agent.py:agent", "--model", "scripted:rules.yaml", "-k", "3",
        "--run-id", "r", "--progress", "none",
    ]  # fmt: skip
    faults = ["--at", "summary.begin", "--do", "kill", "--"]
    assert _python(tmp_path, "proctor.testing.faults", *faults, *arguments) == -signal.SIGKILL
    assert log.read_text("utf-8").count("\n") == 3
    run_dir = next(tmp_path.glob("results/*/*/*/r"))
    assert proctor.load(run_dir).status == "dead"
    assert _python(tmp_path, "proctor", "resume", str(run_dir)) == 0
    assert log.read_text("utf-8").count("\n") == 3
    found = proctor.load(run_dir)
    assert [a.final_answer for a in found.attempts()] == ["no", "yes", "no"]
    values = {name: s.value for name, s in found.metrics.series["correct"].items()}
    assert values["avg@3"] == values["pass@1"] == pytest.approx(1 / 3)
    assert values["pass@3"] == 1.0


def _python(place: Path, module: str, *arguments: str) -> int:
    done = subprocess.run(
        [sys.executable, "-m", module, *arguments],
        cwd=place, capture_output=True, timeout=LIMIT_S, check=False,
    )  # fmt: skip
    return done.returncode


@pytest.mark.slow
def test_killed_right_after_the_second_announcement_only_the_third_runs(tmp_path):
    """B05: log lines are run.started, then one an attempt."""
    scene = Scene(tmp_path, COMMAND, tasks=1, k=3)
    process = scene.run(("--at", "log.done", "--hit", "3", "--do", "kill"))
    assert process.wait(LIMIT_S) == -signal.SIGKILL
    left = examine(scene)
    assert left.announced == {("t1", 1), ("t1", 2)}
    resumed(scene, left)
    assert scene.told("run") == {("t1", 1): 1, ("t1", 2): 1, ("t1", 3): 1}


@pytest.mark.slow
def test_a_disk_that_is_full_half_way_through_a_record_ends_the_run_and_loses_nothing(tmp_path):
    """B05: the fourth record meets `no space left` after half of its bytes."""
    scene = Scene(tmp_path, COMMAND, tasks=2, k=3, concurrency=1)
    process = scene.run(("--at", "result.partial", "--hit", "4", "--do", "enospc"))
    assert process.wait(LIMIT_S) == 3
    report = scene.output()["runs"][0]
    assert report["status"] == "failed"
    assert "No space left on device" in report["error"]
    assert "proctor resume" in report["error"]
    left = examine(scene)
    assert left.announced == {("t1", 1), ("t1", 2), ("t1", 3)}
    found = proctor.load(scene.run_dir)
    assert (found.status, found.live_owner) == ("failed", None)
    assert "No space left" in found.info["error"]
    stray = scene.run_dir / "details" / "running" / "t2.json.tmp"
    stray.write_bytes(b'{"half')
    resumed_process = scene.resume()
    assert resumed_process.wait(LIMIT_S) == 0
    assert scene.output()["runs"][0]["counts"]["reused_attempts"] == 3
    after = scene.files("result.json")
    assert {key: after[key] for key in left.results} == left.results
    assert set(after) == scene.grid
    assert set(scene.told("run", resumed_process.pid)) == {("t2", 2), ("t2", 3)}
