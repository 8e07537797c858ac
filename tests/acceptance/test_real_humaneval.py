"""HumanEval as a whole through the command line."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from tests.acceptance.command import Done, files_in, proctor, runs_in
from tests.unit.benchmarks.humaneval.test_humaneval_hostile import HOSTILE

pytestmark = pytest.mark.slow
TASKS = 164
EVERY = 4  # one answer in so many is hostile in the mixed run


def evaluated(data: Path, *words: str, cwd: Path) -> Done:
    return proctor(
        "run", "--benchmark", "humaneval", "--data", str(data), "--progress", "none", "--json",
        "--concurrency", "4", *words, cwd=cwd,
    )  # fmt: skip


def passed(done: Done) -> tuple[Any, ...]:
    """Exit code, then of the one run: normal tasks, evaluated tasks and the primary value."""
    (run,) = done.document["runs"]
    series = run["metrics"]["passed"]["avg@1"]
    assert run["primary"]["value"] == series["value"]
    assert run["counts"]["tasks"] == series["total"] == TASKS, done.err
    return done.code, run["counts"]["normal"], series["evaluated"], series["value"]


@pytest.mark.parametrize(
    ("words", "value"),
    [
        (("--harness", "none", "--model", "scripted:reference"), 1.0),
        (("--harness", "oracle"), 1.0),
        (("--harness", "nop"), 0.0),
    ],
    ids=["reference", "oracle", "nop"],
)
def test_all_or_nothing(words, value, tmp_path, shared_data):
    done = evaluated(shared_data / "human_eval", *words, cwd=tmp_path)
    assert passed(done) == (0, TASKS, TASKS, value)


def test_hostile_answers_beside_right_ones(tmp_path, shared_data):
    """Every hostile answer fails its own task; every other task passes, and nothing is left."""
    attacks = {f"HumanEval/{n * EVERY}": text for n, text in enumerate(HOSTILE.values())}
    assert 30 < len(attacks) <= TASKS // EVERY
    file = tmp_path / "rules.yaml"
    rules = [{"when": {"task": task}, "reply": {"text": t}} for task, t in attacks.items()]
    document = {"version": 1, "rules": rules, "default": {"text_from": "reference"}}
    file.write_text(json.dumps(document), "utf-8")
    before = files_in(tmp_path)
    done = evaluated(
        shared_data / "human_eval", "--harness", "none", "--model", f"scripted:{file}",
        "-p", "benchmark.time_limit_s=2", cwd=tmp_path,
    )  # fmt: skip
    right = TASKS - len(attacks)
    assert passed(done) == (0, TASKS, TASKS, right / TASKS)
    (run,) = runs_in(tmp_path)
    records = [json.loads(f.read_bytes()) for f in run.glob("details/*/*/attempt-1/result.json")]
    scores = {record["task_id"]: record["metrics"]["passed"] for record in records}
    assert {task for task, score in scores.items() if not score} == set(attacks)
    assert Counter(scores.values()) == {True: right, False: len(attacks)}
    outside = {n: c for n, c in files_in(tmp_path).items() if not n.startswith("results/")}
    assert outside == before
