"""A harness is the agent under test as a program."""

import os
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from proctor.environments.contract import EnvironmentSession
from proctor.evals.contracts.model import AttemptModel
from proctor.evals.contracts.result import RunResult
from proctor.evals.contracts.task import PreparedTask


def _always() -> bool:
    return True


@dataclass(frozen=True, slots=True)
class AttemptContext:
    """What an attempt gives to its harness.

    `deadline_s` is how many seconds the agent has from the start of `run`, None when unlimited.
    `model` is None when the request has none. `artifacts_place` is where `artifacts_dir` lies.
    """

    task_id: str
    attempt: int
    deadline_s: float | None
    model: AttemptModel | None
    artifacts_place: str | os.PathLike[str]
    below: str = ""
    """The folder in it for what the harness keeps: of each step its own."""
    still_open: Callable[[], bool] = field(default=_always, compare=False, repr=False)
    """Whether this try still counts; code that outlives its limit must not write any more."""
    asked: Callable[[], object] = field(default=_always, compare=False, repr=False)
    """Told that somebody asks for `artifacts_dir`: only then may there be any artifacts."""

    @property
    def artifacts_dir(self) -> Path:
        """A host folder, made on use by `artifact_path`, whose files become the attempt's
        artifacts."""
        self.asked()
        return Path(self.artifacts_place)

    def artifact_path(self, name: str) -> Path:
        """Where to write the artifact `name` (a relative path without `..`).

        Raises ValueError for another path, RuntimeError when the attempt is over.
        """
        if not self.still_open():
            raise RuntimeError(f"too late for artifact {name!r}: this attempt is over")
        relative = Path(name)
        if relative.is_absolute() or ".." in relative.parts or not relative.parts:
            raise ValueError(f"not a relative artifact path: {name!r}")
        target = self.artifacts_dir / self.below / relative
        target.parent.mkdir(parents=True, exist_ok=True)
        return target


class HarnessSession(ABC):
    """One agent, started in an environment."""

    keeps_time: ClassVar[bool] = False
    """Whether `run` ends by itself at `deadline_s`, with `timed_out` set: it is then cut off only
    a little later, so that nothing of what it knows is lost."""

    @abstractmethod
    async def run(self) -> RunResult:
        """Do the task. Cancelled when the agent's time is up; see `partial`."""

    def partial(self) -> RunResult:
        """What is known when `run` was cut off by its deadline. Default: no answer."""
        return RunResult(timed_out=True)

    async def close(self) -> None:
        """Release what `start` acquired. Idempotent."""


class Harness(ABC):
    """Starts agents. `Options` may be a pydantic model of its `-p harness.*`."""

    id: ClassVar[str]
    version: ClassVar[str] = "1"
    Options: ClassVar[type[Any] | None] = None
    needs_reference: ClassVar[bool] = False
    """Whether a task without a reference solution cannot be run with this harness."""
    needs_model: ClassVar[bool] = False

    def __init__(self, options: Any = None) -> None:
        self.options = options

    def requirements(self) -> list[str]:
        """What is missing on this machine; empty when ready."""
        return []

    def environment_problems(self, environment_id: str) -> list[str]:
        """Why this harness cannot run in that provider; empty when it can."""
        return []

    def settings(self) -> dict[str, Any]:
        """What identifies this harness for reuse, besides its id, version and options."""
        return {}

    @abstractmethod
    async def start(
        self, session: EnvironmentSession, task: PreparedTask, context: AttemptContext
    ) -> HarnessSession:
        """Set the agent up, under the baseline network policy."""
