"""Which task runs next: ordered priority over prepared requests, not a barrier.

A worker takes a task whose back-off is over before any new one, then a new task of the earliest
prepared request that has one. A task whose provider has no room is passed over, so that waiting
holds no worker; it keeps its place. Taking costs the number of requests at most.
"""

import asyncio
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from proctor.environments.gates import Permit, gate_of
from proctor.evals.launches.slot import Slot, SlotState
from proctor.evals.tasks import TaskState


@dataclass(frozen=True, slots=True)
class Work:
    """A task for a worker. `permit` is held when the task's provider is limited."""

    slot: Slot
    task: TaskState
    permit: Permit | None


class Dispatcher:
    """The queues of a launch. Used from its event loop only; permits may be shared wider."""

    def __init__(self, slots: Sequence[Slot]) -> None:
        self._slots = slots
        self._first = 0
        self._due: deque[tuple[Slot, TaskState]] = deque()
        self._idle: deque[asyncio.Future[None]] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self.closed = False
        self.pending = 0
        """Tasks that wait for a worker or for the end of their back-off."""

    def add(self, slot: Slot, tasks: Sequence[TaskState]) -> None:
        """Queue the tasks of a prepared request."""
        slot.queue.extend(tasks)
        self.pending += len(slot.queue)
        self.wake(len(slot.queue))

    def back_off(self) -> None:
        """A task left its worker to wait; `due` brings it back."""
        self.pending += 1

    def due(self, slot: Slot, task: TaskState) -> None:
        """A task's back-off is over: it takes the next free worker."""
        self._due.append((slot, task))
        self.wake(1)

    def drop(self, slot: Slot) -> tuple[int, int]:
        """Forget what waits of a request: how many new tasks, how many whose back-off is over."""
        queued = len(slot.queue)
        self.pending -= queued
        slot.queue.clear()
        kept = deque(item for item in self._due if item[0] is not slot)
        dropped = len(self._due) - len(kept)
        self._due = kept
        self.pending -= dropped
        return queued, dropped

    def close(self) -> None:
        """Nothing more will come: idle workers end."""
        self.closed = True
        self.wake(len(self._idle))

    async def take(self) -> Work | None:
        """The next task, None when the dispatcher is closed and nothing is left."""
        while True:
            work = self._next()
            if work is not None:
                return work
            if self.closed:
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

    def wake(self, count: int) -> None:
        """Let up to `count` idle workers look again."""
        while count > 0 and self._idle:
            ready = self._idle.popleft()
            if not ready.done():
                ready.set_result(None)
                count -= 1

    def _next(self) -> Work | None:
        full: set[str] = set()
        work = self._next_due(full) or self._next_fresh(full)
        if work is None and full:
            self._ask_again(full)
        return work

    def _next_due(self, full: set[str]) -> Work | None:
        for _ in range(len(self._due)):
            slot, task = self._due.popleft()
            work = self._enter(slot, task, full)
            if work is not None:
                return work
            self._due.append((slot, task))
        return None

    def _next_fresh(self, full: set[str]) -> Work | None:
        while self._first < len(self._slots) and self._over(self._slots[self._first]):
            self._first += 1
        for position in range(self._first, len(self._slots)):
            slot = self._slots[position]
            if not slot.queue:
                continue
            work = self._enter(slot, slot.queue[0], full)
            if work is not None:
                slot.queue.popleft()
                slot.active += 1
                return work
        return None

    @staticmethod
    def _over(slot: Slot) -> bool:
        later = (SlotState.PREPARED, SlotState.FINALISING, SlotState.ENDED)
        return not slot.queue and slot.state in later

    def _enter(self, slot: Slot, task: TaskState, full: set[str]) -> Work | None:
        assert slot.run is not None
        provider = slot.run.provider_of(task)
        if provider is None:
            self.pending -= 1
            return Work(slot, task, None)
        if provider in full:
            return None
        permit = gate_of(provider).try_enter()
        if permit is None:
            full.add(provider)
            return None
        self.pending -= 1
        return Work(slot, task, permit)

    def _ask_again(self, full: set[str]) -> None:
        """Look again when a provider has room; callbacks may come from other threads."""
        loop = asyncio.get_running_loop()
        delays = []
        for provider in full:
            delay_s = gate_of(provider).when_free(
                self, lambda: _call(loop, self.wake, len(self._idle) or 1)
            )
            if delay_s is not None:
                delays.append(delay_s)
        if delays and (self._timer is None or self._timer.when() <= loop.time()):
            self._timer = loop.call_later(min(delays), self.wake, 1)


def _call(loop: asyncio.AbstractEventLoop, function: object, *args: object) -> None:
    if not loop.is_closed():
        loop.call_soon_threadsafe(function, *args)  # type: ignore[arg-type]
