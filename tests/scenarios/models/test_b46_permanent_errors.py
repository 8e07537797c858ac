"""B46: permanent request errors are sent once; transient ones are retried in one layer."""

import asyncio
import json

import pytest

from proctor.kernel.retry import RetryPolicy
from proctor.models.contract import CallContext, ModelReply
from proctor.models.errors import EndpointFault
from proctor.models.openai import OpenAIModel, OpenAIOptions
from proctor.models.scripted.rules import RuleFile, read
from proctor.models.scripted.server import ScriptedServer
from proctor.testing.clock import FakeClock

MAX_RETRIES = 3
TOO_LONG = "This model's maximum context length is 16384 tokens."
SCHEMA = "Invalid schema for function 'f': 'strin' is not a valid type"


def rules(fault: str, times: int | None = None) -> RuleFile:
    limit = "" if times is None else f"times: {times}, "
    return read(
        f"version: 1\nrules:\n  - {{{limit}reply: {{fault: {fault}}}}}\ndefault: the answer\n"
    )


async def ask(
    rule_file: RuleFile, max_retries: int = MAX_RETRIES
) -> tuple[ModelReply | EndpointFault, dict[str, object], list[float]]:
    """What one call ends with, the server's counts, and the waits in between."""
    clock = FakeClock(jump_at=1)
    async with ScriptedServer(rule_file) as server:
        options = OpenAIOptions(base_url=server.base_url, max_retries=max_retries)
        model = OpenAIModel("m", options, clock=clock)
        end: ModelReply | EndpointFault
        try:
            end = await model.complete(
                [{"role": "user", "content": "hi"}], context=CallContext("t", 1)
            )
        except EndpointFault as fault:
            end = fault
        await model.close()
        return end, server.stats(), clock.slept


PERMANENT = {
    "code": ("{status: 400, code: context_length_exceeded}", "context_exceeded"),
    "text": (f'{{status: 400, message: "{TOO_LONG}"}}', "context_exceeded"),
    "413": ("413", "context_exceeded"),
    "500 with the text": (f'{{status: 500, message: "{TOO_LONG}"}}', "context_exceeded"),
    "500 with only text": (f'{{status: 500, body: "{TOO_LONG}"}}', "context_exceeded"),
    "401": ("401", "authentication"),
    "invalid tool schema": (f"{{status: 400, message: {json.dumps(SCHEMA)}}}", "invalid_request"),
}


@pytest.mark.parametrize("shape", PERMANENT)
def test_permanent_errors_are_sent_once(shape: str) -> None:
    fault, code = PERMANENT[shape]
    end, stats, waits = asyncio.run(ask(rules(fault)))
    assert isinstance(end, EndpointFault)
    assert (end.fault_code, end.permanent, end.requests) == (code, True, 1)
    assert "1 request sent" in str(end)
    assert (stats["requests"], waits) == (1, [])
    # A runtime retry with the identical input does not happen either, whatever its budget.
    runtime = RetryPolicy(max_retries=3)
    assert not runtime.decide(str(end), 0, permanent=end.permanent).retry


@pytest.mark.parametrize("fault", ["503", "429", "reset"])
@pytest.mark.parametrize("failing", [1, MAX_RETRIES])
def test_transient_errors_are_retried_within_the_budget(fault: str, failing: int) -> None:
    end, stats, waits = asyncio.run(ask(rules(fault, times=failing)))
    assert isinstance(end, ModelReply)
    assert (end.text, end.usage.requests) == ("the answer", failing + 1)
    assert stats["requests"] == failing + 1
    assert len(waits) == failing


@pytest.mark.parametrize(
    ("fault", "code"), [("503", "server_error"), ("429", "rate_limited"), ("reset", "connection")]
)
def test_a_spent_budget_ends_the_call_and_does_not_multiply(fault: str, code: str) -> None:
    end, stats, waits = asyncio.run(ask(rules(fault)))
    assert isinstance(end, EndpointFault)
    assert (end.fault_code, end.requests) == (code, 1 + MAX_RETRIES)
    assert f"{1 + MAX_RETRIES} requests sent" in str(end)
    assert stats["requests"] == 1 + MAX_RETRIES
    assert len(waits) == MAX_RETRIES
    runtime = RetryPolicy(max_retries=3)  # retry_pattern_list at its default: any error
    assert not runtime.decide(str(end), 0, permanent=end.permanent).retry


def test_without_retries_here_the_runtime_retries() -> None:
    end, stats, _ = asyncio.run(ask(rules("503"), max_retries=0))
    assert isinstance(end, EndpointFault)
    assert (stats["requests"], end.permanent) == (1, False)
    assert RetryPolicy(max_retries=3).decide(str(end), 0, permanent=end.permanent).retry


def test_one_budget_for_different_failures() -> None:
    text = (
        "version: 1\nrules:\n"
        "  - replies: [{fault: 503}, {fault: reset}, {fault: 429}, {fault: 401}]\n"
        "default: the answer\n"
    )
    end, stats, waits = asyncio.run(ask(read(text)))
    assert isinstance(end, EndpointFault)
    assert (end.fault_code, end.requests) == ("authentication", 4)
    assert (stats["requests"], len(waits)) == (4, 3)
    assert stats["statuses"] == {"0": 1, "401": 1, "429": 1, "503": 1}


def test_back_off_doubles_with_jitter_and_is_capped() -> None:
    _, stats, waits = asyncio.run(ask(rules("503"), max_retries=9))
    assert stats["requests"] == 10
    for number, wait in enumerate(waits):
        ceiling = min(60.0, 2.0**number)
        assert ceiling / 2 <= wait <= ceiling
    assert len(set(waits)) == 9
