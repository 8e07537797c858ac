"""A disk that is really full: a small file system that runs out of room in the middle of a run."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from tests.scenarios.runtime.killing import COMMAND, LIMIT_S, RETRYING, Scene

import proctor

SIZE_KIB = 4096
pytestmark = pytest.mark.slow


@pytest.fixture
def small_disk(tmp_path, need):
    """A mounted file system of four mebibytes."""
    if os.geteuid() != 0:
        pytest.skip("only root may mount a small file system")
    need(shutil.which("mount"), "the program mount is not there")
    place = tmp_path / "disk"
    place.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={SIZE_KIB}k,nr_inodes=2k", "none", str(place)],
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    need(mounted.returncode == 0, f"a small file system cannot be mounted: {mounted.stderr}")
    yield place
    subprocess.run(["umount", str(place)], check=True, timeout=60)


def _on(disk: Path, place: Path, workload) -> Scene:
    """A scene whose results lie on the small disk, everything else beside it."""
    scene = Scene(place / "scene", workload, tasks=12, k=3, concurrency=4)
    (disk / "results").mkdir()
    (scene.place / "results").symlink_to(disk / "results")
    return scene


def _free_bytes(disk: Path) -> int:
    facts = os.statvfs(disk)
    return facts.f_bavail * facts.f_frsize


def _fill(disk: Path, leave_bytes: int) -> Path:
    ballast = disk / "ballast"
    with open(ballast, "wb") as file:
        file.write(b"\0" * (_free_bytes(disk) - leave_bytes))
    return ballast


@pytest.mark.parametrize("workload", [COMMAND, RETRYING], ids=lambda w: w.name)
@pytest.mark.parametrize("leave_kib", [48, 96, 160])
def test_a_run_ends_as_failed_and_goes_on_when_there_is_room(
    tmp_path, small_disk, workload, leave_kib
):
    scene = _on(small_disk, tmp_path, workload)
    ballast = _fill(small_disk, leave_kib * 1024)
    assert scene.run().wait(LIMIT_S) == 3
    report = scene.output()["runs"][0]
    assert report["status"] == "failed"
    assert "No space left on device" in report["error"]
    announced, results = scene.announced(), scene.files("result.json")
    assert announced <= set(results)
    assert report["counts"]["attempts"] == len(results)
    for data in results.values():
        json.loads(data)
    found = proctor.load(scene.run_dir)
    assert found.status in ("failed", "dead")  # dead where not even the status had room
    assert found.live_owner is None
    ballast.unlink()
    process = scene.resume()
    assert process.wait(LIMIT_S) == 0
    resumed = scene.output()["runs"][0]
    assert resumed["counts"]["reused_attempts"] == len(results)
    assert resumed["counts"]["attempts"] == len(scene.grid)
    after = scene.files("result.json")
    assert {key: after[key] for key in results} == results
    again = {key for key, _ in scene.told("run", process.pid).items()}
    assert again.isdisjoint(results)
    assert list(scene.run_dir.rglob("*.tmp")) == []


def test_a_run_that_has_no_room_to_begin_is_refused_without_a_trace(tmp_path, small_disk):
    scene = _on(small_disk, tmp_path, COMMAND)
    _fill(small_disk, 0)
    assert scene.run().wait(LIMIT_S) == 2
    assert "No space left on device" in scene.output()["error"]["message"]
    assert list((small_disk / "results").rglob("r")) == []
    assert not scene.told("run")


def test_a_summary_that_finds_no_room_makes_the_run_failed(tmp_path, small_disk):
    """Everything is measured and recorded; only the last documents do not fit."""
    scene = _on(small_disk, tmp_path, COMMAND)
    faults = ("--at", "summary.partial", "--do", "enospc")
    assert scene.run(faults).wait(LIMIT_S) == 3
    report = scene.output()["runs"][0]
    assert (report["status"], report["counts"]["attempts"]) == ("failed", 36)
    assert "summary.json" in report["error"]
    assert proctor.load(scene.run_dir).status == "failed"
    process = scene.resume()
    assert process.wait(LIMIT_S) == 0
    assert not scene.told("run", process.pid)
    assert proctor.load(scene.run_dir).status == "completed"
