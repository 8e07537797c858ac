"""Chat completions as the scripted server speaks them."""

from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import unquote

from proctor.kernel import jsontext
from proctor.models.contract import Usage
from proctor.models.http.serving import Incoming
from proctor.models.scripted.answer import Answer
from proctor.models.scripted.dialect import BadRequest, Call
from proctor.models.scripted.script import Ask

_CREATED = 1_700_000_000
"""Replies carry a fixed time: the same request gets the same bytes."""


class ChatCompletions:
    """`POST /v1/chat/completions`, whole or streamed."""

    path = "/v1/chat/completions"

    def read(self, incoming: Incoming) -> Call:
        """What is asked. Raises BadRequest for what a real endpoint would refuse."""
        try:
            data = jsontext.loads(incoming.body)
        except jsontext.JsonError as error:
            raise BadRequest(f"the request is not JSON: {error}") from None
        if not isinstance(data, dict) or not isinstance(data.get("model"), str):
            raise BadRequest("the request needs a model")
        messages = data.get("messages")
        if not isinstance(messages, list) or not messages:
            raise BadRequest("the request needs messages")
        if not all(isinstance(m, dict) and isinstance(m.get("role"), str) for m in messages):
            raise BadRequest("every message needs a role")
        stream = data.get("stream") or False
        options = data.get("stream_options") or {}
        if not isinstance(stream, bool) or not isinstance(options, dict):
            raise BadRequest("stream must be true or false, stream_options an object")
        task, attempt = _identity(incoming.headers)
        ask = Ask(messages, task, attempt, data["model"])
        return Call(ask, stream, bool(options.get("include_usage")))

    def whole(self, made: Answer, call: Call) -> dict[str, Any]:
        """The body of an answer that is not streamed."""
        message: dict[str, Any] = {"role": "assistant", "content": made.text}
        if made.reasoning is not None:
            message["reasoning_content"] = made.reasoning
        if made.calls:
            message["tool_calls"] = [
                {
                    "id": written.id,
                    "type": "function",
                    "function": {"name": written.name, "arguments": written.arguments},
                }
                for written in made.calls
            ]
        choice = {"index": 0, "message": message, "finish_reason": made.finish_reason}
        return {**_frame("chat.completion", call), "choices": [choice], "usage": _usage(made.usage)}

    def events(self, made: Answer, call: Call, chunk_chars: int) -> Iterator[bytes]:
        """The pieces of a streamed answer, the end mark last."""
        frame = _frame("chat.completion.chunk", call)
        yield _event(frame, {"role": "assistant", "content": ""})
        for piece in _pieces(made.reasoning or "", chunk_chars):
            yield _event(frame, {"reasoning_content": piece})
        for piece in _pieces(made.text or "", chunk_chars):
            yield _event(frame, {"content": piece})
        for index, written in enumerate(made.calls):
            function = {"name": written.name, "arguments": ""}
            opened = {"index": index, "id": written.id, "type": "function", "function": function}
            yield _event(frame, {"tool_calls": [opened]})
            for piece in _pieces(written.arguments, chunk_chars):
                more = {"index": index, "function": {"arguments": piece}}
                yield _event(frame, {"tool_calls": [more]})
        yield _event(frame, {}, made.finish_reason)
        if call.wants_usage:
            yield _data({**frame, "choices": [], "usage": _usage(made.usage)})
        yield b"data: [DONE]\n\n"

    def endless(self, call: Call) -> bytes:
        """The piece that an endless stream repeats."""
        return _event(_frame("chat.completion.chunk", call), {"content": "and so on " * 100})


def _identity(headers: Mapping[str, str]) -> tuple[str | None, int | None]:
    task = headers.get("x-proctor-task")
    attempt = headers.get("x-proctor-attempt")
    if attempt is not None and not (attempt.isascii() and attempt.isdigit() and len(attempt) < 10):
        raise BadRequest("X-Proctor-Attempt must be a number")
    return None if task is None else unquote(task), None if attempt is None else int(attempt)


def _frame(kind: str, call: Call) -> dict[str, Any]:
    return {
        "id": "chatcmpl-scripted",
        "object": kind,
        "created": _CREATED,
        "model": call.ask.model,
    }


def _event(frame: dict[str, Any], delta: dict[str, Any], finish: str | None = None) -> bytes:
    return _data({**frame, "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})


def _data(value: dict[str, Any]) -> bytes:
    return b"data: " + jsontext.dumps(value).encode("utf-8") + b"\n\n"


def _pieces(text: str, size: int) -> Iterator[str]:
    for start in range(0, len(text), size):
        yield text[start : start + size]


def _usage(usage: Usage) -> dict[str, Any]:
    return {
        "prompt_tokens": usage.input_tokens,
        "completion_tokens": usage.output_tokens,
        "total_tokens": usage.input_tokens + usage.output_tokens,
        "prompt_tokens_details": {"cached_tokens": usage.cached_tokens},
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
    }
