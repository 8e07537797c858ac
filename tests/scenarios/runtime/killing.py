"""Runs of the real command line that are killed, and what must be true after `resume`."""

import itertools
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from tests.scenarios.runtime.runs import records

import proctor

LIMIT_S = 120.0
"""A bound that only proves that nothing hangs."""
PLUGINS = Path(__file__).with_name("killed_plugins.py")
Key = tuple[str, int]


@dataclass(frozen=True)
class Workload:
    """A kind of run. `fails_first`: tries of each attempt that end with an error."""

    name: str
    mode: str
    fails_first: int = 0
    command: bool = False

    @property
    def grades_detached(self) -> bool:
        return self.mode in ("none", "fresh")


COMMAND = Workload("table through command, mode none", "none", command=True)
RETRYING = Workload("retries, mode reuse", "reuse", fails_first=1)
FRESH = Workload("a fresh evaluation environment, retries", "fresh", fails_first=1)
WORKLOADS = (COMMAND, RETRYING, FRESH)


@dataclass
class Scene:
    """A folder with a request in it, and the processes that are started there."""

    place: Path
    workload: Workload
    tasks: int
    k: int
    works_s: float = 0.0
    concurrency: int = 4
    _numbers: Any = field(default_factory=lambda: itertools.count(1))

    def __post_init__(self) -> None:
        self.place.mkdir(parents=True, exist_ok=True)
        (self.place / "tmp").mkdir(exist_ok=True)
        self.log = self.place / "agent.log"
        self.log.touch()
        text = yaml.safe_dump(self._request())
        (self.place / "request.yaml").write_text(text, "utf-8")

    def _request(self) -> dict[str, Any]:
        flaky = self.workload.fails_first
        benchmark: dict[str, Any] = {"id": f"{PLUGINS}:Questions", "tasks": self.tasks}
        harness: dict[str, Any] = {"id": f"{PLUGINS}:Worker", "fails_first": flaky}
        benchmark["log"] = harness["log"] = str(self.log)
        harness["works_s"] = self.works_s
        if self.workload.command:
            rows = [{"id": f"t{n}", "input": "?", "target": n} for n in range(1, self.tasks + 1)]
            data = self.place / "rows.jsonl"
            data.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
            benchmark = {"id": "table", "data": str(data)}
            harness = {"id": "command", "command": self._agent()}
        return {
            "benchmark": benchmark,
            "harness": harness,
            "execution": {
                "attempts": {"k": self.k},
                "evaluation_mode": self.workload.mode,
                "max_retries": flaky,
                "retry_backoff_s": 0.01,
            },
            "runtime": {"task_concurrency": self.concurrency, "run_id": "r"},
        }

    def _agent(self) -> str:
        # The shell's parent is the driver: the log says which process ran an attempt.
        told = '"run $PROCTOR_TASK_ID $PROCTOR_ATTEMPT $PPID"'
        return f"echo {told} >> '{self.log}'; sleep {self.works_s}; echo ${{PROCTOR_TASK_ID#t}}"

    @property
    def run_dir(self) -> Path:
        return next(iter(self.place.glob("results/*/*/*/r")), self.place / "results" / "none-yet")

    @property
    def grid(self) -> set[Key]:
        """Every attempt of the run."""
        return {(f"t{n}", a) for n in range(1, self.tasks + 1) for a in range(1, self.k + 1)}

    def start(self, *arguments: str, faults: tuple[str, ...] = ()) -> "subprocess.Popen[bytes]":
        """Start `proctor` here; with `faults`, under that plan. Output goes to numbered files."""
        module = ["proctor.testing.faults", *faults, "--"] if faults else ["proctor"]
        number = next(self._numbers)
        with (
            open(self.place / f"out-{number}", "wb") as out,
            open(self.place / f"err-{number}", "wb") as err,
        ):
            return subprocess.Popen(
                [sys.executable, "-m", *module, *arguments, "--progress", "none", "--json"],
                cwd=self.place,
                env={**os.environ, "TMPDIR": str(self.place / "tmp")},
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                start_new_session=True,
            )

    def run(self, faults: tuple[str, ...] = ()) -> "subprocess.Popen[bytes]":
        return self.start("run", "request.yaml", faults=faults)

    def resume(self, faults: tuple[str, ...] = ()) -> "subprocess.Popen[bytes]":
        return self.start("resume", str(self.run_dir), faults=faults)

    def output(self) -> dict[str, Any]:
        """The document that the last process printed."""
        number = next(self._numbers) - 1
        self._numbers = itertools.count(number + 1)
        text = (self.place / f"out-{number}").read_text("utf-8")
        assert text, (self.place / f"err-{number}").read_text("utf-8")
        document: dict[str, Any] = json.loads(text)
        return document

    def announced(self) -> set[Key]:
        """The attempts whose line `attempt.finished` is whole."""
        found = set()
        log = self.run_dir / "logs" / "run.jsonl"
        for line in log.read_bytes().split(b"\n") if log.exists() else ():
            try:
                event = json.loads(line)
            except ValueError:
                continue
            if event["event"] == "attempt.finished":
                found.add((event["task_id"], event["attempt"]))
        return found

    def told(self, what: str, pid: int | None = None) -> Counter[Key]:
        """How often the log says that something was done, by one process or by all."""
        lines = [line.split() for line in self.log.read_text("utf-8").splitlines()]
        return Counter(
            (task_id, int(attempt))
            for did, task_id, attempt, by in lines
            if did == what and pid in (None, int(by))
        )

    def files(self, name: str) -> dict[Key, bytes]:
        """The files of this name of all attempts, wherever their tasks' directories lie."""
        found = {}
        for path in self.run_dir.glob(f"details/*/*/attempt-*/{name}"):
            task_id = path.parent.parent.name.partition("--")[0]
            key = task_id, int(path.parent.name.removeprefix("attempt-"))
            assert key not in found, f"{key} is there twice"
            found[key] = path.read_bytes()
        return found

    def processes(self) -> list[str]:
        """Living processes whose folder or command line lies in this scene."""
        return [who for who in map(_who, Path("/proc").glob("[0-9]*")) if str(self.place) in who]


