"""When a task has had enough attempts. Registered under `proctor.strategies`."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar


class Strategy(ABC):
    """Decides after each attempt whether the task goes on. Up to k attempts, in index order."""

    id: ClassVar[str]
    truncates: ClassVar[bool] = False
    """Whether samples may be shorter than k, so that they feed no unbiased estimator."""

    @abstractmethod
    def is_complete(self, primaries: Sequence[float | None], k: int) -> bool:
        """Whether no further attempt is needed.

        `primaries` holds the primary observation of each finished attempt, None where there is
        no valid one.
        """


class CompleteAll(Strategy):
    """Completes all k attempts of every task."""

    id = "avg"

    def is_complete(self, primaries: Sequence[float | None], k: int) -> bool:
        return len(primaries) >= k


class StopAtFirstSuccess(Strategy):
    """Stops a task at its first valid success of the primary observation."""

    id = "pass"
    truncates = True

    def is_complete(self, primaries: Sequence[float | None], k: int) -> bool:
        return len(primaries) >= k or any(value == 1.0 for value in primaries)
