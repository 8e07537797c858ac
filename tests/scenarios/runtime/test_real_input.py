"""Real data through the command line: GSM8K and HumanEval as tables of somebody else."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

import proctor

ROWS = 1319
LIMIT_S = 1200.0
pytestmark = pytest.mark.slow


def run(place: Path, *arguments: str) -> dict[str, Any]:
    """`proctor run … --json` in `place`; the run's part of the document, and its exit code."""
    done = subprocess.run(
        [sys.executable, "-m", "proctor", "run", *arguments, "--progress", "none", "--json"],
        cwd=place, env={**os.environ, "TMPDIR": str(place)}, capture_output=True, text=True,
        timeout=LIMIT_S, check=False,
    )  # fmt: skip
    assert done.stdout, done.stderr
    (report,) = json.loads(done.stdout)["runs"]
    return {**report, "exit_code": done.returncode}


# --- GSM8K: ids are line numbers, the agent looks its answer up by PROCTOR_TASK_ID


Answer = Callable[[int, str], str]
"""Line number and the right number → what the agent says."""

RIGHT: list[Answer] = [
    lambda n, right: right,
    lambda n, right: f"First 17, then 3.5, so the answer is ${right}.",
    lambda n, right: f"x = {right}.00 (100% sure: {right})",
]
WRONG: list[Answer] = [
    lambda n, right: f"{right}1",
    lambda n, right: f"It is {right}, or rather {n + 1_000_000_007}",
    lambda n, right: "",
    lambda n, right: "  ",
    lambda n, right: "I do not know.",
]


def gsm8k(place: Path, data: Path, says: Callable[[int, int], Answer], k: int) -> list[str]:
    """Write the agent's answers and give the arguments of a run."""
    rights = [json.loads(line)["answer"].rsplit("#### ", 1)[1].replace(",", "")
              for line in data.read_text("utf-8").split("\n") if line]  # fmt: skip
    assert len(rights) == ROWS
    for attempt in range(1, k + 1):
        lines = [says(n, attempt)(n, right) for n, right in enumerate(rights, start=1)]
        (place / f"answers-{attempt}").write_text("\n".join(lines) + "\n", "utf-8")
    find = f"awk -v n=$PROCTOR_TASK_ID 'NR == n {{print; exit}}' {place}/answers-$PROCTOR_ATTEMPT"
    return [
        "--benchmark", "table", "--data", str(data), "--harness", "command",
        "-p", "benchmark.columns.input=question", "-p", "benchmark.columns.target=answer",
        "-p", "benchmark.scorer=numeric", "-p", f"harness.command={find}", "-k", str(k),
    ]  # fmt: skip


def test_gsm8k_one_attempt(tmp_path, shared_data):
    answers = RIGHT + WRONG
    arguments = gsm8k(
        tmp_path, shared_data / "gsm8k" / "test.jsonl", lambda n, _: answers[n % len(answers)], k=1
    )
    report = run(tmp_path, *arguments)
    assert report["exit_code"] == 0
    kinds = [n % len(answers) for n in range(1, ROWS + 1)]
    right = sum(kind < len(RIGHT) for kind in kinds)
    unparsed = sum(kind >= len(RIGHT) + 2 for kind in kinds)
    series = report["metrics"]["correct"]["avg@1"]
    assert series["value"] == right / ROWS
    assert (series["evaluated"], series["unavailable"], series["total"]) == (ROWS, 0, ROWS)
    assert report["counts"] == {
        "tasks": ROWS, "normal": ROWS, "error": 0, "fatal": 0, "interrupted": 0,
        "attempts": ROWS, "reused_attempts": 0,
    }  # fmt: skip
    found = proctor.load(report["run_dir"])
    assert found.summary["issues"] == {"unparsed_answer": unparsed}
    scores = {a.task_id: a.metrics["correct"] for a in found.attempts()}
    assert scores == {str(n): n % len(answers) < len(RIGHT) for n in range(1, ROWS + 1)}


PLAYS = ["yyy", "nyn", "nnn", "nny", "yyn"]
"""What a task's three attempts are, by its line number."""


