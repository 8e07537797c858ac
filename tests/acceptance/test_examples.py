"""Every example runs, with the command that its docstring gives, and scores what it should."""

import ast
import json
import os
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"
LONGEST_LINES = 60

# What each example must score: primary metric and its value; None where it prints instead.
EXPECTED = {
    "agent_function.py": ("correct", 2 / 3),
    "benchmark_word_count.py": ("correct", 1.0),
    "durable_agent.py": None,
    "environment_reproducible.py": ("correct", 1.0),
    "harness_shell_agent.py": ("correct", 2 / 3),
    "run_from_python.py": None,
}


def command_of(example: Path) -> list[str]:
    """The words of the command in an example's docstring; brackets are optional arguments."""
    text = ast.get_docstring(ast.parse(example.read_text("utf-8"))) or ""
    found = re.search(r"^((?:proctor|python) .*(?:\n .*)*)", text, re.M)
    assert found, f"{example.name} does not say how it is run"
    return [w for w in shlex.split(found[1].replace("\\\n", " ")) if not w.startswith("[")]


def run(words: list[str], *more: str) -> subprocess.CompletedProcess[str]:
    start = {"proctor": ["-m", "proctor"], "python": []}[words[0]]
    return subprocess.run(
        [sys.executable, *start, *words[1:], *more],
        cwd=ROOT, env={**os.environ, "PYTHONWARNINGS": "error"},
        capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip


def test_every_example_has_an_expectation():
    assert {p.name for p in EXAMPLES.glob("*.py")} == set(EXPECTED)


@pytest.mark.parametrize("name", EXPECTED)
def test_examples_are_short(name):
    assert (EXAMPLES / name).read_text("utf-8").count("\n") <= LONGEST_LINES


@pytest.mark.parametrize("name", [n for n, value in EXPECTED.items() if value])
def test_an_example_scores_what_it_should(name, tmp_path):
    done = run(command_of(EXAMPLES / name), "--results", str(tmp_path), "--json")
    assert done.returncode == 0, done.stderr
    (entry,) = json.loads(done.stdout)["runs"]
    metric, value = EXPECTED[name]
    counts = entry["counts"]
    assert (entry["primary"]["metric"], entry["primary"]["value"]) == (metric, pytest.approx(value))
    assert counts["normal"] == counts["tasks"] == counts["attempts"] > 1
    assert Path(entry["run_dir"]).is_relative_to(tmp_path)


def test_the_api_example_prints_every_attempt(tmp_path):
    done = run(command_of(EXAMPLES / "run_from_python.py"), str(tmp_path))
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].startswith("completed ")
    assert sorted(line.split()[:2] for line in lines[1:]) == [
        [task, attempt] for task in ("errors", "first", "users") for attempt in ("1", "2")
    ]


def test_the_durable_agent_is_killed_once_and_sends_one_letter(tmp_path):
    words = [*command_of(EXAMPLES / "durable_agent.py"), str(tmp_path / "letters.sqlite")]
    first, second = run(words), run(words)
    assert (first.returncode, first.stdout) == (-signal.SIGKILL, "")
    assert second.returncode == 0, second.stderr
    asked, ended = second.stdout.splitlines()
    assert asked.startswith("send was started and nobody knows how it ended.")
    assert ended == "done | It is in the outbox. | letters: 1"
