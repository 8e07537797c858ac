"""Harbor task folders in containers through the command line, on every engine."""

import asyncio
import json
import shutil
from collections import Counter
from pathlib import Path

import pytest
from tests.acceptance.command import Done, proctor, runs_in
from tests.engines import IMAGE, address, ensure_image, missing

from proctor.environments.docker import Containers
from proctor.environments.docker.endpoint import endpoint

ABSOLUTE = Path(__file__).parents[1] / "data" / "harbor_absolute"


@pytest.fixture(params=["docker", pytest.param("podman", marks=pytest.mark.full)])
def engine(request, need) -> str:
    need(*missing(request.param))
    ensure_image(request.param)
    return address(request.param)


def ran(data: Path, harness: str, engine: str, cwd: Path) -> Done:
    return proctor(
        "run", "--benchmark", "harbor", "--data", str(data), "--harness", harness,
        "--environment", "docker", "-p", f"environment.host={engine}",
        "-p", f"environment.image={IMAGE}", "-p", "environment.network=no-network",
        "--concurrency", "4", "--progress", "none", "--json", cwd=cwd,
    )  # fmt: skip


def left_of(run: Path, engine: str) -> list[str]:
    """Containers that the run left."""
    found = asyncio.run(Containers(endpoint(engine)).list_owned())
    return [c.name for c in found if c.labels.get("run_dir", "").endswith(run.name)]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("harness", "value"), [("oracle", 1.0), pytest.param("nop", 0.0, marks=pytest.mark.full)]
)
def test_tasks_with_fixed_paths_prove_the_grade(harness, value, engine, tmp_path):
    done = ran(ABSOLUTE, harness, engine, tmp_path)
    (run,) = done.document["runs"]
    series = run["metrics"]["passed"]["avg@1"]
    tasks = len(list(ABSOLUTE.glob("*/task.toml")))
    assert (done.code, series["evaluated"], series["value"]) == (0, tasks, value), done.err
    (folder,) = runs_in(tmp_path)
    assert left_of(folder, engine) == []


@pytest.mark.slow
def test_the_humanevalpack_tasks_are_evaluated(engine, shared_data, tmp_path, request):
    """All 20 with --full, three of them otherwise. Their tests hold the answer and their solve.sh
    exits 1: this proves the path."""
    data, count = shared_data / "harbor_humanevalpack", 20
    if not request.config.getoption("--full"):
        count = 3
        for folder in sorted(data.iterdir())[::7]:
            shutil.copytree(folder, tmp_path / "set" / folder.name)
        data = tmp_path / "set"
    (tmp_path / "results").mkdir()
    done = ran(data, "oracle", engine, tmp_path / "results")
    (run,) = done.document["runs"]
    series = run["metrics"]["passed"]["avg@1"]
    assert (done.code, series["evaluated"], series["value"]) == (0, count, 1.0), done.err
    (folder,) = runs_in(tmp_path / "results")
    files = list(folder.glob("details/*/*/attempt-1/result.json"))
    issues = [i for f in files for i in json.loads(f.read_text("utf-8"))["issues"]]
    assert {issue["severity"] for issue in issues} == {"warning"}
    found = Counter(issue["code"] for issue in issues)
    assert (found["agent_exit"], found["image_not_built"]) == (count, count)
    assert left_of(folder, engine) == []
