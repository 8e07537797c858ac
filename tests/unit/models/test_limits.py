"""Limits and pauses of a model, shared by the process."""

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any

import pytest

from proctor.kernel.clock import SystemClock
from proctor.models.limits import Limiter, Limits, declare, limiter
from proctor.testing.clock import FakeClock


async def settle() -> None:
    """Let everything that can run do so."""
    for _ in range(50):
        await asyncio.sleep(0)


class Callers:
    """Tasks that enter a limiter and stay until told."""

    def __init__(self, limiter: Limiter, clock: FakeClock, tokens: int = 0) -> None:
        self.limiter, self.clock, self.tokens = limiter, clock, tokens
        self.entered: list[int] = []
        self.exits: dict[int, asyncio.Event] = {}
        self.tasks: dict[int, asyncio.Task[None]] = {}

    def start(self, *numbers: int) -> None:
        for number in numbers:
            self.exits[number] = asyncio.Event()
            self.tasks[number] = asyncio.ensure_future(self._call(number))

    async def _call(self, number: int) -> None:
        await self.limiter.enter(self.clock, self.tokens)
        try:
            self.entered.append(number)
            await self.exits[number].wait()
        finally:
            self.limiter.leave()

    async def finish(self, *numbers: int) -> None:
        for number in numbers:
            self.exits[number].set()
            await self.tasks[number]
        await settle()

    async def cancel(self) -> None:
        for task in self.tasks.values():
            task.cancel()
        await asyncio.gather(*self.tasks.values(), return_exceptions=True)


def run(main: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(main, 10))


def test_concurrency_admits_in_the_order_of_asking() -> None:
    async def main() -> None:
        callers = Callers(Limiter(Limits(concurrency=2)), FakeClock())
        callers.start(1, 2, 3, 4, 5)
        await settle()
        assert callers.entered == [1, 2]
        await callers.finish(2)
        assert callers.entered == [1, 2, 3]
        callers.tasks[4].cancel()
        await settle()
        await callers.finish(1)
        assert callers.entered == [1, 2, 3, 5]
        await callers.cancel()
        assert (callers.limiter.in_flight, callers.limiter.waiting) == (0, 0)

    run(main())


def test_a_pause_holds_everybody_and_holds_no_permit() -> None:
    async def main() -> None:
        clock = FakeClock()
        callers = Callers(Limiter(Limits(concurrency=2)), clock)
        callers.limiter.pause(clock, 3)
        callers.start(*range(8))
        await settle()
        assert (callers.entered, callers.limiter.in_flight) == ([], 0)
        assert (callers.limiter.waiting, clock.sleepers) == (8, 1)  # one timer for all
        clock.advance(2)
        callers.limiter.pause(clock, 0.5)  # never shortens
        callers.limiter.pause(clock, 4)
        clock.advance(1)
        await settle()
        assert callers.entered == []
        clock.advance(3)
        await settle()
        assert callers.entered == [0]  # half of the none in flight, at least one
        await callers.cancel()

    run(main())


def test_after_a_pause_callers_come_back_gradually() -> None:
    async def main() -> None:
        clock = FakeClock()
        callers = Callers(Limiter(), clock)
        callers.start(*range(8))
        await settle()
        callers.limiter.pause(clock, 1)
        await callers.finish(*range(8))
        callers.start(*range(10, 30))
        clock.advance(1)
        await settle()
        assert callers.entered[8:] == [10, 11, 12, 13]
        for number in range(10, 14):
            callers.limiter.succeeded()
            await callers.finish(number)
        # Every success admits the one in its place and one more: 4 + 4 in flight now.
        assert len(callers.entered) == 8 + 12
        callers.limiter.succeeded()
        await callers.finish(14)
        assert len(callers.entered) == 8 + 20  # more than before the pause: no window any more
        await callers.cancel()

    run(main())


def test_requests_per_minute_are_spread_evenly() -> None:
    async def main() -> None:
        clock = FakeClock()
        callers = Callers(Limiter(Limits(rpm=30)), clock)
        callers.start(1, 2, 3)
        await settle()
        assert callers.entered == [1]
        clock.advance(1.9)
        await settle()
        assert callers.entered == [1]
        clock.advance(0.2)
        await settle()
        assert callers.entered == [1, 2]
        callers.tasks[3].cancel()
        await settle()
        callers.start(4)
        clock.advance(2.1)
        await settle()
        assert callers.entered == [1, 2, 4]  # a cancelled caller leaves no gap
        await callers.cancel()

    run(main())


