"""One request of a launch, as the orchestrator sees it."""

from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from proctor.evals.ending import Ending
from proctor.evals.report import RunReport
from proctor.evals.tasks import Queues, TaskState
from proctor.evals.threads import BlockingCall


class SlotState(StrEnum):
    """Where a request is. `ended` is terminal."""

    WAITING = "waiting"
    PREPARING = "preparing"
    PREPARED = "prepared"
    FINALISING = "finalising"
    ENDED = "ended"


class PreparedRequest(Protocol):
    """What the orchestrator asks of a prepared request."""

    @property
    def pending(self) -> Queues:
        """The tasks that need an attempt when the request is prepared."""
        ...

    def provider_of(self, task: TaskState) -> str | None:
        """The environment provider whose permit the task's next try needs; None for none."""
        ...

    async def step(self, task: TaskState) -> float | None:
        """Run a task until it is done (None) or must wait (seconds of back-off)."""
        ...

    def blocking(self) -> Collection[BlockingCall]:
        """The calls of plug-in code in threads that somebody waits for now."""
        ...

    async def finalise(self, ending: Ending, signum: int | None) -> RunReport:
        """Write the end of the run."""
        ...

    async def close(self, limit_s: float) -> None:
        """Give up what the request holds; plug-in code has `limit_s` seconds. Idempotent."""
        ...


Prepare = Callable[[], Awaitable[PreparedRequest]]
"""Prepares the request; what it raises is the request's result."""


@dataclass(slots=True, eq=False)
class Slot:
    """A named request with its queue. `error` is why it failed as a whole."""

    name: str
    prepare: Prepare
    state: SlotState = SlotState.WAITING
    run: PreparedRequest | None = None
    queues: Queues = field(default_factory=dict)
    """New tasks."""
    active: int = 0
    """Tasks in a worker or in back-off."""
    error: str | None = None
    failure: BaseException | None = None
    report: RunReport | None = None

    @property
    def queued(self) -> int:
        """Tasks that have not begun."""
        return sum(map(len, self.queues.values()))

    @property
    def ended(self) -> bool:
        """Whether nothing of this request will run any more."""
        return self.state is SlotState.ENDED