def _who(process: Path) -> str:
    try:
        if (process / "stat").read_text().rsplit(")", 1)[1].split()[0] == "Z":
            return ""
        command = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        return f"{process.name} in {os.readlink(process / 'cwd')}: {command}"
    except (OSError, IndexError):
        return ""


def until(condition: Callable[[], Any], limit_s: float = 30.0) -> Any:
    """Wait for something that no signal tells of; its last value when the time is up."""
    end = time.monotonic() + limit_s
    while not (value := condition()) and time.monotonic() < end:
        time.sleep(0.005)
    return value


def killed_at(process: "subprocess.Popen[bytes]", condition: Callable[[], Any]) -> bool:
    """SIGKILL a process as soon as a condition holds; whether it was still running."""
    until(lambda: process.poll() is not None or condition(), LIMIT_S)
    running = process.poll() is None
    process.send_signal(signal.SIGKILL)
    process.wait(LIMIT_S)
    return running


@dataclass(frozen=True)
class Left:
    """What a dead process left behind."""

    announced: set[Key]
    results: dict[Key, bytes]
    runs: dict[Key, bytes]


def examine(scene: Scene) -> Left:
    """What there is after a kill, once it is consistent in itself."""
    announced, results = scene.announced(), scene.files("result.json")
    assert announced <= set(results), "announced without a record"
    for data in results.values():
        json.loads(data)  # whole
    if (scene.run_dir / "run_info.json").exists():
        run = proctor.load(scene.run_dir)
        assert run.live_owner is None
        if run.info["status"] == "running":
            assert run.status == "dead"
    return Left(announced, results, scene.files("run.json"))


def resumed(scene: Scene, left: Left) -> None:
    """Resume to the end and check that nothing is lost, changed, doubled or done again."""
    if not (scene.run_dir / "run_info.json").exists():  # killed before the run had begun
        assert (left.announced, left.results, scene.told("run")) == (set(), {}, Counter())
        return
    process = scene.resume()
    assert process.wait(LIMIT_S) == 0, scene.output()
    report = scene.output()["runs"][0]
    everything = len(scene.grid)
    assert report["counts"]["attempts"] == everything
    assert report["counts"]["normal"] == report["counts"]["tasks"] == scene.tasks
    assert report["counts"]["reused_attempts"] == len(left.results)
    assert set(records(scene.run_dir)) == scene.grid
    after = scene.files("result.json")
    changed = [key for key, data in left.results.items() if after[key] != data]
    assert changed == []
    assert len(scene.announced()) + len(set(left.results) - left.announced) == everything
    _only_what_was_missing(scene, left, process.pid)
    assert until(lambda: scene.processes() == [])
    assert list(scene.run_dir.glob("details/running")) == []


def _only_what_was_missing(scene: Scene, left: Left, pid: int) -> None:
    graded_again = set(left.runs) - set(left.results) if scene.workload.grades_detached else set()
    to_run = scene.grid - set(left.results) - graded_again
    tries = 1 + scene.workload.fails_first
    assert scene.told("run", pid) == Counter(dict.fromkeys(to_run, tries))
    if not scene.workload.command:
        assert set(scene.told("evaluate", pid)) == to_run | graded_again
