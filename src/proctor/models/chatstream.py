"""A streamed chat completion, put together into the object that a whole one would be."""

from collections.abc import AsyncIterator
from typing import Any

from proctor.models.chatreply import parse_event, refuse_error
from proctor.models.errors import Category, RequestFailed, failed
from proctor.models.http.sse import EventParser

DONE = b"[DONE]"


class ChatStream:
    """Collects the pieces of the first choice."""

    def __init__(self) -> None:
        self._top: dict[str, Any] = {}
        self._texts: dict[str, list[str]] = {}
        self._calls: dict[int, dict[str, Any]] = {}
        self._arguments: dict[int, list[str]] = {}
        self._finish: Any = None
        self._seen_choice = False

    def add(self, data: bytes) -> None:
        """One event. Raises RequestFailed."""
        event = parse_event(data)
        refuse_error(event)
        for key in ("id", "model", "usage"):
            if event.get(key) is not None:
                self._top[key] = event[key]
        choices = event.get("choices")
        if choices is None or choices == []:  # the last event carries only the usage
            return
        if not isinstance(choices, list) or not all(isinstance(c, dict) for c in choices):
            raise failed(Category.MALFORMED, "an event's choices are not a list of objects")
        for choice in choices:
            if choice.get("index", 0) == 0:
                self._choice(choice)

    def _choice(self, choice: dict[str, Any]) -> None:
        self._seen_choice = True
        if choice.get("finish_reason") is not None:
            self._finish = choice["finish_reason"]
        delta = choice.get("delta")
        if delta is None:
            return
        if not isinstance(delta, dict):
            raise failed(Category.MALFORMED, "an event's delta is not an object")
        for key in ("content", "refusal", "reasoning_content", "reasoning"):
            if delta.get(key) is not None:
                self._texts.setdefault(key, []).append(_text(delta[key], key))
        pieces = delta.get("tool_calls") or []
        if not isinstance(pieces, list):
            raise failed(Category.MALFORMED, "an event's tool_calls are not a list")
        for piece in pieces:
            self._call(piece)

    def _call(self, piece: Any) -> None:
        index = piece.get("index") if isinstance(piece, dict) else None
        if type(index) is not int:
            raise failed(Category.MALFORMED, "a streamed tool call has no index")
        call = self._calls.setdefault(index, {"id": None, "function": {"name": None}})
        if piece.get("id"):
            call["id"] = piece["id"]
        function = piece.get("function")
        if not isinstance(function, dict):
            return
        if function.get("name"):
            call["function"]["name"] = function["name"]
        if function.get("arguments") is not None:
            text = _text(function["arguments"], "arguments")
            self._arguments.setdefault(index, []).append(text)

    def completion(self) -> dict[str, Any]:
        """The whole completion object. Raises RequestFailed when the stream did not finish."""
        if not self._seen_choice:
            raise failed(Category.MALFORMED, "the stream has no choices")
        if self._finish is None:
            raise self.cut("it ended without a finish_reason")
        message: dict[str, Any] = {"content": None}
        message.update({key: "".join(pieces) for key, pieces in self._texts.items()})
        if self._calls:
            message["tool_calls"] = [self._whole(index) for index in sorted(self._calls)]
        return {**self._top, "choices": [{"message": message, "finish_reason": self._finish}]}

    def _whole(self, index: int) -> dict[str, Any]:
        call = self._calls[index]
        arguments = "".join(self._arguments.get(index, []))
        return {"id": call["id"], "function": {**call["function"], "arguments": arguments}}

    def cut(self, how: str) -> RequestFailed:
        """The failure of a stream that broke off, with what was lost."""
        names = [str(call["function"]["name"]) for call in self._calls.values()]
        lost = f"; unfinished tool calls: {', '.join(names)}" if names else ""
        return failed(Category.TRUNCATED, f"the stream was cut: {how}{lost}")


def _text(value: Any, key: str) -> str:
    if not isinstance(value, str):
        raise failed(Category.MALFORMED, f"an event's {key} is not text")
    return value


async def collect(chunks: AsyncIterator[bytes]) -> dict[str, Any]:
    """Read a stream to its end mark. Raises RequestFailed.

    Only a stream with a finish reason and `[DONE]` is finished; everything else is cut, and
    nothing of it is used.
    """
    parser, stream = EventParser(), ChatStream()
    try:
        async for chunk in chunks:
            for data in parser.feed(chunk):
                if data.strip() == DONE:
                    return stream.completion()
                stream.add(data)
    except RequestFailed as error:
        if error.failure.category is Category.TRUNCATED:
            raise stream.cut(error.failure.message) from None
        raise
    raise stream.cut("it ended without [DONE]")
