"""Runs whose driver failed in this process: tried again a few times, later each time, and then left
to other workers. What failed once (a disk that was full, a service that was away) may work later;
what fails for ever must not cost for ever."""

from proctor.agent.core.deaths import MOST_RETRIES
from proctor.kernel.clock import Clock

_GROWTH = 4.0


class Retries:
    """Counts failures in a row by run. A run that was driven without one starts anew."""

    def __init__(self, clock: Clock, pause_s: float, most: int = MOST_RETRIES) -> None:
        """`pause_s`: seconds before the first retry; each later one waits four times as long."""
        self._clock = clock
        self._pause_s = pause_s
        self._most = most
        self._failed: dict[str, int] = {}
        self._due: dict[str, float] = {}

    def failed(self, run_id: str) -> None:
        """Its driver failed."""
        count = self._failed[run_id] = self._failed.get(run_id, 0) + 1
        if count <= self._most:
            pause_s = self._pause_s * _GROWTH ** (count - 1)
            self._due[run_id] = self._clock.monotonic() + pause_s
        else:
            self._due.pop(run_id, None)

    def worked(self, run_id: str) -> None:
        """It was driven without a failure."""
        self._failed.pop(run_id, None)
        self._due.pop(run_id, None)

    def pause_s(self, run_id: str) -> float | None:
        """Seconds until it may be tried, 0 now; None: it failed too often and is not tried."""
        if run_id not in self._failed:
            return 0.0
        due = self._due.get(run_id)
        return None if due is None else max(0.0, due - self._clock.monotonic())

    def outlook(self, run_id: str) -> str:
        """What will be done about a failure that has just happened, for the run's log."""
        count = self._failed.get(run_id, 0) + 1
        if count <= self._most:
            return f"this worker tries it again ({count} of {self._most} times)"
        return f"this worker does not try it again: it failed {count} times in a row"
