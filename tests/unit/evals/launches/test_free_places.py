"""One wake-up is enough for all places that a provider has."""

import asyncio
import itertools

from proctor.environments.gates import gate_of
from proctor.evals.contracts import TaskSpec
from proctor.evals.launches.dispatch import Dispatcher
from proctor.evals.launches.slot import Slot, SlotState
from proctor.evals.tasks import TaskState, queued

_numbers = itertools.count()


class Prepared:
    """A prepared request whose tasks all need one provider."""

    def __init__(self, provider):
        self._provider = provider

    def provider_of(self, task):
        return self._provider


def test_a_single_wake_up_fills_every_free_place():
    provider = f"free-places-{next(_numbers)}"
    gate = gate_of(provider)
    gate.configure(capacity=2)

    async def prepare():
        raise AssertionError("it is prepared already")

    async def scenario():
        slot = Slot("only", prepare, SlotState.PREPARED)
        slot.run = Prepared(provider)
        dispatcher = Dispatcher([slot])
        others = [gate.try_enter("other"), gate.try_enter("other")]
        waiting = [TaskState(TaskSpec(f"t{n}", "?")) for n in range(3)]
        dispatcher.add(slot, queued(waiting, slot.run.provider_of))
        workers = [asyncio.ensure_future(dispatcher.take()) for _ in range(3)]
        await asyncio.sleep(0)
        assert not any(worker.done() for worker in workers)
        gate.forget(dispatcher)  # nobody tells it: the wake-up comes from a timer
        for permit in others:
            permit.release()
        dispatcher.wake(1)
        for _ in range(10):
            await asyncio.sleep(0)
        entered = [worker for worker in workers if worker.done()]
        assert (len(entered), gate.inside) == (2, 2)
        for worker in entered:
            worker.result().permit.release()
        await asyncio.wait(workers)
        assert [w.result().task.spec.id for w in workers] == ["t0", "t1", "t2"]
        workers[2].result().permit.release()
        dispatcher.forget()

    asyncio.run(asyncio.wait_for(scenario(), 30))
    assert gate.inside == 0
