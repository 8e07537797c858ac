"""Where the tries of attempts execute. The orchestrator keeps order, limits and records.

An executor gets one try at a time and returns its outcome; it raises StorageError when evidence
cannot be written, and lets cancellation through after it has released what the try held. A lost
machine is an outcome with cause `environment`, never an exception.
"""

from abc import ABC, abstractmethod
from typing import ClassVar

from proctor.evals.attempt.job import AttemptJob, TryOutcome
from proctor.evals.attempt.outcome import run_try
from proctor.evals.attempt.services import AttemptServices


class Executor(ABC):
    """Runs tries. Registered under `proctor.executors`."""

    id: ClassVar[str]

    @abstractmethod
    async def execute(self, services: AttemptServices, job: AttemptJob) -> TryOutcome:
        """Run one try of an attempt to its outcome."""

    async def close(self) -> None:
        """Release what the executor holds. Idempotent."""


class LocalExecutor(Executor):
    """Runs tries in this process's event loop."""

    id = "local"

    async def execute(self, services: AttemptServices, job: AttemptJob) -> TryOutcome:
        return await run_try(services, job)
