"""Chat completions are taken whole or not at all, streamed or not."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from proctor.models.chatreply import parse_body, reply_of
from proctor.models.chatstream import collect
from proctor.models.contract import ModelReply, ToolCall, Usage
from proctor.models.errors import Category, RequestFailed
from proctor.models.http.sse import EventParser

USAGE = {
    "prompt_tokens": 10,
    "completion_tokens": 5,
    "prompt_tokens_details": {"cached_tokens": 4},
    "completion_tokens_details": {"reasoning_tokens": 2},
}


def completion(
    message: Any, finish: Any = "stop", usage: Any = USAGE, **more: Any
) -> dict[str, Any]:
    return {"choices": [{"message": message, "finish_reason": finish}], "usage": usage, **more}


def call(arguments: str = "{}", name: str = "f", call_id: str = "c1") -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def category(data: dict[str, Any]) -> tuple[str, str]:
    with pytest.raises(RequestFailed) as caught:
        reply_of(data)
    return caught.value.failure.category.value, str(caught.value)


def test_a_whole_reply() -> None:
    message = {"content": "yes", "reasoning_content": "hm", "tool_calls": None}
    assert reply_of(completion(message, id="x", model="served")) == ModelReply(
        "yes", Usage(10, 5, 4, 2, 1), (), "hm", "stop", {"id": "x", "model": "served"}
    )


def test_empty_text_is_an_answer_and_parts_are_joined() -> None:
    assert reply_of(completion({"content": ""})).text == ""
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    assert reply_of(completion({"content": parts})).text == "ab"


def test_tool_calls_come_parsed() -> None:
    data = completion({"content": None, "tool_calls": [call('{"a": 1}')]}, "tool_calls")
    reply = reply_of(data)
    assert reply.tool_calls == (ToolCall("c1", "f", {"a": 1}),)
    assert reply.text == ""


@pytest.mark.parametrize("finish", ["length", "content_filter"])
def test_a_turn_that_was_stopped_may_be_empty(finish: str) -> None:
    reply = reply_of(completion({"content": None}, finish))
    assert (reply.text, reply.finish_reason) == ("", finish)


def test_a_refusal_is_the_answer() -> None:
    reply = reply_of(completion({"content": None, "refusal": "I will not."}))
    assert reply.text == "I will not."
    assert reply.extra == {"refused": True}


@pytest.mark.parametrize("usage", [None, [], {}, {"prompt_tokens": 1, "completion_tokens": "5"}])
def test_missing_usage_is_said(usage: Any) -> None:
    reply = reply_of(completion({"content": "x"}, usage=usage))
    assert reply.extra["usage_missing"] is True
    assert reply.usage.output_tokens == 0


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        ({}, "no choices"),
        ({"choices": []}, "no choices"),
        ({"choices": {}}, "no choices"),
        ({"choices": ["x"]}, "not an object"),
        ({"choices": [{"finish_reason": "stop"}]}, "no message"),
        (completion({"content": "x"}, None), "no finish_reason"),
        (completion({"content": "x"}, ""), "no finish_reason"),
        (completion({"content": None}), "neither content nor tool calls"),
        (completion({}), "neither content nor tool calls"),
        (completion({"content": 5}), "content is not text"),
        (completion({"content": [{"type": "image"}]}), "a part that is not text"),
        (completion({"content": ["x"]}), "a part that is not text"),
        (completion({"content": None, "reasoning_content": "only thoughts"}), "neither content"),
        (completion({"content": "x", "tool_calls": {"a": 1}}), "not a list of objects"),
        (completion({"content": "x", "tool_calls": ["a"]}), "not a list of objects"),
        (completion({"content": "x", "tool_calls": [{"id": "c"}]}), "no function name"),
        (completion({"tool_calls": [call("{")]}, "tool_calls"), "are not JSON"),
    ],
)
def test_no_answer_is_malformed(data: dict[str, Any], reason: str) -> None:
    found, message = category(data)
    assert found == "malformed"
    assert reason in message


def test_one_bad_call_spoils_the_turn_and_every_stop_in_calls_does() -> None:
    both = {"tool_calls": [call(), call('{"path": "a', "write_file", "c2")]}
    assert category(completion(both, "tool_calls"))[0] == "malformed"
    found, message = category(completion({"tool_calls": [call(), call()]}, "length"))
    assert found == "truncated"
    assert message.endswith("in its tool calls: f, f")


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        ({"message": "boom"}, "server_error"),
        ("boom", "server_error"),
        ({"code": "context_length_exceeded"}, "context_exceeded"),
        ({"code": "rate_limit_exceeded", "message": "slow down"}, "rate_limited"),
    ],
)
def test_an_error_with_status_200_is_an_error(error: Any, expected: str) -> None:
    assert category({"error": error})[0] == expected


@pytest.mark.parametrize(
    ("body", "content_type", "reason"),
    [
        (b"<html>502</html>", "application/json", "HTML"),
        (b"{}", "text/html; charset=utf-8", "HTML"),
        (b"", "application/json", "is empty"),
        (b'{"choices": [', "", "not JSON"),
        (b"[]", "", "not a JSON object"),
        (b'{"a": "\xff"}', "", "not UTF-8"),
    ],
)
def test_bodies_that_are_no_completion(body: bytes, content_type: str, reason: str) -> None:
    with pytest.raises(RequestFailed, match=reason) as caught:
        parse_body(body, content_type)
    assert caught.value.failure.category is Category.MALFORMED


# Streams.


def event(delta: Any = None, finish: Any = None, **more: Any) -> bytes:
    choices = [] if delta is None else [{"index": 0, "delta": delta, "finish_reason": finish}]
    return b"data: " + json.dumps({"choices": choices, **more}).encode() + b"\n\n"


END = b"data: [DONE]\n\n"


def streamed(data: bytes, size: int = 7) -> ModelReply:
    async def pieces() -> AsyncIterator[bytes]:
        for start in range(0, len(data), size):
            yield data[start : start + size]

    return reply_of(asyncio.run(collect(pieces())))


def stream_failure(data: bytes) -> tuple[str, str]:
    with pytest.raises(RequestFailed) as caught:
        streamed(data)
    return caught.value.failure.category.value, str(caught.value)


@pytest.mark.parametrize("size", [1, 2, 3, 64, 10_000])
def test_any_split_of_the_stream_gives_the_same_reply(size: int) -> None:
    data = (
        b": comment\r\n\r\n"
        + event({"role": "assistant", "content": ""})
        + event({"reasoning": "wait "})
        + event({"reasoning": "for it"})
        + event({"content": "é — "}).replace(b"\n", b"\r\n")
        + event({"content": "done"})
        + event({"tool_calls": [{"index": 1, "id": "c2", "function": {"name": "g"}}]})
        + event({"tool_calls": [{"index": 0, "id": "c1", "function": {"name": "f"}}]})
        + event({"tool_calls": [{"index": 0, "function": {"arguments": '{"a"'}}]})
        + event({"tool_calls": [{"index": 0, "function": {"arguments": ": 1}"}}]})
        + event({}, "tool_calls")
        + event(usage=USAGE, model="served")
        + END
    )
    assert streamed(data, size) == ModelReply(
        "é — done",
        Usage(10, 5, 4, 2, 1),
        (ToolCall("c1", "f", {"a": 1}), ToolCall("c2", "g", {})),
        "wait for it",
        "tool_calls",
        {"model": "served"},
    )


WRITE = {"index": 0, "id": "c1", "function": {"name": "write_file", "arguments": ""}}


def arguments(text: str) -> bytes:
    return event({"tool_calls": [{"index": 0, "function": {"arguments": text}}]})


HALF = event({"tool_calls": [WRITE]}) + arguments('{"path": "a.txt", "content": "line1')


@pytest.mark.parametrize(
    ("data", "expected", "reason"),
    [
        (HALF, "truncated", "ended without [DONE]; unfinished tool calls: write_file"),
        (HALF + END, "truncated", "without a finish_reason"),
        (HALF + event({}, "length") + END, "truncated", "ended by length in its tool calls"),
        (HALF + event({}, "tool_calls") + END, "malformed", "'write_file' are not JSON"),
        (HALF + event({}, "tool_calls"), "truncated", "ended without [DONE]"),
        (event({"content": "half"}, "stop"), "truncated", "ended without [DONE]"),
        (END, "malformed", "no choices"),
        (b"", "truncated", "ended without [DONE]"),
        (event({"content": 5}) + END, "malformed", "content is not text"),
        (event("x") + END, "malformed", "delta is not an object"),
        (event({"tool_calls": 5}) + END, "malformed", "not a list"),
        (event({"tool_calls": [{"id": "c"}]}) + END, "malformed", "no index"),
        (b"data: {oops\n\n" + END, "malformed", "not JSON"),
        (b"data: []\n\n" + END, "malformed", "not a JSON object"),
        (b'data: {"choices": 5}\n\n' + END, "malformed", "not a list"),
        (b'data: {"error": {"message": "overloaded"}}\n\n', "server_error", "overloaded"),
    ],
)
def test_an_unfinished_or_broken_stream_gives_nothing(
    data: bytes, expected: str, reason: str
) -> None:
    found, message = stream_failure(data)
    assert (found, reason in message) == (expected, True), message


def test_other_choices_are_not_mixed_in() -> None:
    other = b'data: {"choices": [{"index": 1, "delta": {"content": "B"}}]}\n\n'
    data = event({"content": "A"}) + other + event({}, "stop") + END
    assert streamed(data).text == "A"


def test_event_parser_looks_at_every_byte_once() -> None:
    parser = EventParser()
    piece = b"x" * 1000
    events = list(parser.feed(b"data: "))
    for _ in range(5_000):  # 5 MB without an end of line: seconds if the buffer were rescanned
        events += parser.feed(piece)
    assert events == []
    assert parser.rest
    assert [len(data) for data in parser.feed(b"\n\n")] == [5_000_000]
    assert not parser.rest
