"""Prepare in order, workers on one pool, finalise when ready.

- A later request is prepared only when all earlier ones are prepared or ended *and* their
  pending tasks together are fewer than the workers.
- A request finalises when it has no pending and no active task and all earlier requests have
  emptied their queues; finalising may overlap other work.
- One request that cannot be prepared, or whose evidence cannot be written, never stops the
  others: its error is its result.
"""

import asyncio
import traceback
from collections.abc import Sequence

from proctor.environments.gates import current_permit
from proctor.evals.attempt.ownership import CLOSE_LIMIT_S, finish_shielded
from proctor.evals.ending import Ending
from proctor.evals.launches.dispatch import Dispatcher, Work
from proctor.evals.launches.slot import Slot, SlotState
from proctor.evals.stopping import Stop
from proctor.evals.tasks import TaskState
from proctor.evals.threads import TrackedThreads
from proctor.kernel.clock import Clock
from proctor.kernel.errors import ProctorError

LEAST_CLOSING_S = 0.5
"""How long plug-in code may take to close when a stop has used up its grace."""


class Orchestrator:
    """Runs the requests of one launch. After `run`, every slot has ended."""

    def __init__(
        self, slots: Sequence[Slot], concurrency: int, clock: Clock, *, grace_s: float
    ) -> None:
        self.slots = slots
        self._concurrency = concurrency
        self._clock = clock
        self._grace_s = grace_s
        self._dispatcher = Dispatcher(slots)
        self._room = asyncio.Event()
        self._timers: dict[asyncio.Task[None], Slot] = {}
        self._finalisers: set[asyncio.Task[None]] = set()
        self._unprepared = len(slots)
        self._unfinished = 0
        """Tasks of prepared requests that are not done."""
        self._lowest = 0
        """All requests before this one have ended or are finalising."""
        self._closing_s = CLOSE_LIMIT_S
        self._terminal = False
        """Set when the launch is cut off: no request may end as finished any more."""

    async def run(self, stop: Stop, timeout_s: float | None) -> None:
        """Run everything until it is done, stopped, or its time is up. Raises only what must
        propagate, SystemExit of a plug-in for example, after the state is written."""
        loop = asyncio.get_running_loop()
        work = loop.create_task(self._work_all())
        stopped = loop.create_task(stop.wait())
        try:
            await asyncio.wait(
                (work, stopped), timeout=timeout_s or None, return_when=asyncio.FIRST_COMPLETED
            )
            if not work.done():
                await self._cut_off(work)
            self._terminal = True
            ending = self._ending(work, stop, timeout_s)
            await self._end_all(ending, stop.signal)
        finally:
            stopped.cancel()
            work.cancel()
            self._dispatcher.forget()
        if ending.raised is not None:
            raise ending.raised

    async def _cut_off(self, work: "asyncio.Task[None]") -> None:
        """Cancel the work; wait up to the grace for its tasks, for its threads, and for the
        requests that are writing their end."""
        self._terminal = True
        loop = asyncio.get_running_loop()
        end = loop.time() + self._grace_s
        runs = [slot.run for slot in self.slots if slot.run is not None and not slot.ended]
        blocking = [call for run in runs for call in run.blocking()]
        work.cancel()
        await finish_shielded(work, self._grace_s)
        await TrackedThreads.settled(blocking, end - loop.time())
        if self._finalisers:
            await asyncio.wait(self._finalisers, timeout=max(0.0, end - loop.time()))
        self._closing_s = max(LEAST_CLOSING_S, end - loop.time())

    @staticmethod
    def _ending(work: "asyncio.Task[None]", stop: Stop, timeout_s: float | None) -> Ending:
        """How requests end that are not done."""
        if work.done() and not work.cancelled():
            return Ending.of(_first(work.exception()))
        if stop.requested:
            return Ending("interrupt")
        return Ending("deadline", f"the run reached its limit of {timeout_s or 0:g} s")

    async def _work_all(self) -> None:
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._prepare_all())
                for _ in range(self._concurrency):
                    group.create_task(self._work())
            while self._finalisers:
                await asyncio.wait(self._finalisers)
        finally:
            for timer in self._timers:
                timer.cancel()

    # --- preparing

    async def _prepare_all(self) -> None:
        for slot in self.slots:
            while self._dispatcher.pending >= self._concurrency:
                self._room.clear()
                await self._room.wait()
            await self._prepare(slot)
            self._unprepared -= 1
            self._settle()

    async def _prepare(self, slot: Slot) -> None:
        slot.state = SlotState.PREPARING
        try:
            slot.run = await slot.prepare()
        except asyncio.CancelledError:
            slot.state = SlotState.WAITING
            raise
        except Exception as error:  # noqa: BLE001 - its error is its result; the others run
            slot.error, slot.failure, slot.state = describe(error), error, SlotState.ENDED
            return
        slot.state = SlotState.PREPARED
        self._unfinished += self._dispatcher.add(slot, slot.run.pending)

    # --- working

    async def _work(self) -> None:
        while (work := await self._dispatcher.take()) is not None:
            self._room.set()
            try:
                await self._step(work)
            finally:
                if work.permit is not None:
                    work.permit.release()
            self._settle()

    async def _step(self, work: Work) -> None:
        slot, task = work.slot, work.task
        assert slot.run is not None
        token = current_permit.set(work.permit)
        try:
            delay_s = None if slot.error is not None else await slot.run.step(task)
        except Exception as error:  # noqa: BLE001 - fails this request, not the launch
            self._fail(slot, error)
            delay_s = None
        finally:
            current_permit.reset(token)
        if delay_s is None or slot.error is not None:
            slot.active -= 1
            self._unfinished -= 1
        elif delay_s > 0:
            self._wait_out(slot, task, delay_s)
        else:
            self._dispatcher.back_off()
            self._dispatcher.due(slot, task)

    def _wait_out(self, slot: Slot, task: TaskState, delay_s: float) -> None:
        async def wait() -> None:
            await self._clock.sleep(delay_s)
            self._dispatcher.due(slot, task)

        self._dispatcher.back_off()
        timer = asyncio.get_running_loop().create_task(wait())
        self._timers[timer] = slot
        timer.add_done_callback(lambda done: self._timers.pop(done, None))

    def _fail(self, slot: Slot, error: Exception) -> None:
        """The request's evidence cannot be written, its budget is spent, or proctor is at fault:
        it goes no further."""
        if slot.error is None:
            slot.error, slot.failure = describe(error), error
        waiting = [timer for timer, owner in self._timers.items() if owner is slot]
        for timer in waiting:
            del self._timers[timer]
            timer.cancel()
        queued, due = self._dispatcher.drop(slot, len(waiting))
        slot.active -= due + len(waiting)
        self._unfinished -= queued + due + len(waiting)

    def _settle(self) -> None:
        """After a change: finalise what is ready, let preparation go on and idle workers end."""
        self._room.set()
        while self._lowest < len(self.slots) and self._passed(self.slots[self._lowest]):
            self._lowest += 1
        for position in range(self._lowest, len(self.slots)):
            slot = self.slots[position]
            if slot.queued or slot.state in (SlotState.WAITING, SlotState.PREPARING):
                break
            if slot.state is SlotState.PREPARED and not slot.active:
                self._start_finalising(slot)
        if not self._unprepared and not self._unfinished:
            self._dispatcher.close()

    @staticmethod
    def _passed(slot: Slot) -> bool:
        return slot.state in (SlotState.FINALISING, SlotState.ENDED)

    # --- finalising

    def _start_finalising(self, slot: Slot) -> None:
        if self._terminal:
            return
        slot.state = SlotState.FINALISING
        task = asyncio.get_running_loop().create_task(self._end(slot, Ending("finish"), None))
        self._finalisers.add(task)
        task.add_done_callback(self._finalisers.discard)

    async def _end_all(self, ending: Ending, signum: int | None) -> None:
        """End what has not ended. One that is still writing its end keeps at it: two ends must
        not be written over each other."""
        left = [s for s in self.slots if s.state not in (SlotState.FINALISING, SlotState.ENDED)]
        await asyncio.gather(*(self._end(slot, ending, signum) for slot in left))

    async def _end(self, slot: Slot, ending: Ending, signum: int | None) -> None:
        if slot.failure is not None:
            ending = Ending.of(slot.failure)
        try:
            if slot.run is not None:
                slot.report = await slot.run.finalise(ending, signum)
        except Exception as failure:  # noqa: BLE001 - its error is its result
            slot.error, slot.failure = slot.error or describe(failure), failure
        if slot.run is not None:
            await self._close(slot)
        slot.state = SlotState.ENDED

    async def _close(self, slot: Slot) -> None:
        assert slot.run is not None
        try:
            await slot.run.close(self._closing_s)
        except Exception as failure:  # noqa: BLE001 - its error is its result
            slot.error, slot.failure = slot.error or describe(failure), slot.failure or failure


def describe(error: BaseException) -> str:
    """An error as a request's result: ours with its hint, a defect with its traceback."""
    if isinstance(error, ProctorError):
        return error.message + (f" ({error.hint})" if error.hint else "")
    return "".join(traceback.format_exception(error))


def _first(error: BaseException | None) -> BaseException | None:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
