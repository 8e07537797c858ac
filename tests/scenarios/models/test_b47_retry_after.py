"""B47: Retry-After is honoured, capped, shared per model and cancellable."""

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from proctor.models.contract import CallContext, ModelReply
from proctor.models.errors import EndpointFault
from proctor.models.limits import Limiter, limiter
from proctor.models.openai import ModelLimits, OpenAIModel, OpenAIOptions
from proctor.models.scripted.rules import read
from proctor.models.scripted.server import ScriptedServer
from proctor.testing.clock import FakeClock

CAP_S = 30.0


def run(main: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(main, 30))


def server(clock: FakeClock, fault: str) -> ScriptedServer:
    """Answers the first request of every caller with `fault`."""
    text = f"version: 1\nrules:\n  - {{times: 1, reply: {{fault: {fault}}}}}\ndefault: yes\n"
    return ScriptedServer(read(text), clock=clock)


def model(base_url: str, clock: FakeClock, name: str = "m", **options: Any) -> OpenAIModel:
    given = OpenAIOptions(
        base_url=base_url, max_retries=3, max_retry_after_s=CAP_S, identify_calls=True, **options
    )
    return OpenAIModel(name, given, clock=clock)


async def ask(model: OpenAIModel, task: int = 0) -> ModelReply:
    messages = [{"role": "user", "content": "hi"}]
    return await model.complete(messages, context=CallContext(f"t{task}", 1))


async def settle() -> None:
    for _ in range(200):
        await asyncio.sleep(0)


@pytest.mark.parametrize(
    ("fault", "low_s", "high_s"),
    [
        ('{status: 429, retry_after: "3"}', 3.0, 3.0),
        ('{status: 429, retry_after: "2.5"}', 2.5, 2.5),
        ("{status: 429, retry_after_date_s: 4}", 4.0, 4.0),
        ('{status: 503, retry_after: "3"}', 3.0, 3.0),
        ("{status: 429, retry_after_date_s: -60}", 0.5, 1.0),
        ('{status: 429, retry_after: "0"}', 0.5, 1.0),
        ('{status: 429, retry_after: "-5"}', 0.5, 1.0),
        ("{status: 429, retry_after: soon}", 0.5, 1.0),
        ('{status: 429, retry_after: ""}', 0.5, 1.0),
        ("{status: 429}", 0.5, 1.0),
        ('{status: 429, retry_after: "30"}', 30.0, 30.0),
    ],
)
def test_the_wait_is_what_was_asked_for_or_the_back_off(
    fault: str, low_s: float, high_s: float
) -> None:
    async def main() -> None:
        clock = FakeClock(jump_at=1)
        async with server(clock, fault) as endpoint:
            asked = model(endpoint.base_url, clock)
            reply = await ask(asked)
            await asked.close()
            assert (reply.text, endpoint.requests) == ("yes", 2)
            assert low_s <= clock.monotonic() <= high_s

    run(main())


def test_a_pause_on_another_clock_does_not_count() -> None:
    """A port is soon given out again: the model there must not wait by a clock that is gone."""

    async def main() -> None:
        clock, earlier = FakeClock(jump_at=1), FakeClock()
        async with server(clock, "{status: 429, retry_after_date_s: 4}") as endpoint:
            limiter(endpoint.base_url, "m", earlier).pause(earlier, 5)
            asked = model(endpoint.base_url, clock)
            assert (await ask(asked)).text == "yes"
            await asked.close()
            assert clock.slept == [4.0]

    run(main())


@pytest.mark.parametrize("wait", ['retry_after: "86400"', "retry_after_date_s: 86400"])
def test_above_the_cap_the_call_ends_at_once(wait: str) -> None:
    async def main() -> None:
        clock = FakeClock()
        async with server(clock, f"{{status: 429, {wait}}}") as endpoint:
            asked = model(endpoint.base_url, clock)
            with pytest.raises(EndpointFault, match="asks to wait 86,400 s") as caught:
                await ask(asked)
            await asked.close()
            fault = caught.value
            assert (fault.fault_code, fault.permanent, fault.requests) == ("rate_limited", True, 1)
            assert fault.retry_after_s is None  # the runtime must not sleep a day either
            assert (endpoint.requests, clock.slept) == (1, [])

    run(main())


