"""Process-wide limits of environment providers: how many at once, and how fast they open.

A gate counts a try from before its first `open` to after its last `close`, over all launches,
threads and event loops of this process. Whoever cannot enter is told when to ask again and holds
nothing meanwhile. The open rate is enforced in `Environment.open` itself, so no plug-in can
skip it; the gate lets one paced try in at a time, so that nobody queues inside.
"""

import asyncio
import math
import threading
import time
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass

PACE_SLACK = 1.02
"""Opens are spaced 2 % wider than the rate asks, so that a late timer cannot put one more open
than allowed into any window of one second."""

TURN_S = 0.05
"""How long a launch that gave a place back leaves it to the other launches that wait for one."""

DEFAULT_CAPACITY = {"docker": 16}
"""Tries at once where nobody has set a limit; other providers have none."""


@dataclass(frozen=True, slots=True)
class GateLimits:
    """0 is off. `capacity`: tries at once; `open_qps`: opens per second."""

    capacity: int = 0
    open_qps: float = 0.0


class Permit:
    """The right to one try. Release it after the last environment of the try is closed."""

    __slots__ = ("_gate", "_held", "_holder", "_paced")

    def __init__(self, gate: "Gate", holder: object, paced: bool) -> None:
        self._gate = gate
        self._holder = holder
        self._held = True
        self._paced = paced

    def release(self) -> None:
        """Give the place back. Idempotent, from any thread."""
        if self._held:
            self._held = False
            self._gate._leave(self._holder, self._paced)

    def opened(self) -> None:
        """The first open has had its turn; the next paced try may enter."""
        if self._paced:
            self._paced = False
            self._gate._entered()


class Gate:
    """The limits of one provider in this process.

    `holder` and `key` are the same: whoever asks for several tries, a launch for example.
    """

    def __init__(
        self, limits: GateLimits = GateLimits(), clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._limits = limits
        self._inside = 0
        self._entering = False
        self._next_open = -math.inf
        self._last_open = -math.inf
        self._waiting: dict[object, Callable[[], None]] = {}
        self._yielding: dict[object, float] = {}

    @property
    def inside(self) -> int:
        """Tries that hold a permit now."""
        return self._inside

    @property
    def limits(self) -> GateLimits:
        """What is in force."""
        return self._limits

    def configure(self, *, capacity: int | None = None, open_qps: float | None = None) -> None:
        """Change what is given, from now on and for the whole process; the newest setting of each
        limit holds. Tries that are inside stay inside."""
        with self._lock:
            old = self._limits
            self._limits = GateLimits(
                old.capacity if capacity is None else capacity,
                old.open_qps if open_qps is None else open_qps,
            )
        self._tell()

    def try_enter(self, holder: object = None) -> Permit | None:
        """A permit when there is room now, else None."""
        with self._lock:
            if self._full() or self._yields_s(holder) > 0:
                return None
            paced = self._limits.open_qps > 0
            if paced and (self._entering or self._clock() < self._next_open):
                return None
            self._inside += 1
            self._entering = self._entering or paced
        return Permit(self, holder, paced)

    def when_free(self, key: object, callback: Callable[[], None]) -> float | None:
        """Call `callback` (from any thread) once when entering may succeed; one per `key`.

        Returns seconds after which to ask again when only time has to pass, else None.
        """
        with self._lock:
            self._waiting[key] = callback
            if self._full() or self._entering:
                return None
            return max(0.0, self._next_open - self._clock(), self._yields_s(key))

    def forget(self, key: object) -> None:
        """`key` asks no more: its callback is never called."""
        with self._lock:
            self._waiting.pop(key, None)
            self._yielding.pop(key, None)

    async def open_turn(self) -> None:
        """Wait for the turn to open a session, under the open rate: first come, first served."""
        turn = self._reserve_turn()
        while (wait_s := self._take_turn(turn)) > 0:  # noqa: ASYNC110 - across event loops
            await asyncio.sleep(wait_s)
        permit = current_permit.get()
        if permit is not None:
            permit.opened()

    def _reserve_turn(self) -> float:
        with self._lock:
            turn = max(self._clock(), self._next_open)
            self._next_open = turn + self._gap_s()
            return turn

    def _take_turn(self, turn: float) -> float:
        """0 when the session may open now, else seconds to wait. Whoever woke up late pushes the
        next ones back: opens are never closer than the rate asks."""
        with self._lock:
            gap_s, now = self._gap_s(), self._clock()
            ready = max(turn, self._last_open + gap_s)
            if gap_s and now < ready:
                return ready - now
            self._last_open = now
            self._next_open = max(self._next_open, now + gap_s)
            return 0.0

    def _gap_s(self) -> float:
        return PACE_SLACK / self._limits.open_qps if self._limits.open_qps > 0 else 0.0

    def _full(self) -> bool:
        return bool(self._limits.capacity) and self._inside >= self._limits.capacity

    def _yields_s(self, key: object) -> float:
        """For how long `key` still leaves the place it gave back to others."""
        left_s = self._yielding.get(key, 0.0) - self._clock()
        if left_s <= 0:
            self._yielding.pop(key, None)
        return max(0.0, left_s)

    def _leave(self, holder: object, paced: bool) -> None:
        with self._lock:
            self._inside -= 1
            if paced:
                self._entering = False
            if any(key is not holder for key in self._waiting):
                self._yielding[holder] = self._clock() + TURN_S
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
        gate = _gates.get(provider_id)
        if gate is None:
            gate = _gates[provider_id] = Gate(GateLimits(DEFAULT_CAPACITY.get(provider_id, 0)))
        return gate
