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
from collections.abc import Callable, Sequence

from proctor.environments.gates import current_permit
from proctor.evals.attempt.ownership import finish_shielded
from proctor.evals.launches.dispatch import Dispatcher, Work
from proctor.evals.launches.slot import Slot, SlotState
from proctor.evals.stopping import Stop
from proctor.evals.tasks import TaskState
from proctor.kernel.clock import Clock
from proctor.kernel.errors import ProctorError


class Orchestrator:
    """Runs the requests of one launch. After `run`, every slot has ended."""

    def __init__(
        self,
        slots: Sequence[Slot],
        concurrency: int,
        clock: Clock,
        *,
        grace_s: float,
        on_change: Callable[[Slot], None] | None = None,
    ) -> None:
        self.slots = slots
        self._concurrency = concurrency
        self._clock = clock
        self._grace_s = grace_s
        self._on_change = on_change
        self._dispatcher = Dispatcher(slots)
        self._room = asyncio.Event()
        self._timers: set[asyncio.Task[None]] = set()
        self._finalisers: set[asyncio.Task[None]] = set()
        self._unprepared = len(slots)
        self._unfinished = 0
        """Tasks of prepared requests that are not done."""
        self._lowest = 0
        """All requests before this one have ended or are finalising."""
        self._terminal = False
        """Set when the launch is cut off: no request may end as finished any more."""

    async def run(self, stop: Stop, timeout_s: float | None) -> None:
        """Run everything until it is done, stopped, or its time is up."""
        loop = asyncio.get_running_loop()
        work = loop.create_task(self._work_all())
        stopped = loop.create_task(stop.wait())
        try:
            await asyncio.wait(
                (work, stopped), timeout=timeout_s or None, return_when=asyncio.FIRST_COMPLETED
            )
            if work.done():
                work.result()
                return
            self._terminal = True
            work.cancel()
            await finish_shielded(work, self._grace_s)
            event = "interrupt" if stop.requested else "deadline"
            error = None if stop.requested else f"the launch reached its limit of {timeout_s:g} s"
            await self._end_all(event, error, stop.signal)
        finally:
            stopped.cancel()
            work.cancel()

    async def _work_all(self) -> None:
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._prepare_all())
                for _ in range(self._concurrency):
                    group.create_task(self._work())
            while self._finalisers:
                await asyncio.wait(self._finalisers)
        finally:
            for task in (*self._timers, *self._finalisers):
                task.cancel()

    # --- preparing

    async def _prepare_all(self) -> None:
        for slot in self.slots:
            while self._dispatcher.pending >= self._concurrency:
                self._room.clear()
                await self._room.wait()
            await self._prepare(slot)
            self._changed(slot)
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
        tasks = slot.run.pending()
        self._unfinished += len(tasks)
        self._dispatcher.add(slot, tasks)

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
        self._timers.add(timer)
        timer.add_done_callback(self._timers.discard)

    def _fail(self, slot: Slot, error: Exception) -> None:
        """The request's evidence cannot be written, or proctor is at fault: it goes no further."""
        if slot.error is None:
            slot.error, slot.failure = describe(error), error
        queued, due = self._dispatcher.drop(slot)
        slot.active -= due
        self._unfinished -= queued + due

    def _settle(self) -> None:
        """After a change: finalise what is ready, let idle workers end."""
        while self._lowest < len(self.slots) and self._passed(self.slots[self._lowest]):
            self._lowest += 1
        for position in range(self._lowest, len(self.slots)):
            slot = self.slots[position]
            if slot.queue or slot.state in (SlotState.WAITING, SlotState.PREPARING):
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
        task = asyncio.get_running_loop().create_task(self._finalise(slot))
        self._finalisers.add(task)
        task.add_done_callback(self._finalisers.discard)

    async def _finalise(self, slot: Slot) -> None:
        event = "finish" if slot.error is None else "fail"
        await self._end(slot, event, slot.error, None)

    async def _end_all(self, event: str, error: str | None, signum: int | None) -> None:
        for slot in self.slots:
            if not slot.ended:
                await self._end(slot, event, slot.error or error, signum)

    async def _end(self, slot: Slot, event: str, error: str | None, signum: int | None) -> None:
        try:
            if slot.run is not None:
                slot.report = await slot.run.finalise(event, error, signum)
        except Exception as failure:  # noqa: BLE001 - its error is its result
            slot.error, slot.failure = slot.error or describe(failure), failure
        finally:
            if slot.run is not None:
                await slot.run.close()
            slot.state = SlotState.ENDED
            self._changed(slot)

    def _changed(self, slot: Slot) -> None:
        if self._on_change is not None:
            self._on_change(slot)


def describe(error: BaseException) -> str:
    """An error as a request's result: ours with its hint, a defect with its traceback."""
    if isinstance(error, ProctorError):
        return error.message + (f" ({error.hint})" if error.hint else "")
    return "".join(traceback.format_exception(error))
