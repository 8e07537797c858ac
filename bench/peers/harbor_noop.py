"""The no-op work on Harbor, run by Harbor's own interpreter: python -m … TASKS CONCURRENCY REPORT

Task folders with a constant instruction; an environment that has no place and runs nothing; its
agent `nop`; a verifier that answers at once. What is left is Harbor's own: its queue, its trial,
its result files.
"""

# mypy: disable-error-code="import-not-found, misc, untyped-decorator"

import asyncio
import sys
from pathlib import Path
from typing import Any

from harbor.environments.base import BaseEnvironment, ExecResult
from harbor.environments.capabilities import EnvironmentCapabilities
from harbor.models.verifier.result import VerifierResult
from harbor.verifier.base import BaseVerifier

from bench.own import Span, report

TASK = """\
version = "1.0"

[agent]
timeout_sec = 60.0

[verifier]
timeout_sec = 60.0
"""


class NoPlace(BaseEnvironment):
    """Every command succeeds without being run, every file is nowhere."""

    @staticmethod
    def type() -> str:
        return "no-place"

    @property
    def capabilities(self) -> Any:
        return EnvironmentCapabilities()

    def _validate_definition(self) -> None:
        return None

    async def start(self, force_build: bool) -> None:
        return None

    async def stop(self, delete: bool) -> None:
        return None

    async def upload_file(self, source_path: Path | str, target_path: str) -> None:
        return None

    async def upload_dir(self, source_dir: Path | str, target_dir: str) -> None:
        return None

    async def download_file(self, source_path: str, target_path: Path | str) -> None:
        return None

    async def download_dir(self, source_dir: str, target_dir: Path | str) -> None:
        return None

    async def exec(self, command: str, *_: Any, **__: Any) -> Any:
        return ExecResult(stdout="", stderr="", return_code=0)


class AlwaysRight(BaseVerifier):
    """A reward of 1 for everything."""

    async def verify(self) -> Any:
        return VerifierResult(rewards={"reward": 1.0})


def make_tasks(folder: Path, tasks: int) -> None:
    """A data set of task folders."""
    for number in range(1, tasks + 1):
        task = folder / f"task-{number:06d}"
        (task / "environment").mkdir(parents=True)
        (task / "tests").mkdir()
        (task / "task.toml").write_text(TASK, "utf-8")
        (task / "instruction.md").write_text("Say nothing.\n", "utf-8")
        (task / "environment" / "Dockerfile").write_text("FROM scratch\n", "utf-8")
        (task / "tests" / "test.sh").write_text("#!/bin/sh\n", "utf-8")


async def run(tasks: int, concurrency: int, folder: Path) -> None:
    """One job over all tasks."""
    from harbor.job import Job
    from harbor.models.job.config import JobConfig

    config = JobConfig.model_validate(
        {
            "job_name": "noop",
            "jobs_dir": "results",
            "n_concurrent_trials": concurrency,
            "quiet": True,
            "environment": {"import_path": "bench.peers.harbor_noop:NoPlace"},
            "verifier": {"import_path": "bench.peers.harbor_noop:AlwaysRight"},
            "agents": [{"name": "nop"}],
            "datasets": [{"path": str(folder)}],
        }
    )
    job = await Job.create(config)
    result = await job.run()
    if result.n_total_trials != tasks:
        raise SystemExit(f"{result.n_total_trials} of {tasks} trials ended")


def check(tasks: int) -> None:
    """Every trial left a result with its reward."""
    trials = [Path(p) for p in Path("results/noop").glob("*/result.json")]
    if len(trials) != tasks:
        raise SystemExit(f"{len(trials)} of {tasks} trials have a result")
    if any('"reward": 1.0' not in trial.read_text("utf-8") for trial in trials):
        raise SystemExit("a trial has no reward")


def main() -> None:
    tasks, concurrency, place = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    folder = Path("tasks").absolute()
    make_tasks(folder, tasks)
    span = Span()
    asyncio.run(run(tasks, concurrency, folder))
    report(place, span.end())
    check(tasks)


if __name__ == "__main__":
    main()
