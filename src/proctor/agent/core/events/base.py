"""What can have happened in a run. Events are facts: they are appended and never changed.

An event is a frozen dataclass whose fields are JSON values; `encode` and `decode` are the only
way to and from a journal's body. `VERSION` is the schema version of the bodies: a field that is
new has a default, so older bodies stay readable, and what has its default is not written.
"""

from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, fields
from operator import attrgetter
from typing import Any, ClassVar, TypeVar, get_origin

from proctor.agent.core.changing import made
from proctor.kernel.errors import StorageError

VERSION = 2
"""2: an accepted result and a turn that was known at once are one event each."""
Json = Mapping[str, Any]


class AgentEvent:
    """The parent of all events, which are frozen dataclasses."""

    __slots__ = ()
    kind: ClassVar[str]


E = TypeVar("E", bound=AgentEvent)
KINDS: dict[str, type[AgentEvent]] = {}
"""Every kind of event with its class."""
_NEEDED: dict[type[AgentEvent], tuple[tuple[str, ...], Callable[[Any], Any]]] = {}
_OPTIONAL: dict[type[AgentEvent], tuple[tuple[str, Any], ...]] = {}
_NAMES: dict[type[AgentEvent], frozenset[str]] = {}
_TUPLES: dict[type[AgentEvent], frozenset[str]] = {}  # a list elsewhere is somebody's value


def kind(name: str) -> Callable[[type[E]], type[E]]:
    def register(cls: type[E]) -> type[E]:
        cls.kind = name
        KINDS[name] = cls
        given = {f.name: _default(f) for f in fields(cls)}  # type: ignore[arg-type]
        needed = tuple(name for name, default in given.items() if default is MISSING)
        _NEEDED[cls] = (needed, _getter(needed))
        _OPTIONAL[cls] = tuple(
            (name, default) for name, default in given.items() if default is not MISSING
        )
        _NAMES[cls] = frozenset(given)
        _TUPLES[cls] = frozenset(f.name for f in fields(cls) if get_origin(f.type) is tuple)  # type: ignore[arg-type]
        return cls

    return register


def _default(given: "Field[Any]") -> Any:
    return given.default if given.default_factory is MISSING else given.default_factory()


def _getter(names: tuple[str, ...]) -> Callable[[Any], Any]:
    """The values of these fields as a tuple."""
    if len(names) > 1:
        return attrgetter(*names)
    return lambda event: tuple([getattr(event, name) for name in names])


def encode(event: AgentEvent) -> dict[str, Any]:
    """The body of an event as JSON, without what has its default."""
    cls = type(event)
    names, values = _NEEDED[cls]
    body = dict(zip(names, values(event), strict=True))
    for name, default in _OPTIONAL[cls]:
        value = getattr(event, name)
        if value is not default and value != default:
            body[name] = value
    return body


def decode(kind: str, version: int, body: Json) -> AgentEvent:
    """The event of a stored body. Raises StorageError for one this program does not know."""
    cls = KINDS.get(kind)
    if cls is None or version > VERSION:
        raise StorageError(
            f"event {kind!r} of version {version} was written by a newer proctor",
            hint="open the run with the version of proctor that wrote it",
        )
    known, tuples = _NAMES[cls], _TUPLES[cls]
    return made(
        cls,
        **{
            name: tuple(value) if name in tuples and type(value) is list else value
            for name, value in body.items()
            if name in known
        },
    )
