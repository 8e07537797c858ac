"""A launch of three requests that gets killed, and what must be true after `resume`."""

import os
import signal
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from tests.scenarios.runtime.killing import COMMAND, FRESH, LIMIT_S, RETRYING, Left, Scene, examine
from tests.scenarios.runtime.killing import until as until_true
from tests.scenarios.runtime.runs import records

import proctor
from proctor.evals.launches.document import read_document

TASKS, K = 2, 3
MEMBERS = {"fresh": FRESH, "retrying": RETRYING, "command": COMMAND}


class Member(Scene):
    """One request of the launch, with a log of its own."""

    @property
    def run_dir(self) -> Path:
        return self.place.parent / "results" / "launch" / "night" / self.place.name / "r"

    def dropped(self) -> dict[str, bytes]:
        """What was kept of dropped tries."""
        found = self.run_dir.glob("retry_details/*/*/*/try.json")
        return {str(path.relative_to(self.run_dir)): path.read_bytes() for path in found}


@dataclass(frozen=True)
class After:
    """What a killed launch left."""

    members: dict[str, Left]
    dropped: dict[str, dict[str, bytes]]


class Night:
    """A folder with the launch in it, and the processes that are started there."""

    def __init__(self, place: Path) -> None:
        self.place = place
        place.mkdir(parents=True, exist_ok=True)
        (place / "tmp").mkdir()
        self.members = {
            name: Member(place / name, workload, TASKS, K, concurrency=4)
            for name, workload in MEMBERS.items()
        }
        requests = [
            {"name": name, **{k: v for k, v in m._request().items() if k != "runtime"}}
            for name, m in self.members.items()
        ]
        spec = {
            "name": "night",
            "task_concurrency": 4,
            "requests": requests,
            "runtime": {"run_id": "r", "results_dir": str(place / "results")},
        }
        (place / "launch.yaml").write_text(yaml.safe_dump(spec), "utf-8")

    @property
    def document(self) -> Path:
        return self.place / "results" / "launch" / "night" / "r.json"

    def start(self, *arguments: str, faults: tuple[str, ...] = ()) -> "subprocess.Popen[bytes]":
        module = ["proctor.testing.faults", *faults, "--"] if faults else ["proctor"]
        with open(self.place / "err", "wb") as err:
            return subprocess.Popen(
                [sys.executable, "-m", *module, *arguments, "--progress", "none", "--json"],
                cwd=self.place,
                env={**os.environ, "TMPDIR": str(self.place / "tmp")},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=err,
                start_new_session=True,
            )

    def launch(self, faults: tuple[str, ...] = ()) -> int:
        return self.start("launch", "launch.yaml", faults=faults).wait(LIMIT_S)

    def resume(self, faults: tuple[str, ...] = ()) -> "subprocess.Popen[bytes]":
        return self.start("resume", str(self.document), faults=faults)

    def recorded(self, *, resume: bool) -> list[str]:
        """Every write point of an undisturbed launch, or of a resume from its middle."""
        plan = ("--do", f"record={self.place / 'points'}")
        if resume:
            self.killed_in_the_middle()
            assert self.resume(plan).wait(LIMIT_S) == 0, self.complaint()
        else:
            assert self.launch(plan) == 0, self.complaint()
        return (self.place / "points").read_text("utf-8").split()

    def killed_in_the_middle(self) -> None:
        half = len(MEMBERS) * TASKS * K // 2
        plan = ("--at", "result.partial", "--hit", str(half), "--do", "kill")
        assert self.launch(plan) == -signal.SIGKILL

    def complaint(self) -> str:
        return (self.place / "err").read_text("utf-8", "replace")

    def examine(self) -> After:
        """What there is after a kill, once each run is consistent in itself."""
        return After(
            {name: examine(member) for name, member in self.members.items()},
            {name: member.dropped() for name, member in self.members.items()},
        )

    def resumed(self, left: After) -> None:
        """Resume to the end: nothing lost, changed, doubled, or done again."""
        begun = self.document.exists() and self.document.stat().st_size > 0
        if not begun:  # killed before anything had begun: the launch is started again
            assert all(not m.results and not m.announced for m in left.members.values())
            process = self.start("launch", "launch.yaml")
        else:
            process = self.resume()
        assert process.wait(LIMIT_S) == 0, self.complaint()
        for name, member in self.members.items():
            _whole(member, left.members[name], left.dropped[name], process.pid)
        stored = read_document(str(self.document))
        assert stored["status"] == "completed"
        assert {entry["status"] for entry in stored["requests"].values()} == {"completed"}
        assert until_true(lambda: not any(m.processes() for m in self.members.values()))


def _whole(member: Member, left: Left, dropped: dict[str, bytes], pid: int) -> None:
    assert set(records(member.run_dir)) == member.grid
    after = member.files("result.json")
    changed = [key for key, data in left.results.items() if after[key] != data]
    assert changed == []
    announced = len(member.announced()) + len(set(left.results) - left.announced)
    assert announced == len(member.grid)
    kept = member.dropped()
    assert dropped.items() <= kept.items()
    assert proctor.load(member.run_dir).status == "completed"
    summary: dict[str, Any] = dict(proctor.load(member.run_dir).summary or {})
    assert summary["counts"]["normal"] == TASKS
    _only_what_was_missing(member, left, pid)
    assert list(member.run_dir.glob("details/running")) == []


def _only_what_was_missing(member: Member, left: Left, pid: int) -> None:
    workload = member.workload
    graded_again = set(left.runs) - set(left.results) if workload.grades_detached else set()
    to_run = member.grid - set(left.results) - graded_again
    tries = 1 + workload.fails_first
    assert member.told("run", pid) == Counter(dict.fromkeys(to_run, tries))
    if not workload.command:
        assert set(member.told("evaluate", pid)) == to_run | graded_again