def test_tokens_are_reserved_and_settled() -> None:
    async def main() -> None:
        clock = FakeClock()
        callers = Callers(Limiter(Limits(tpm=6000)), clock, tokens=100)
        callers.start(1, 2)
        await settle()
        assert callers.entered == [1]
        callers.limiter.succeeded(estimated_tokens=100, tokens=300)  # 100 a second: 3 s in all
        clock.advance(1.1)
        await settle()
        assert callers.entered == [1]
        clock.advance(2)
        await settle()
        assert callers.entered == [1, 2]
        await callers.cancel()

    run(main())


def test_limits_can_change_while_callers_wait() -> None:
    async def main() -> None:
        callers = Callers(Limiter(Limits(concurrency=1)), FakeClock())
        callers.start(1, 2, 3)
        await settle()
        callers.limiter.configure(Limits())
        await settle()
        assert callers.entered == [1, 2, 3]
        await callers.cancel()

    run(main())


def test_ten_thousand_can_wait_and_give_up_in_any_order() -> None:
    async def main() -> None:
        callers = Callers(Limiter(Limits(concurrency=1)), FakeClock())
        callers.start(*range(10_000))
        await settle()
        for number in [*range(9_999, 5_000, -2), *range(2, 5_000, 3)]:
            callers.tasks[number].cancel()
        await settle()
        left = [n for n in range(10_000) if not callers.tasks[n].cancelled()]
        for number in left:
            callers.exits[number].set()
        await asyncio.gather(*(callers.tasks[n] for n in left))
        assert callers.entered == left

    asyncio.run(asyncio.wait_for(main(), 60))


def test_one_limit_holds_over_threads_and_event_loops() -> None:
    shared = Limiter(Limits(concurrency=3))
    clock = SystemClock()
    lock = threading.Lock()
    most = now = total = 0

    async def call() -> None:
        nonlocal most, now, total
        await shared.enter(clock)
        with lock:
            now += 1
            total += 1
            most = max(most, now)
        for _ in range(3):
            await asyncio.sleep(0)
        with lock:
            now -= 1
        shared.leave()

    async def many() -> None:
        await asyncio.gather(*(call() for _ in range(100)))

    threads = [threading.Thread(target=lambda: asyncio.run(many())) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=30)
    assert (total, most, shared.in_flight, shared.waiting) == (400, 3, 0, 0)


def test_a_waiter_whose_event_loop_is_gone_does_not_block_the_others() -> None:
    shared = Limiter(Limits(concurrency=1))
    clock = FakeClock()
    loop = asyncio.new_event_loop()
    loop.run_until_complete(shared.enter(clock))
    task = loop.create_task(shared.enter(clock))
    loop.run_until_complete(settle())
    assert shared.waiting == 1
    loop.close()
    shared.leave()
    run(asyncio.wait_for(shared.enter(clock), 5))
    assert shared.in_flight == 1
    with pytest.raises(asyncio.CancelledError):
        task.get_coro().throw(asyncio.CancelledError())  # type: ignore[union-attr]
    task._log_destroy_pending = False  # type: ignore[attr-defined]


def test_the_limiter_of_a_model_is_one_per_endpoint_and_can_be_declared() -> None:
    declare("declared-model", Limits(concurrency=7))
    first = limiter("http://a.invalid/v1", "declared-model")
    assert first is limiter("http://a.invalid/v1", "declared-model")
    assert first is not limiter("http://b.invalid/v1", "declared-model")
    assert first is not limiter("http://a.invalid/v1", "other")
    clock = FakeClock()
    assert first is limiter("http://a.invalid/v1", "declared-model", SystemClock())
    assert first is not limiter("http://a.invalid/v1", "declared-model", clock)

    async def most() -> list[int]:
        callers = Callers(first, clock)
        callers.start(*range(9))
        await settle()
        entered = list(callers.entered)
        declare("declared-model", Limits(concurrency=8))
        await settle()
        entered += callers.entered[len(entered) :]
        await callers.cancel()
        return entered

    assert asyncio.run(most()) == list(range(8))
