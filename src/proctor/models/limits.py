"""Limits of one model on one endpoint, shared by the whole process: threads, loops, launches.

Who may send is decided in the order of asking. A caller that must wait holds nothing, and only
the first in the queue watches the time: ten thousand waiting callers cost one timer.

After a pause the model's callers come back gradually: at first half as many requests at once as
when the endpoint said no, and one more with each success.
"""

import asyncio
import math
import threading
from collections import deque
from dataclasses import dataclass

from proctor.kernel.clock import Clock, SystemClock


@dataclass(frozen=True, slots=True)
class Limits:
    """0 is off. `rpm` and `tpm` are spread evenly over the minute, not sent as a burst."""

    concurrency: int = 0
    """Requests at once."""
    rpm: int = 0
    """Requests per minute."""
    tpm: int = 0
    """Tokens per minute, input and output; estimated before a request, settled after it."""


class _Ticket:
    """A place in the queue of a limiter."""

    __slots__ = ("loop", "tokens", "waiter", "withdrawn")

    def __init__(self, loop: asyncio.AbstractEventLoop, tokens: int) -> None:
        self.loop = loop
        self.tokens = tokens
        self.waiter: asyncio.Future[None] | None = None
        self.withdrawn = False

    def wake(self) -> bool:
        """Let the owner look again; False when its event loop is gone."""
        try:
            running = asyncio.get_running_loop()
        except RuntimeError:
            running = None
        if self.loop is running:
            self._set()
            return True
        try:
            self.loop.call_soon_threadsafe(self._set)
        except RuntimeError:
            return False
        return True

    def _set(self) -> None:
        if self.waiter is not None and not self.waiter.done():
            self.waiter.set_result(None)


class Limiter:
    """Admits requests under the limits and the shared pause of one model."""

    def __init__(self, limits: Limits = Limits()) -> None:
        self._limits = limits
        self._lock = threading.Lock()
        self._queue: deque[_Ticket] = deque()
        self._in_flight = 0
        self._paused_until = -math.inf
        self._next_request = -math.inf
        self._next_tokens = -math.inf
        self._window: int | None = None
        self._window_full = 0

    @property
    def waiting(self) -> int:
        """Callers that wait to be admitted."""
        with self._lock:
            return sum(1 for ticket in self._queue if not ticket.withdrawn)

    @property
    def in_flight(self) -> int:
        """Requests admitted and not finished."""
        return self._in_flight

    def configure(self, limits: Limits) -> None:
        """Use `limits` from now on."""
        with self._lock:
            self._limits = limits
        self._wake_head()

    async def enter(self, clock: Clock, tokens: int = 0) -> None:
        """Wait for leave to send one request of about `tokens` tokens; `leave` ends it."""
        with self._lock:
            if not self._queue and self._take(clock.monotonic(), tokens) == 0:
                return
            ticket = _Ticket(asyncio.get_running_loop(), tokens)
            self._queue.append(ticket)
        try:
            await self._wait_in_line(ticket, clock)
        except BaseException:
            self._withdraw(ticket)
            raise
        self._wake_head()

    def leave(self) -> None:
        """The request is finished, whatever became of it."""
        with self._lock:
            self._in_flight -= 1
        if self._queue:
            self._wake_head()

    def pause(self, clock: Clock, delay_s: float) -> None:
        """Let nobody send for `delay_s` seconds from now. Never shortens a pause."""
        now = clock.monotonic()
        with self._lock:
            if now >= self._paused_until:  # the first refusal of this pause sets the pace after it
                self._window_full = max(self._window_full, self._in_flight)
                self._window = max(1, self._in_flight // 2)
            self._paused_until = max(self._paused_until, now + delay_s)

    def succeeded(self, estimated_tokens: int = 0, tokens: int = 0) -> None:
        """A request was answered, with `tokens` tokens in all."""
        with self._lock:
            if self._limits.tpm:
                self._next_tokens += (tokens - estimated_tokens) * 60 / self._limits.tpm
            if self._window is not None:
                self._window += 1
                if self._window > self._window_full:
                    self._window, self._window_full = None, 0

    async def _wait_in_line(self, ticket: _Ticket, clock: Clock) -> None:
        while True:
            waiter = ticket.waiter = ticket.loop.create_future()
            with self._lock:
                wait = None
                if self._first() is ticket:
                    wait = self._take(clock.monotonic(), ticket.tokens)
                    if wait == 0:
                        self._queue.popleft()
                        return
            if wait is None:
                await waiter
            else:
                await clock.sleep(wait)

    def _take(self, now: float, tokens: int) -> float | None:
        """Take leave: 0 when taken, else seconds to wait, None to wait for a finished request."""
        limits = self._limits
        wait = max(self._paused_until, self._next_request, self._next_tokens) - now
        if wait > 0:
            return wait
        if limits.concurrency and self._in_flight >= limits.concurrency:
            return None
        if self._window is not None and self._in_flight >= self._window:
            return None
        self._in_flight += 1
        if limits.rpm:
            self._next_request = now + 60 / limits.rpm
        if limits.tpm:
            self._next_tokens = max(self._next_tokens, now) + tokens * 60 / limits.tpm
        return 0

    def _first(self) -> _Ticket | None:
        while self._queue and (self._queue[0].withdrawn or self._queue[0].loop.is_closed()):
            self._queue.popleft()
        return self._queue[0] if self._queue else None

    def _withdraw(self, ticket: _Ticket) -> None:
        with self._lock:
            ticket.withdrawn = True
        self._wake_head()

    def _wake_head(self) -> None:
        with self._lock:
            head = self._first()
        if head is not None and not head.wake():
            self._withdraw(head)


_limiters: dict[tuple[Clock, str, str], Limiter] = {}
_declared: dict[str, Limits] = {}
_registry_lock = threading.Lock()


def limiter(base_url: str, model: str, clock: Clock | None = None) -> Limiter:
    """The process's limiter of `model` at `base_url`.

    Each clock has its own (default: the machine's), because a pause that was asked for in the
    time of one means nothing in that of another.
    """
    clock = clock or SystemClock()
    with _registry_lock:
        found = _limiters.get((clock, base_url, model))
        if found is None:
            found = Limiter(_declared.get(model, Limits()))
            _limiters[clock, base_url, model] = found
        return found


def declare(model: str, limits: Limits) -> None:
    """Limit `model` at every endpoint, now and later (`runtime.model_limits` of a launch)."""
    with _registry_lock:
        _declared[model] = limits
        known = [found for (_, _, name), found in _limiters.items() if name == model]
    for found in known:
        found.configure(limits)
