"""Running a request in this process and looking at what it left."""

import asyncio
import json
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.scenarios.runtime.plugins import Agent, register

import proctor
from proctor.evals.report import RunReport


@dataclass(frozen=True)
class Outcome:
    """A report with the run directory behind it."""

    report: RunReport

    @property
    def run_dir(self) -> Path:
        return Path(self.report.run_dir)

    @property
    def records(self) -> dict[tuple[str, int], dict[str, Any]]:
        """Every attempt record on disk, by task id and index."""
        return records(self.run_dir)

    def record(self, task_id: str = "t1", attempt: int = 1) -> dict[str, Any]:
        return self.records[task_id, attempt]

    @property
    def events(self) -> list[dict[str, Any]]:
        return events(self.run_dir)

    def state(self, task_id: str = "t1") -> str:
        return proctor.load(self.run_dir).task(task_id).state

    def codes(self, task_id: str = "t1", attempt: int = 1) -> list[str]:
        """`severity phase cause code` of each issue of an attempt."""
        return [described(issue) for issue in self.record(task_id, attempt)["issues"]]

    def dropped(self, task_id: str = "t1", attempt: int = 1) -> list[dict[str, Any]]:
        """The dropped tries of an attempt, in order."""
        folders = self.run_dir.glob(f"retry_details/{task_id}--*/attempt-{attempt}/*")
        ordered = sorted(folders, key=lambda folder: int(folder.name))
        return [json.loads((f / "try.json").read_text("utf-8")) for f in ordered]


def described(issue: dict[str, Any]) -> str:
    return f"{issue['severity']} {issue['phase']} {issue['cause']} {issue['code']}"


def records(run_dir: Path) -> dict[tuple[str, int], dict[str, Any]]:
    found = {}
    for path in run_dir.glob("details/*/*/attempt-*/result.json"):
        record = json.loads(path.read_text("utf-8"))
        key = record["task_id"], record["attempt"]
        assert key not in found, f"{key} is there twice"
        found[key] = record
    return found


def events(run_dir: Path) -> list[dict[str, Any]]:
    lines = (run_dir / "logs" / "run.jsonl").read_text("utf-8").split("\n")
    return [json.loads(line) for line in lines if line]


def request(
    place: Path,
    benchmark: type[Any] | str,
    harness: type[Any] | str = Agent,
    environment: type[Any] | str = "local",
    *,
    k: int = 1,
    strategy: str = "avg",
    concurrency: int = 4,
    grace_s: float = 30.0,
    timeout_s: float | None = None,
    **execution: Any,
) -> dict[str, Any]:
    """A request for plug-in classes; further keywords are of `execution`."""
    return {
        "benchmark": _ref(benchmark),
        "harness": _ref(harness),
        "environment": _ref(environment),
        "execution": {"attempts": {"k": k, "strategy": strategy}, **execution},
        "runtime": {
            "results_dir": str(place / "results"),
            "task_concurrency": concurrency,
            "cleanup_grace_s": grace_s,
            "timeout_s": timeout_s,
        },
    }


def _ref(component: type[Any] | str) -> str:
    return component if isinstance(component, str) else register(component)


def run(place: Path, *components: Any, **settings: Any) -> Outcome:
    """Run a request to its end."""
    return Outcome(asyncio.run(proctor.arun(request(place, *components, **settings))))


def resume(run_dir: Path) -> Outcome:
    """Continue a run in this process."""
    return Outcome(asyncio.run(proctor.aresume(run_dir)))


def within(limit_s: float, make: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
    """`asyncio.run` with a bound that only proves that nothing hangs."""

    async def bounded() -> Any:
        async with asyncio.timeout(limit_s):
            return await make()

    return asyncio.run(bounded())
