"""Harbor task folders with fixed paths through the command line."""

import json
import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.acceptance.command import Done, proctor, runs_in

from proctor.environments.bubblewrap import BubblewrapEnvironment

ABSOLUTE = Path(__file__).parents[1] / "data" / "harbor_absolute"
FIXED = [Path(name) for name in ("/task", "/app", "/tests", "/logs", "/solution")]


@pytest.fixture
def bubblewrap(need) -> None:
    missing = BubblewrapEnvironment().requirements()
    need(not missing, f"bubblewrap cannot be used here: {'; '.join(missing)}")


@pytest.fixture
def host_untouched() -> Iterator[None]:
    """The host's places of the tasks' fixed paths: what was not there is not there afterwards."""

    def state() -> list[Any]:
        return [
            (sorted(os.listdir(path)), path.stat().st_mtime_ns) if path.exists() else None
            for path in FIXED
        ]

    before = state()
    yield
    assert state() == before


def ran(data: Path, harness: str, environment: str, cwd: Path) -> Done:
    return proctor(
        "run", "--benchmark", "harbor", "--data", str(data), "--environment", environment,
        "--harness", harness, "--concurrency", "4", "--progress", "none", "--json", cwd=cwd,
    )  # fmt: skip


def figures(done: Done) -> tuple[Any, ...]:
    """Exit code, then of the one run: normal tasks, evaluated tasks and the primary value."""
    (run,) = done.document["runs"]
    series = run["metrics"]["passed"]["avg@1"]
    return done.code, run["counts"]["normal"], series["evaluated"], series["value"]


@pytest.mark.slow
def test_the_humanevalpack_tasks_are_evaluated_in_bubblewrap(
    bubblewrap, shared_data, tmp_path, host_untouched
):
    """Their tests hold the answer and their solve.sh exits 1: this proves the path only."""
    done = ran(shared_data / "harbor_humanevalpack", "oracle", "bubblewrap", tmp_path)
    assert figures(done) == (0, 20, 20, 1.0), done.err
    (run,) = runs_in(tmp_path)
    files = list(run.glob("details/*/*/attempt-1/result.json"))
    issues = [i for f in files for i in json.loads(f.read_text("utf-8"))["issues"]]
    assert {issue["severity"] for issue in issues} == {"warning"}
    found = Counter(issue["code"] for issue in issues)
    assert (found["agent_exit"], found["image_not_built"]) == (20, 20)


@pytest.mark.slow
@pytest.mark.parametrize(("harness", "value"), [("oracle", 1.0), ("nop", 0.0)])
def test_tasks_with_fixed_paths_prove_the_grade(
    harness, value, bubblewrap, tmp_path, host_untouched
):
    tasks = len(list(ABSOLUTE.glob("*/task.toml")))
    assert tasks >= 5
    done = ran(ABSOLUTE, harness, "bubblewrap", tmp_path)
    assert figures(done) == (0, tasks, tasks, value), done.err


def test_local_refuses_the_humanevalpack_tasks(shared_data, tmp_path, host_untouched):
    done = ran(shared_data / "harbor_humanevalpack", "oracle", "local", tmp_path)
    assert done.code == 2
    assert "needs bubblewrap or docker" in done.document["error"]["message"]
    assert "20 tasks" in done.document["error"]["message"]
    assert done.document["runs"] == []
    assert list(tmp_path.iterdir()) == []  # refused before anything opened or was written
