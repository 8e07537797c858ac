"""The queues of a launch: order, providers without room, and what taking costs."""

import asyncio
import itertools

import pytest

from proctor.environments.gates import gate_of
from proctor.evals.contracts import TaskSpec
from proctor.evals.launches.dispatch import Dispatcher
from proctor.evals.launches.slot import Slot, SlotState
from proctor.evals.tasks import TaskState, queued

_numbers = itertools.count()


class Prepared:
    """A prepared request whose tasks need these providers, by id."""

    def __init__(self, providers):
        self.providers = providers
        self.asked = 0

    def provider_of(self, task):
        self.asked += 1
        return self.providers.get(task.spec.id)


def slot(name, providers=None):
    async def prepare():
        raise AssertionError("it is prepared already")

    made = Slot(name, prepare, SlotState.PREPARING)
    made.run = Prepared(providers or {})
    return made


def add(dispatcher, request, waiting):
    """As the orchestrator does it: a request is prepared and its tasks are queued in one step."""
    request.state = SlotState.PREPARED
    return dispatcher.add(request, queued(waiting, request.run.provider_of))


def tasks(name, count):
    return [TaskState(TaskSpec(f"{name}{n}", "?")) for n in range(1, count + 1)]


@pytest.fixture
def limited():
    """A provider with one place."""
    name = f"dispatch-{next(_numbers)}"
    gate_of(name).configure(capacity=1)
    return name


async def taken(dispatcher, count):
    works = [await dispatcher.take() for _ in range(count)]
    return [work.task.spec.id for work in works]


def test_earlier_requests_first_and_back_offs_before_all():
    async def case():
        a, b = slot("a"), slot("b")
        dispatcher = Dispatcher([a, b])
        assert add(dispatcher, b, tasks("b", 2)) == 2
        assert add(dispatcher, a, tasks("a", 2)) == 2
        first = await dispatcher.take()
        dispatcher.back_off()
        assert dispatcher.pending == 4
        dispatcher.due(a, first.task)
        assert await taken(dispatcher, 4) == ["a1", "a2", "b1", "b2"]
        assert (dispatcher.pending, a.active, b.active) == (0, 2, 2)

    asyncio.run(case())


def test_a_request_keeps_its_order_over_its_providers(limited):
    async def case():
        a = slot("a", {"a1": limited, "a3": limited})
        dispatcher = Dispatcher([a])
        add(dispatcher, a, tasks("a", 4))
        first = await dispatcher.take()
        assert first.task.spec.id == "a1"
        assert await taken(dispatcher, 2) == ["a2", "a4"]
        waiting = asyncio.ensure_future(dispatcher.take())
        await asyncio.sleep(0)
        assert not waiting.done()
        first.permit.release()
        assert (await waiting).task.spec.id == "a3"
        dispatcher.forget()

    asyncio.run(case())


def test_a_worker_that_waits_ends_when_nothing_will_come():
    async def case():
        dispatcher = Dispatcher([slot("a")])
        waiting = [asyncio.ensure_future(dispatcher.take()) for _ in range(3)]
        await asyncio.sleep(0)
        dispatcher.close()
        assert await asyncio.gather(*waiting) == [None, None, None]

    asyncio.run(case())


def test_a_wake_up_for_a_worker_that_was_cancelled_goes_to_another():
    async def case():
        a = slot("a")
        dispatcher = Dispatcher([a])
        first, second = (asyncio.ensure_future(dispatcher.take()) for _ in range(2))
        await asyncio.sleep(0)
        add(dispatcher, a, tasks("a", 1))
        first.cancel()
        assert (await second).task.spec.id == "a1"

    asyncio.run(case())


def test_dropping_a_request_leaves_the_others(limited):
    async def case():
        a, b = slot("a"), slot("b")
        dispatcher = Dispatcher([a, b])
        mine, theirs = tasks("a", 5), tasks("b", 2)
        add(dispatcher, a, mine)
        add(dispatcher, b, theirs)
        for _ in range(3):
            await dispatcher.take()
        for _ in range(2):
            dispatcher.back_off()
        dispatcher.due(a, mine[0])
        assert dispatcher.pending == 6
        assert dispatcher.drop(a, backing_off=1) == (2, 1)
        assert dispatcher.pending == 2
        assert await taken(dispatcher, 2) == ["b1", "b2"]

    asyncio.run(case())


def test_several_places_that_become_free_at_once_are_all_taken():
    """A launch that gave three places back leaves them to another one for a moment; when nobody
    takes them, one timer brings back all three of its workers."""
    name = f"dispatch-{next(_numbers)}"
    gate_of(name).configure(capacity=3)

    async def case():
        a = slot("a", {f"a{n}": name for n in range(1, 7)})
        dispatcher = Dispatcher([a])
        add(dispatcher, a, tasks("a", 6))
        first = [await dispatcher.take() for _ in range(3)]
        gate_of(name).when_free("another launch", lambda: None)
        first.pop().permit.release()
        gate_of(name).when_free("another launch", lambda: None)
        for work in first:
            work.permit.release()
        waiting = [asyncio.ensure_future(dispatcher.take()) for _ in range(3)]
        async with asyncio.timeout(30):
            works = await asyncio.gather(*waiting)
        assert [work.task.spec.id for work in works] == ["a4", "a5", "a6"]
        dispatcher.forget()

    asyncio.run(case())
    gate_of(name).forget("another launch")


def test_taking_does_not_cost_the_number_of_tasks_that_wait_for_a_provider(limited):
    """5,000 tasks wait for one place, new ones and ones whose back-off is over; each change looks
    at the heads of the queues only."""

    async def case():
        a = slot("a", {f"a{n}": limited for n in range(1, 5_001)})
        dispatcher = Dispatcher([a])
        waiting = tasks("a", 5_000)
        add(dispatcher, a, waiting[:2_500])
        for task in waiting[2_500:]:
            dispatcher.back_off()
            dispatcher.due(a, task)
        asked = a.run.asked
        gate, entered = gate_of(limited), 0
        real = gate.try_enter

        def counted(holder=None):
            nonlocal entered
            entered += 1
            return real(holder)

        gate.try_enter = counted
        for _ in range(500):
            work = await dispatcher.take()
            work.permit.release()
        assert a.run.asked == asked
        assert entered <= 2 * 500
        dispatcher.forget()

    asyncio.run(case())
