"""From a reply of the rule file to its texts, calls and counts; shared by model and server."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from proctor.kernel import jsontext
from proctor.models.contract import Usage
from proctor.models.scripted.rules import ReplySpec
from proctor.models.scripted.script import Ask, content_text

BYTES_PER_TOKEN = 4
"""The estimate used where the rule file gives no token counts."""


class NoReference(Exception):
    """The rule answers with the task's reference, and the caller has none."""


@dataclass(frozen=True, slots=True)
class WrittenCall:
    """A tool call with its arguments as text, well formed or not."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class Answer:
    """A reply with everything filled in."""

    text: str | None
    reasoning: str | None
    calls: tuple[WrittenCall, ...]
    finish_reason: str
    usage: Usage


def answer(reply: ReplySpec, ask: Ask) -> Answer:
    """Fill in texts, call ids and usage; the same ask always gives the same answer.

    Raises NoReference.
    """
    text = _text(reply, ask)
    calls = tuple(
        WrittenCall(
            call.id or f"call-{ask.turn}-{number}",
            call.name,
            call.arguments if isinstance(call.arguments, str) else jsontext.dumps(call.arguments),
        )
        for number, call in enumerate(reply.tool_calls, 1)
    )
    finish = reply.finish_reason or ("tool_calls" if calls else "stop")
    return Answer(text, reply.reasoning, calls, finish, _usage(reply, ask, text, calls))


def _text(reply: ReplySpec, ask: Ask) -> str | None:
    if reply.text_from == "last_message":
        return ask.last_message
    if reply.text_from == "reference":
        if ask.reference is None:
            raise NoReference
        return ask.reference
    return reply.text


def _usage(reply: ReplySpec, ask: Ask, text: str | None, calls: Sequence[WrittenCall]) -> Usage:
    given = reply.usage
    produced = [text or "", reply.reasoning or "", *(call.arguments for call in calls)]
    return Usage(
        input_tokens=_or_estimate(given.input_tokens, map(_message_bytes, ask.messages)),
        output_tokens=_or_estimate(given.output_tokens, map(_bytes, produced)),
        cached_tokens=given.cached_tokens,
        reasoning_tokens=given.reasoning_tokens,
        requests=1,
    )


def _or_estimate(given: int | None, sizes: Any) -> int:
    return given if given is not None else -(-sum(sizes) // BYTES_PER_TOKEN)


def _bytes(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))


def _message_bytes(message: Mapping[str, Any]) -> int:
    return _bytes(content_text(message.get("content")))
