"""Which run is it that workers die of? Those that were driven together died together, so the ones
that may be the reason are driven one after the other: the others lose no second chance by it."""

from collections.abc import Container

from proctor.agent.core.deaths import MOST_RETRIES, too_many
from proctor.kernel.clock import Clock
from proctor.store.journal.contract import RunRow

_SUSPECT = 2


def deaths_of(row: RunRow) -> int:
    """How many workers in a row died while they drove the run, as its row says."""
    found = row.body.get("deaths", 0)
    return found if type(found) is int else 0


def is_suspect(row: RunRow) -> bool:
    """Whether two workers in a row at least died while they drove this run, as its row says."""
    deaths = deaths_of(row)
    count = deaths + (row.owner is not None)  # who holds it though it may be claimed is gone
    return count >= _SUSPECT and not too_many(deaths)


def is_hopeless(row: RunRow) -> bool:
    """Whether workers went on dying of a run that was held back already, so that reading its log
    must be what they die of: nobody claims it by itself, whatever is said to it."""
    return too_many(deaths_of(row) - MOST_RETRIES - 1)


class Probation:
    """One suspect at a time in this process, until it has made progress, has come to rest, or has
    been driven for `most_s` seconds."""

    def __init__(self, clock: Clock, most_s: float) -> None:
        self._clock = clock
        self._most_s = most_s
        self._until = 0.0
        self.run_id: str | None = None

    def admits(self, row: RunRow) -> bool:
        """Whether the run may be driven now; it is expected to be, then."""
        if not is_suspect(row):
            return True
        now = self._clock.monotonic()
        if self.run_id is not None and now < self._until:
            return False
        self.run_id, self._until = row.run_id, now + self._most_s
        return True

    def look(self, driven: Container[str], deaths: int | None) -> None:
        """End it if the run is not driven any more, or has made progress. `deaths`: its count as
        its driver has it, None when that is not known yet."""
        if self.run_id is not None and (self.run_id not in driven or deaths == 0):
            self.run_id = None
