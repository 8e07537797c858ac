"""The event loop of `proctor run`: one turn takes a bounded number of events.

asyncio's own loop takes every event that is ready into one turn. When thousands of model replies
arrive together, a turn then lasts as long as all of them, and whatever becomes ready meanwhile,
a timer or a signal, waits for its end. The kernel keeps the rest for the next turn, in order.
"""

import asyncio
import math
import selectors

EVENTS_A_TURN = 16
"""A reply costs about half a millisecond until its record is handed to a thread."""


def new_loop() -> asyncio.AbstractEventLoop:
    """A new event loop with short turns; the system's usual one where there is no epoll."""
    if not hasattr(selectors, "EpollSelector"):
        return asyncio.new_event_loop()
    return asyncio.SelectorEventLoop(ShortTurns())


if hasattr(selectors, "EpollSelector"):

    class ShortTurns(selectors.EpollSelector):
        """Epoll that reports at most `EVENTS_A_TURN` events at a time."""

        def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
            """The next ready events; waits up to `timeout` seconds (None: without limit)."""
            # Epoll counts in milliseconds: round up, or a timer is looked for too early.
            wait_s = -1.0 if timeout is None else max(0.0, math.ceil(timeout * 1e3) * 1e-3)
            try:
                events = self._selector.poll(wait_s, EVENTS_A_TURN)  # type: ignore[attr-defined]
            except InterruptedError:
                return []
            return [found for fd, event in events if (found := self._found(fd, event)) is not None]

        def _found(self, fd: int, event: int) -> tuple[selectors.SelectorKey, int] | None:
            try:
                key = self.get_map()[fd]
            except KeyError:
                return None
            ready = 0
            if event & ~_EPOLLIN:
                ready |= selectors.EVENT_WRITE
            if event & ~_EPOLLOUT:
                ready |= selectors.EVENT_READ
            return key, ready & key.events


_EPOLLIN, _EPOLLOUT = 0x001, 0x004
