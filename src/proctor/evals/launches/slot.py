"""One request of a launch, as the orchestrator sees it."""

from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from proctor.evals.report import RunReport
from proctor.evals.tasks import TaskState


class SlotState(StrEnum):
    """Where a request is. `ended` is terminal."""

    WAITING = "waiting"
    PREPARING = "preparing"
    PREPARED = "prepared"
    FINALISING = "finalising"
    ENDED = "ended"


class PreparedRequest(Protocol):
    """What the orchestrator asks of a prepared request."""

    def pending(self) -> list[TaskState]:
        """The tasks that need an attempt, in order."""
        ...

    def provider_of(self, task: TaskState) -> str | None:
        """The environment provider whose permit the task's next try needs; None for none."""
        ...

    async def step(self, task: TaskState) -> float | None:
        """Run a task until it is done (None) or must wait (seconds of back-off)."""
        ...

    async def finalise(self, event: str, error: str | None, signum: int | None) -> RunReport:
        """Write the end of the run: `event` is finish, fail, interrupt or deadline."""
        ...

    async def close(self) -> None:
        """Give up what the request holds. Idempotent."""
        ...


Prepare = Callable[[], Awaitable[PreparedRequest]]
"""Prepares the request; what it raises is the request's result."""


@dataclass(slots=True)
class Slot:
    """A named request with its queue. `error` is why it failed as a whole."""

    name: str
    prepare: Prepare
    state: SlotState = SlotState.WAITING
    run: PreparedRequest | None = None
    queue: deque[TaskState] = field(default_factory=deque)
    active: int = 0
    """Tasks in a worker or in back-off."""
    error: str | None = None
    failure: BaseException | None = None
    report: RunReport | None = None

    @property
    def ended(self) -> bool:
        """Whether nothing of this request will run any more."""
        return self.state is SlotState.ENDED
