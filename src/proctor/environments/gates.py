"""Process-wide limits of environment providers: how many at once, and how fast they open.

A gate counts a try from before its first `open` to after its last `close`, over all launches,
threads and event loops of this process. Whoever cannot enter is told when to ask again and holds
nothing meanwhile. The open rate is enforced in `Environment.open` itself, so no plug-in can
skip it; the gate lets one paced try in at a time, so that nobody queues inside.
"""

import asyncio
import threading
import time
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass

PACE_SLACK = 1.02
"""Opens are spaced 2 % wider than the rate asks, so that a late timer cannot put one more open
than allowed into any window of one second."""


@dataclass(frozen=True, slots=True)
class GateLimits:
    """0 is off. `capacity`: tries at once; `open_qps`: opens per second."""

    capacity: int = 0
    open_qps: float = 0.0


class Permit:
    """The right to one try. Release it after the last environment of the try is closed."""

    __slots__ = ("_gate", "_held", "_paced")

    def __init__(self, gate: "Gate", paced: bool) -> None:
        self._gate = gate
        self._held = True
        self._paced = paced

    def release(self) -> None:
        """Give the place back. Idempotent, from any thread."""
        if self._held:
            self._held = False
            self._gate._leave(self._paced)

    def opened(self) -> None:
        """The first open has had its turn; the next paced try may enter."""
        if self._paced:
            self._paced = False
            self._gate._entered()


class Gate:
    """The limits of one provider in this process."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._limits = GateLimits()
        self._inside = 0
        self._entering = False
        self._next_open = 0.0
        self._waiting: dict[object, Callable[[], None]] = {}

    @property
    def inside(self) -> int:
        """Tries that hold a permit now."""
        return self._inside

    def configure(self, limits: GateLimits) -> None:
        """Use `limits` from now on; the newest setting holds for the whole process."""
        with self._lock:
            self._limits = limits
        self._tell()

    def try_enter(self) -> Permit | None:
        """A permit when there is room now, else None."""
        with self._lock:
            limits = self._limits
            if limits.capacity and self._inside >= limits.capacity:
                return None
            paced = limits.open_qps > 0
            if paced and (self._entering or self._clock() < self._next_open):
                return None
            self._inside += 1
            self._entering = self._entering or paced
        return Permit(self, paced)

    def when_free(self, key: object, callback: Callable[[], None]) -> float | None:
        """Call `callback` (from any thread) once when entering may succeed; one per `key`.

        Returns seconds after which to ask again when only time has to pass, else None.
        """
        with self._lock:
            self._waiting[key] = callback
            limits = self._limits
            full = bool(limits.capacity) and self._inside >= limits.capacity
            if full or self._entering:
                return None
            return max(0.0, self._next_open - self._clock())

    def forget(self, key: object) -> None:
        """Never call the callback of `key`."""
        with self._lock:
            self._waiting.pop(key, None)

    async def open_turn(self) -> None:
        """Wait for the turn to open a session, under the open rate. Holds for every caller."""
        while True:
            with self._lock:
                qps = self._limits.open_qps
                now = self._clock()
                if qps <= 0 or now >= self._next_open:
                    if qps > 0:
                        self._next_open = now + PACE_SLACK / qps
                    break
                wait_s = self._next_open - now
            await asyncio.sleep(wait_s)
        permit = current_permit.get()
        if permit is not None:
            permit.opened()

    def _leave(self, paced: bool) -> None:
        with self._lock:
            self._inside -= 1
            if paced:
                self._entering = False
        self._tell()

    def _entered(self) -> None:
        with self._lock:
            self._entering = False
        self._tell()

    def _tell(self) -> None:
        with self._lock:
            waiting, self._waiting = self._waiting, {}
        for callback in waiting.values():
            callback()


current_permit: ContextVar[Permit | None] = ContextVar("current_permit", default=None)
"""The permit under which the running code opens environments, where it has one."""

_gates: dict[str, Gate] = {}
_gates_lock = threading.Lock()


def gate_of(provider_id: str) -> Gate:
    """The gate of a provider; one per process."""
    with _gates_lock:
        return _gates.setdefault(provider_id, Gate())
