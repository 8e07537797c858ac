"""SIGINT and SIGTERM to a real process in each phase: truthful, resumable, nothing left behind."""

import contextlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.scenarios.runtime.killing import LIMIT_S, _who, until
from tests.scenarios.runtime.runs import records

import proctor

PLUGINS = Path(__file__).with_name("stopped_plugins.py")
SIGNALS = [signal.SIGINT, signal.SIGTERM]
pytestmark = pytest.mark.slow


class Stage:
    """A folder with a request whose second task stays in one phase."""

    def __init__(self, place: Path, stay: str, *, plain: bool = False) -> None:
        self.place = place
        (place / "tmp").mkdir()
        (place / "stay").touch()
        if stay == "open":
            (place / "stay-in-open").touch()
        options = {"stay": stay, "plain": plain}
        wanted = {
            "benchmark": {"id": f"{PLUGINS}:Questions", **options},
            "harness": {"id": f"{PLUGINS}:Agent", **options},
            "environment": {"id": f"{PLUGINS}:Place"},
            "runtime": {
                "task_concurrency": 2 if stay == "both" else 1,
                "run_id": "r",
                "cleanup_grace_s": 2,
            },
        }
        (place / "request.yaml").write_text(yaml.safe_dump(wanted), "utf-8")

    def start(self, *arguments: str) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            [sys.executable, "-m", "proctor", *arguments, "--json", "--progress", "none"],
            cwd=self.place,
            env={**os.environ, "TMPDIR": str(self.place / "tmp")},
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            text=True, start_new_session=True,
        )  # fmt: skip

    def in_its_phase(self) -> "subprocess.Popen[str]":
        """A run that has got to where it stays."""
        process = self.start("run", "request.yaml")
        arrived = until((self.place / "reached").exists, LIMIT_S)
        assert arrived, process.poll()
        return process

    @property
    def run_dir(self) -> Path:
        return next(self.place.glob("results/*/*/*/r"))

    def processes(self) -> list[str]:
        return [who for who in map(_who, Path("/proc").glob("[0-9]*")) if str(self.place) in who]

    def left_behind(self) -> list[str]:
        """Processes of this stage, and what is in its temporary folder."""
        return self.processes() + os.listdir(self.place / "tmp")

    def sweep(self) -> None:
        """Kill what a killed driver left: on `local` nothing else does."""
        for who in self.processes():
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(who.split()[0]), signal.SIGKILL)

    def resume(self) -> dict[str, Any]:
        """Resume in a world that has become quick."""
        (self.place / "stay").unlink()
        process = self.start("resume", str(self.run_dir))
        out, err = process.communicate(timeout=LIMIT_S)
        assert process.returncode == 0, err
        document: dict[str, Any] = json.loads(out)
        return document["runs"][0]


@pytest.fixture
def staged(tmp_path):
    """Makes the test's stage, and sweeps it at the end."""
    made = []

    def make(stay: str, *, plain: bool = False) -> Stage:
        made.append(Stage(tmp_path, stay, plain=plain))
        return made[-1]

    yield make
    for stage in made:
        stage.sweep()


PHASES = [
    ("open", False),
    ("run", False),
    ("evaluate", False),
    ("evaluate", True),
]
"""Where the second task stays, and whether in code that blocks its own thread."""


@pytest.mark.parametrize("signum", SIGNALS, ids=lambda s: s.name)
@pytest.mark.parametrize(("phase", "plain"), PHASES)
def test_a_signal_stops_in_order(staged, phase, plain, signum):
    stage = staged(phase, plain=plain)
    process = stage.in_its_phase()
    process.send_signal(signum)
    out, err = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 128 + signum, err
    document = json.loads(out)
    assert document["status"] == "interrupted"
    (report,) = document["runs"]
    assert report["status"] == "interrupted"
    assert (report["counts"]["normal"], report["counts"]["interrupted"]) == (1, 1)
    found = proctor.load(stage.run_dir)
    assert (found.status, found.live_owner) == ("interrupted", None)
    assert set(records(stage.run_dir)) == {("t1", 1)}
    assert found.task("t2").state == "running"
    assert until(lambda: not stage.left_behind(), 10), stage.left_behind()
    resumed = stage.resume()
    assert resumed["counts"]["reused_attempts"] == 1
    assert resumed["primary"]["value"] == 1.0
    assert stage.left_behind() == []


