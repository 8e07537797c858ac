"""Which task runs next: ordered priority over prepared requests, not a barrier.

A worker takes a task whose back-off is over before any new one, then a new task of the earliest
prepared request that has one. A task whose provider has no room is passed over, so that waiting
holds no worker; it keeps its place. Taking costs the number of requests at most.
"""

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count

from proctor.environments.gates import Permit, gate_of
from proctor.evals.launches.slot import Slot, SlotState
from proctor.evals.tasks import Queues, TaskState

WOKEN_TOGETHER = 8
"""How many workers begin in one turn of the loop: a thousand at once would hold it up."""


@dataclass(frozen=True, slots=True)
class Work:
    """A task for a worker. `permit` is held when the task's next try uses a provider."""

    slot: Slot
    task: TaskState
    permit: Permit | None


class Dispatcher:
    """The queues of a launch. Used from its event loop only; permits may be shared wider."""

    def __init__(self, slots: Sequence[Slot]) -> None:
        self._slots = slots
        self._first = 0
        self._due: dict[str | None, deque[tuple[int, Slot, TaskState]]] = {}
        self._order = count()
        self._idle: deque[asyncio.Future[None]] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self._asked: set[str] = set()
        self.closed = False
        self.pending = 0
        """Tasks that wait for a worker or for the end of their back-off."""

    def add(self, slot: Slot, queues: Queues) -> int:
        """Queue the tasks of a prepared request; how many they are."""
        slot.queues = queues
        added = slot.queued
        self.pending += added
        self.wake(min(added, WOKEN_TOGETHER))  # each of them wakes another when it has work
        return added

    def back_off(self) -> None:
        """A task left its worker to wait; `due` brings it back."""
        self.pending += 1

    def due(self, slot: Slot, task: TaskState) -> None:
        """A task's back-off is over: it takes the next free worker."""
        assert slot.run is not None
        queue = self._due.setdefault(slot.run.provider_of(task), deque())
        queue.append((next(self._order), slot, task))
        self.wake(1)

    def drop(self, slot: Slot, backing_off: int) -> tuple[int, int]:
        """Forget what waits of a request, `backing_off` tasks that will not come back included:
        how many new tasks, how many whose back-off is over."""
        queued = slot.queued
        slot.queues.clear()
        dropped = 0
        for provider, queue in self._due.items():
            kept = deque(item for item in queue if item[1] is not slot)
            dropped += len(queue) - len(kept)
            self._due[provider] = kept
        self.pending -= queued + dropped + backing_off
        return queued, dropped

    def close(self) -> None:
        """Nothing more will come: idle workers end."""
        self.closed = True
        self.wake(WOKEN_TOGETHER)
        self.forget()

    def forget(self) -> None:
        """Wait for no provider any more. Idempotent."""
        for provider in self._asked:
            gate_of(provider).forget(self)
        if self._timer is not None:
            self._timer.cancel()

    async def take(self) -> Work | None:
        """The next task, None when the dispatcher is closed and nothing is left."""
        while True:
            work = self._next()
            if work is not None:
                return work
            if self.closed:
                self.wake(1)
                return None
            await self._rest()

    async def _rest(self) -> None:
        ready = asyncio.get_running_loop().create_future()
        self._idle.append(ready)
        try:
            await ready
        except asyncio.CancelledError:
            if ready.done() and not ready.cancelled():
                self.wake(1)  # the wake-up was meant for a worker
            raise

    def wake(self, number: int) -> None:
        """Let up to `number` idle workers look again."""
        while number > 0 and self._idle:
            ready = self._idle.popleft()
            if not ready.done():
                ready.set_result(None)
                number -= 1

    def _next(self) -> Work | None:
        full: set[str] = set()
        work = self._next_due(full) or self._next_new(full)
        if work is None and full:
            self._ask_again(full)
        elif work is not None:
            self.pending -= 1
            if self.pending and self._idle:  # there may be room for more than one
                self.wake(1)
        return work

    def _next_due(self, full: set[str]) -> Work | None:
        waiting = [(queue[0][0], provider) for provider, queue in self._due.items() if queue]
        for _, provider in sorted(waiting, key=lambda head: head[0]):
            entered, permit = self._enter(provider, full)
            if entered:
                _, slot, task = self._due[provider].popleft()
                return Work(slot, task, permit)
        return None

    def _next_new(self, full: set[str]) -> Work | None:
        while self._first < len(self._slots) and self._over(self._slots[self._first]):
            self._first += 1
        for position in range(self._first, len(self._slots)):
            work = self._next_of(self._slots[position], full)
            if work is not None:
                return work
        return None

    def _next_of(self, slot: Slot, full: set[str]) -> Work | None:
        """The request's next new task, in its order as far as providers have room."""
        waiting = [(queue[0][0], provider) for provider, queue in slot.queues.items() if queue]
        for _, provider in sorted(waiting, key=lambda head: head[0]):
            entered, permit = self._enter(provider, full)
            if entered:
                slot.active += 1
                return Work(slot, slot.queues[provider].popleft()[1], permit)
        return None

    @staticmethod
    def _over(slot: Slot) -> bool:
        later = (SlotState.PREPARED, SlotState.FINALISING, SlotState.ENDED)
        return not slot.queued and slot.state in later

    def _enter(self, provider: str | None, full: set[str]) -> tuple[bool, Permit | None]:
        if provider is None:
            return True, None
        if provider in full:
            return False, None
        permit = gate_of(provider).try_enter(self)
        if permit is None:
            full.add(provider)
        return permit is not None, permit

    def _ask_again(self, full: set[str]) -> None:
        """Look again when a provider has room; callbacks may come from other threads."""
        loop = asyncio.get_running_loop()
        self._asked |= full
        delays = []
        for provider in full:
            delay_s = gate_of(provider).when_free(
                self, lambda: _call(loop, lambda: self.wake(len(self._idle) or 1))
            )
            if delay_s is not None:
                delays.append(delay_s)
        if delays:
            self._look_again_in(min(delays), loop)

    def _look_again_in(self, delay_s: float, loop: asyncio.AbstractEventLoop) -> None:
        when = loop.time() + delay_s
        if self._timer is not None and loop.time() < self._timer.when() <= when:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer = loop.call_at(when, self.wake, 1)


def _call(loop: asyncio.AbstractEventLoop, function: Callable[[], None]) -> None:
    with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits there any more
        loop.call_soon_threadsafe(function)