def test_gsm8k_three_attempts(tmp_path, shared_data):
    def says(n: int, attempt: int) -> Answer:
        right = PLAYS[n % len(PLAYS)][attempt - 1] == "y"
        choices = RIGHT if right else WRONG
        return choices[(n + attempt) % len(choices)]

    arguments = gsm8k(tmp_path, shared_data / "gsm8k" / "test.jsonl", says, k=3)
    report = run(tmp_path, *arguments)
    assert report["exit_code"] == 0
    assert (report["counts"]["normal"], report["counts"]["attempts"]) == (ROWS, 3 * ROWS)
    successes = [PLAYS[n % len(PLAYS)].count("y") for n in range(1, ROWS + 1)]
    expected = {
        "avg@3": Fraction(sum(successes), 3 * ROWS),
        "pass@1": Fraction(sum(successes), 3 * ROWS),
        "pass@2": Fraction(sum(3 if c >= 2 else 2 * c for c in successes), 3 * ROWS),
        "pass@3": Fraction(sum(c > 0 for c in successes), ROWS),
        "pass^2": Fraction(sum({0: 0, 1: 0, 2: 1, 3: 3}[c] for c in successes), 3 * ROWS),
        "pass^3": Fraction(sum(c == 3 for c in successes), ROWS),
        "solved@3": Fraction(sum(c > 0 for c in successes), ROWS),
    }
    found = report["metrics"]["correct"]
    assert {name: series["value"] for name, series in found.items()} == {
        name: float(value) for name, value in expected.items()
    }
    assert {series["evaluated"] for series in found.values()} == {ROWS}


# --- HumanEval: its own columns, a scorer that runs the tests in a process of its own


SCORER = '''
import re

def passes(answer, target, task):
    """Whether the completed function passes the row's tests."""
    entry = re.findall(r"^def (\\w+)", task["input"], re.M)[-1]
    scope = {"__name__": "tested"}
    exec(task["input"] + answer + "\\n" + target, scope)
    try:
        scope["check"](scope[entry])
    except AssertionError:
        return 0
    return 1
'''


@pytest.mark.parametrize(("harness", "right"), [("oracle", 164), ("nop", 0)])
def test_human_eval_as_a_table(tmp_path, shared_data, harness, right):
    (tmp_path / "scorer.py").write_text(SCORER)
    columns = {"id": "task_id", "input": "prompt", "target": "test",
               "reference": "canonical_solution"}  # fmt: skip
    report = run(
        tmp_path, "--benchmark", "table", "--data", str(shared_data / "human_eval"),
        "--harness", harness, "-p", "benchmark.scorer=python:scorer.py:passes",
        *(part for ours, theirs in columns.items()
          for part in ("-p", f"benchmark.columns.{ours}={theirs}")),
    )  # fmt: skip
    series = report["metrics"]["correct"]["avg@1"]
    assert (series["evaluated"], series["total"]) == (164, 164)
    assert series["value"] * 164 == right
    assert report["exit_code"] == 0


def test_a_wrong_solution_of_human_eval_is_a_real_0(tmp_path, shared_data):
    """That the 164 are right because the tests ran: one that raises, loops, or exits is not."""
    (tmp_path / "scorer.py").write_text(SCORER)
    (tmp_path / "agent.py").write_text(
        "BODIES = {'0': '    return True', '1': '    while True: pass',\n"
        "          '2': '    raise SystemExit(0)', '3': '    return None'}\n"
        "def agent(task, session, model):\n"
        "    return BODIES[task.id.split('/')[1]]\n"
    )
    report = run(
        tmp_path, "--benchmark", "table", "--data", str(shared_data / "human_eval"),
        "--harness", "python", "-p", "harness.callable=agent.py:agent",
        "-p", "benchmark.columns.id=task_id", "-p", "benchmark.columns.input=prompt",
        "-p", "benchmark.columns.target=test", "-p", "benchmark.scorer=python:scorer.py:passes",
        "-p", "benchmark.time_limit_s=2", "--tasks", "HumanEval/[0-3]",
    )  # fmt: skip
    metrics = {a.task_id[-1]: a.record for a in proctor.load(report["run_dir"]).attempts()}
    assert metrics["0"]["metrics"] == metrics["3"]["metrics"] == {"correct": 0}
    for number in ("1", "2"):  # the scorer could not finish: no observation, never a success
        assert metrics[number]["metrics"] == {}
        assert metrics[number]["issues"][0]["cause"] == "evaluator"
    assert report["metrics"]["correct"]["avg@1"]["evaluated"] == 2