@pytest.mark.parametrize("signum", SIGNALS, ids=lambda s: s.name)
def test_a_signal_during_the_preparation_leaves_nothing(tmp_path, staged, signum):
    """Loading takes an hour in code that blocks its thread; the signal does not wait for it."""
    stage = staged("prepare")
    process = stage.in_its_phase()
    process.send_signal(signum)
    out, _ = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 128 + signum
    document = json.loads(out)
    assert (document["status"], document["runs"]) == ("interrupted", [])
    assert not (tmp_path / "results").exists()
    assert stage.left_behind() == []


@pytest.mark.parametrize("first", SIGNALS, ids=lambda s: s.name)
@pytest.mark.parametrize("second", SIGNALS, ids=lambda s: s.name)
def test_a_second_signal_exits_at_once_although_the_loop_is_blocked(staged, first, second):
    stage = staged("run", plain=True)
    process = stage.in_its_phase()
    process.send_signal(first)
    assert until(lambda: not _is_pending(process, first))  # of one kind, two that pend are one
    assert process.poll() is None
    process.send_signal(second)
    process.communicate(timeout=10)  # an hour otherwise; well below a second on a quiet machine
    assert process.returncode == 128 + second
    found = proctor.load(stage.run_dir)
    assert found.status == "dead"
    assert set(records(stage.run_dir)) == {("t1", 1)}
    assert stage.resume()["counts"]["reused_attempts"] == 1


def _is_pending(process: "subprocess.Popen[bytes]", signum: int) -> bool:
    """Whether the kernel still holds a signal that nobody in the process has taken."""
    for line in Path(f"/proc/{process.pid}/status").read_text("ascii").splitlines():
        if line.startswith("ShdPnd:"):
            return bool(int(line.split()[1], 16) >> (signum - 1) & 1)
    return False


def test_a_second_signal_takes_the_agents_processes_with_it(staged):
    """One task's processes run while the other's code blocks the loop, so nobody can close."""
    stage = staged("both")
    process = stage.in_its_phase()
    assert until(lambda: len(_sleepers(stage)) >= 3)  # a shell and what it has started
    process.send_signal(signal.SIGINT)
    process.send_signal(signal.SIGTERM)  # at once: two kinds that come together are still two
    process.communicate(timeout=30)
    assert process.returncode in (130, 143)
    assert until(lambda: not _sleepers(stage), 10) is True
    assert stage.resume()["primary"]["value"] == 1.0


def _sleepers(stage: Stage) -> list[str]:
    return [who for who in stage.processes() if "sleep 3600" in who]


def test_a_resume_is_stopped_like_a_run(tmp_path, staged):
    stage = staged("run")
    killed = stage.in_its_phase()
    killed.kill()
    killed.communicate(timeout=LIMIT_S)
    assert until(lambda: proctor.load(stage.run_dir).status == "dead")
    (tmp_path / "reached").unlink()
    process = stage.start("resume", str(stage.run_dir))
    assert until((tmp_path / "reached").exists, LIMIT_S)
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=LIMIT_S)
    assert process.returncode == 143
    assert proctor.load(stage.run_dir).status == "interrupted"


def test_a_hung_thread_does_not_delay_the_exit(staged):
    """B19: an evaluation blocks its thread for an hour; its limit ends the run, and the exit."""
    stage = staged("evaluate", plain=True)
    process = stage.start("run", "request.yaml", "-p", "execution.evaluation_timeout_s=0.5")
    out, err = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 1, err
    (report,) = json.loads(out)["runs"]
    assert report["counts"]["error"] == 1
    assert report["abandoned_threads"] == 1
    assert stage.left_behind() == []
