"""What the scripted server needs to know of a protocol, so that more can be added."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

from proctor.models.http.serving import Incoming
from proctor.models.scripted.answer import Answer
from proctor.models.scripted.script import Ask


class BadRequest(Exception):
    """A request that breaks its protocol; the message goes into the 400."""


@dataclass(frozen=True, slots=True)
class Call:
    """One request, read."""

    ask: Ask
    stream: bool
    wants_usage: bool


class Dialect(Protocol):
    """One protocol at one path."""

    path: str

    def read(self, incoming: Incoming) -> Call:
        """What is asked. Raises BadRequest."""
        ...

    def whole(self, made: Answer, call: Call) -> dict[str, Any]:
        """The JSON body of an answer that is not streamed."""
        ...

    def events(self, made: Answer, call: Call, chunk_chars: int) -> Iterator[bytes]:
        """The pieces of a streamed answer."""
        ...

    def endless(self, call: Call) -> bytes:
        """The piece that an endless stream repeats."""
        ...
