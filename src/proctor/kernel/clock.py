"""Time is passed in, so that tests can jump and production time cannot be stubbed."""

import asyncio
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """What the runtime asks of time."""

    def now(self) -> datetime:
        """Wall time, timezone-aware UTC."""
        ...

    def monotonic(self) -> float:
        """Seconds from an arbitrary start; never goes back."""
        ...

    async def sleep(self, delay_s: float) -> None:
        """Wait `delay_s` seconds; cancellable."""
        ...


@dataclass(frozen=True, slots=True)
class SystemClock:
    """The machine's clock. All of them are equal: they show the same time."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    monotonic = staticmethod(time.monotonic)

    async def sleep(self, delay_s: float) -> None:
        await asyncio.sleep(delay_s)


def iso(moment: datetime) -> str:
    """ISO 8601 in UTC with milliseconds: `2026-01-31T18:11:14.250Z`."""
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
