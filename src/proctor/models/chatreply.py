"""Chat completions, the way back: strict parsing, whole or not at all."""

from typing import Any

from proctor.kernel import jsontext
from proctor.models.contract import ModelReply, ToolCall, Usage
from proctor.models.errors import (
    Category,
    Failure,
    RequestFailed,
    error_fields,
    failed,
    says_context_exceeded,
    shown,
)
from proctor.models.toolcalls import tool_call

_FINISH = {"function_call": "tool_calls", "end_turn": "stop", "eos": "stop", "max_tokens": "length"}
"""Words of some endpoints, and the ones they mean."""

_CUT_SHORT = frozenset(["length", "content_filter"])
"""Finish reasons after which an answer may be empty."""


def parse_body(body: bytes, content_type: str) -> dict[str, Any]:
    """The JSON object of a response with status 200. Raises RequestFailed (malformed)."""
    if "html" in content_type.lower() or body[:512].lstrip()[:1] == b"<":
        text = body[:2000].decode("utf-8", "replace")
        raise failed(
            Category.MALFORMED, f"the endpoint answered HTML instead of JSON: {shown(text)[:120]}"
        )
    return _object(body, "the reply")


def parse_event(data: bytes) -> dict[str, Any]:
    """The JSON object of one streamed event."""
    return _object(data, "an event of the stream")


def _object(data: bytes, what: str) -> dict[str, Any]:
    try:
        value = jsontext.loads(data)
    except jsontext.JsonError as error:
        reason = "is empty" if not data.strip() else f"is not JSON: {error}"
        raise failed(Category.MALFORMED, f"{what} {reason}") from None
    if not isinstance(value, dict):
        raise failed(Category.MALFORMED, f"{what} is not a JSON object")
    return value


def refuse_error(data: dict[str, Any]) -> None:
    """Raise what an error object in place of an answer means, if `data` has one."""
    if not data.get("error"):
        return
    code, text = error_fields(data["error"])
    category = Category.SERVER_ERROR
    if says_context_exceeded(code, text):
        category = Category.CONTEXT_EXCEEDED
    elif code in ("429", "rate_limit_exceeded"):
        category = Category.RATE_LIMITED
    raise RequestFailed(Failure(category, f"the endpoint answered an error: {shown(text)}"))


def reply_of(data: dict[str, Any]) -> ModelReply:
    """The finished turn in a chat completion object. Raises RequestFailed.

    A turn without content is refused, unless it has tool calls or says that it was stopped by
    the token limit or a filter. Tool calls of a turn that was stopped are never used.
    """
    refuse_error(data)
    choice = _first_choice(data)
    message = choice.get("message")
    if not isinstance(message, dict):
        raise failed(Category.MALFORMED, "the reply's choice has no message")
    finish = choice.get("finish_reason")
    if not isinstance(finish, str) or not finish:
        raise failed(Category.MALFORMED, "the reply has no finish_reason")
    finish = _FINISH.get(finish, finish)
    calls = _calls(message, finish)
    return ModelReply(
        text=_text(message, finish, calls),
        usage=_usage(data.get("usage")),
        tool_calls=calls,
        reasoning=_reasoning(message),
        finish_reason=finish,
        extra=_extra(data, message),
    )


def _first_choice(data: dict[str, Any]) -> dict[str, Any]:
    choices = data.get("choices")
    if not isinstance(choices, list) or not choices:
        raise failed(Category.MALFORMED, "the reply has no choices")
    choice = choices[0]
    if not isinstance(choice, dict):
        raise failed(Category.MALFORMED, "the reply's choice is not an object")
    return choice


def _calls(message: dict[str, Any], finish: str) -> tuple[ToolCall, ...]:
    raw = message.get("tool_calls")
    if raw is None or raw == []:
        return ()
    if not isinstance(raw, list) or not all(isinstance(call, dict) for call in raw):
        raise failed(Category.MALFORMED, "the reply's tool_calls are not a list of objects")
    functions = [f if isinstance(f := call.get("function"), dict) else {} for call in raw]
    if finish in _CUT_SHORT:
        names = ", ".join(shown(str(function.get("name"))) for function in functions)
        raise failed(Category.TRUNCATED, f"the turn ended by {finish} in its tool calls: {names}")
    return tuple(
        tool_call(call.get("id"), function.get("name"), function.get("arguments"))
        for call, function in zip(raw, functions, strict=True)
    )


def _text(message: dict[str, Any], finish: str, calls: tuple[ToolCall, ...]) -> str:
    content = message.get("content")
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "".join(_part(part) for part in content)
    if content is not None:
        raise failed(Category.MALFORMED, "the reply's content is not text")
    refusal = message.get("refusal")
    if isinstance(refusal, str) and refusal:
        return refusal
    if not calls and finish not in _CUT_SHORT:
        raise failed(Category.MALFORMED, "the reply has neither content nor tool calls")
    return ""


def _part(part: Any) -> str:
    text = part.get("text") if isinstance(part, dict) and part.get("type") == "text" else None
    if not isinstance(text, str):
        raise failed(Category.MALFORMED, "the reply's content has a part that is not text")
    return text


def _reasoning(message: dict[str, Any]) -> str | None:
    for key in ("reasoning_content", "reasoning"):
        if isinstance(value := message.get(key), str) and value:
            return value
    return None


def _usage(raw: Any) -> Usage:
    if not isinstance(raw, dict):
        return Usage(requests=1)
    return Usage(
        input_tokens=_count(raw, "prompt_tokens"),
        output_tokens=_count(raw, "completion_tokens"),
        cached_tokens=_count(raw.get("prompt_tokens_details"), "cached_tokens"),
        reasoning_tokens=_count(raw.get("completion_tokens_details"), "reasoning_tokens"),
        requests=1,
    )


def _count(raw: Any, key: str) -> int:
    value = raw.get(key) if isinstance(raw, dict) else None
    return value if type(value) is int and value >= 0 else 0


def _extra(data: dict[str, Any], message: dict[str, Any]) -> dict[str, Any]:
    extra: dict[str, Any] = {
        key: data[key] for key in ("id", "model") if isinstance(data.get(key), str)
    }
    usage = data.get("usage")
    if not isinstance(usage, dict) or type(usage.get("completion_tokens")) is not int:
        extra["usage_missing"] = True
    if isinstance(message.get("refusal"), str):
        extra["refused"] = True
    return extra
