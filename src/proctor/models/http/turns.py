"""Working through many arrivals without stopping the event loop."""

import asyncio
from collections import deque
from typing import Protocol

PER_TURN = 16
"""Arrivals worked on in one turn of the event loop."""


class Arrival(Protocol):
    """Something that has received bytes and will look at them when it is called."""

    def work(self) -> None: ...


class Turns:
    """Calls `work` of what was added, in order, a few in each turn of the event loop.

    When hundreds of replies arrive together, everything else that runs on the loop gets its turn
    in between: timers, cancellation, the display.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._due: deque[Arrival] = deque()

    def add(self, arrival: Arrival) -> None:
        """Call `arrival.work()` soon."""
        if not self._due:
            self._loop.call_soon(self._turn)
        self._due.append(arrival)

    def _turn(self) -> None:
        for _ in range(min(PER_TURN, len(self._due))):
            self._due.popleft().work()
        if self._due:
            self._loop.call_soon(self._turn)
