"""The clock that tests move."""

import asyncio
import threading
from datetime import timedelta

from proctor.testing.clock import START, FakeClock


def test_time_stands_still_until_it_is_moved() -> None:
    async def main() -> list[str]:
        clock = FakeClock()
        log: list[str] = []

        async def sleeper(name: str, delay_s: float) -> None:
            await clock.sleep(delay_s)
            log.append(f"{name}@{clock.monotonic():g}")

        tasks = [asyncio.ensure_future(sleeper(n, d)) for n, d in (("b", 2.0), ("a", 1.0))]
        await clock.asleep(2)
        clock.advance(0.9)
        await asyncio.sleep(0)
        assert log == []
        clock.advance(0.1)
        await tasks[1]
        assert (log, clock.sleepers) == (["a@1"], 1)
        clock.advance(10)
        await tasks[0]
        assert clock.now() - START == timedelta(seconds=11)
        assert clock.slept == [2.0, 1.0]
        return log

    assert asyncio.run(main()) == ["a@1", "b@11"]


def test_it_jumps_when_enough_tasks_sleep() -> None:
    async def main() -> None:
        clock = FakeClock(jump_at=2)
        long = asyncio.ensure_future(clock.sleep(250))
        await clock.asleep(1)
        assert clock.monotonic() == 0
        await clock.sleep(100)
        assert (clock.monotonic(), clock.sleepers) == (100, 1)
        await clock.sleep(50)
        assert (clock.monotonic(), clock.sleepers) == (150, 1)
        last = asyncio.ensure_future(clock.sleep(1000))
        await long
        assert (clock.monotonic(), clock.sleepers) == (250, 1)  # alone, it is not woken
        clock.advance(900)
        await last

    async def alone() -> float:
        clock = FakeClock(jump_at=1)
        await clock.sleep(60)
        await clock.sleep(0)
        await clock.sleep(30)
        return clock.monotonic()

    assert asyncio.run(alone()) == 90
    asyncio.run(asyncio.wait_for(main(), 10))


def test_a_cancelled_sleeper_is_not_counted() -> None:
    async def main() -> int:
        clock = FakeClock()
        task = asyncio.ensure_future(clock.sleep(5))
        await clock.asleep(1)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        clock.advance(10)
        return clock.sleepers

    assert asyncio.run(main()) == 0


def test_sleepers_of_other_event_loops_wake_too() -> None:
    clock = FakeClock()
    thread = threading.Thread(target=lambda: asyncio.run(clock.sleep(5)))

    async def main() -> None:
        thread.start()
        await clock.asleep(1)
        clock.advance(5)

    asyncio.run(main())
    thread.join(timeout=10)
    assert not thread.is_alive()
