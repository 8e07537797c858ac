"""What reaches the disk before an attempt is announced: counted and in order."""

import os
from pathlib import Path

import pytest
from tests.scenarios.runtime.plugins import Agent, Answers, Ten
from tests.scenarios.runtime.runs import run

from proctor.kernel import faults


@pytest.fixture
def history(monkeypatch):
    """Syncs (the synced name) and fault points, in the order in which they happen."""
    found: list[str] = []
    original = os.fsync

    def fsync(fd: int) -> None:
        found.append("sync " + Path(f"/proc/self/fd/{fd}").readlink().name)
        original(fd)

    monkeypatch.setattr(os, "fsync", fsync)
    faults.install(found.append)
    yield found
    faults.install(None)


def _of_the_attempt(history: list[str]) -> list[str]:
    """From the first write of the attempt's records to its announcement."""
    start = min(history.index(p) for p in ("result.begin", "run.begin") if p in history)
    announced = [i for i, p in enumerate(history) if p == "log.begin"][1]  # after run.started
    return [p for p in history[start : announced + 1] if p.startswith("sync") or ".b" in p]


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        ("reuse", ["result.begin", "sync result.json.tmp", "sync attempt-1", "log.begin"]),
        ("none", ["run.begin", "sync run.json", "result.begin", "sync result.json.tmp",
                  "sync attempt-1", "log.begin"]),
    ],
)  # fmt: skip
def test_a_record_and_its_directory_are_synced_before_the_announcement(
    tmp_path, history, mode, expected
):
    run(tmp_path, Answers, evaluation_mode=mode)
    assert _of_the_attempt(history) == expected


def test_strict_durability_syncs_every_ancestor_too(tmp_path, history):
    outcome = run(tmp_path, Answers, evaluation_mode="reuse", durability="strict")
    synced = [p.removeprefix("sync ") for p in _of_the_attempt(history) if p.startswith("sync")]
    task = next(outcome.run_dir.glob("details/normal/*")).name
    assert synced == [
        "result.json.tmp", "attempt-1", "attempt-1", task, "running", "details",
        outcome.run_dir.name,
    ]  # fmt: skip


def test_syncs_grow_by_two_an_attempt(tmp_path, history):
    run(tmp_path, Ten, k=2, evaluation_mode="reuse")
    syncs = sum(p.startswith("sync") for p in history)
    run_level = 2 * 2 + 2  # run_info twice, the summary once, each with its directory
    assert syncs == 2 * 20 + run_level


def test_nothing_is_rewritten_and_no_folder_is_empty(tmp_path, history):
    outcome = run(tmp_path, Ten, k=3, evaluation_mode="reuse")
    begun = {role: history.count(f"{role}.begin") for role in ("task", "result", "plans", "state")}
    assert begun == {"task": 10, "result": 30, "plans": 30, "state": 10}
    empty = [p for p in outcome.run_dir.rglob("*") if p.is_dir() and not any(p.iterdir())]
    assert empty == []
    assert sorted(p.name for p in outcome.run_dir.iterdir()) == [
        "details", "logs", "owner.json", "owner.lock", "plans.jsonl", "run_info.json",
        "summary.json", "summary.md",
    ]  # fmt: skip
    assert [p.name for p in (outcome.run_dir / "logs").iterdir()] == ["run.jsonl"]


def test_plans_that_are_alike_are_written_once(tmp_path):
    outcome = run(tmp_path, Ten, Agent, k=2)
    lines = (outcome.run_dir / "plans.jsonl").read_text("utf-8").splitlines()
    assert (len(lines), sum('"plan":' in line for line in lines)) == (20, 1)