async def paused(shared: Limiter, callers: int) -> None:
    """Wait until `callers` calls have met the pause and none is on its way."""
    for _ in range(100_000):
        if shared.waiting == callers and shared.in_flight == 0:
            return
        await asyncio.sleep(0)
    raise AssertionError(f"{shared.waiting} wait, {shared.in_flight} in flight")


def test_eight_attempts_share_the_pause() -> None:
    async def main() -> None:
        clock = FakeClock()
        async with server(clock, '{status: 429, retry_after: "3"}') as endpoint:
            asked = model(endpoint.base_url, clock)
            tasks = [asyncio.ensure_future(ask(asked, n)) for n in range(8)]
            await paused(limiter(endpoint.base_url, "m", clock), 8)
            assert endpoint.requests == 8
            clock.advance(2.99)
            await settle()
            assert endpoint.requests == 8  # 0 in the pause
            clock.advance(0.02)
            replies = await asyncio.gather(*tasks)
            assert [reply.text for reply in replies] == ["yes"] * 8
            assert [reply.usage.requests for reply in replies] == [2] * 8
            assert endpoint.stats()["statuses"] == {"200": 8, "429": 8}
            await asked.close()

    run(main())


def test_one_refusal_pauses_the_others_of_that_model_and_nobody_else() -> None:
    text = (
        "version: 1\nrules:\n"
        '  - {when: {task: t0}, times: 1, reply: {fault: {status: 429, retry_after: "3"}}}\n'
        "default: yes\n"
    )

    async def main() -> None:
        clock = FakeClock()
        async with ScriptedServer(read(text), clock=clock) as endpoint:
            asked = model(endpoint.base_url, clock)
            twin = model(endpoint.base_url, clock)  # another object, the same model
            other = model(endpoint.base_url, clock, "other")
            first = asyncio.ensure_future(ask(asked, 0))
            await paused(limiter(endpoint.base_url, "m", clock), 1)
            tasks = [asyncio.ensure_future(ask(m, n)) for n, m in enumerate([asked, twin] * 4, 1)]
            await paused(limiter(endpoint.base_url, "m", clock), 9)
            assert endpoint.requests == 1
            assert (await ask(other)).text == "yes"  # not held up
            clock.advance(3)
            await asyncio.gather(first, *tasks)
            assert endpoint.requests == 1 + 1 + 9
            for each in (asked, twin, other):
                await each.close()

    run(main())


def test_a_sleeping_call_is_cancelled_at_once_and_holds_no_permit() -> None:
    async def main() -> None:
        clock = FakeClock()
        async with server(clock, '{status: 429, retry_after: "3"}') as endpoint:
            asked = model(endpoint.base_url, clock, limits=ModelLimits(concurrency=2))
            shared = limiter(endpoint.base_url, "m", clock)
            tasks = [asyncio.ensure_future(ask(asked, n)) for n in range(8)]
            await paused(shared, 8)
            for task in tasks:
                task.cancel()
            ended = await asyncio.gather(*tasks, return_exceptions=True)
            assert all(isinstance(end, asyncio.CancelledError) for end in ended)
            assert (shared.waiting, shared.in_flight, clock.monotonic()) == (0, 0, 0.0)
            await asked.close()

    run(main())


def test_the_pause_is_no_sum_of_all_refusals() -> None:
    """Hundreds of refusals make no pause of minutes: it counts from the last one."""

    async def main() -> None:
        clock = FakeClock(jump_at=1)
        async with server(clock, '{status: 429, retry_after: "3"}') as endpoint:
            asked = model(endpoint.base_url, clock)
            replies = await asyncio.gather(*(ask(asked, n) for n in range(200)))
            assert [reply.text for reply in replies] == ["yes"] * 200
            assert endpoint.requests == 400
            assert clock.monotonic() <= 60
            await asked.close()

    run(main())
