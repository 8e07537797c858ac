"""What can have happened in a run. Events are facts: they are appended and never changed.

An event is a frozen struct whose fields are JSON values; `encode` and `decode` are the only
way to and from a journal's body. `VERSION` is the schema version of the bodies: a field that is
new has a default, so older bodies stay readable, and what has its default is not written.
"""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, TypeVar, get_origin

from msgspec import NODEFAULT, Struct
from msgspec.json import Encoder
from msgspec.structs import FieldInfo, fields

from proctor.kernel.errors import StorageError

VERSION = 3
"""2: an accepted result and a turn that was known at once are one event each. 3: an accepted action
whose arguments are those of its call does not say so with a null."""
Json = Mapping[str, Any]


class AgentEvent(Struct, frozen=True, gc=False, omit_defaults=True):
    """The parent of all events."""

    kind: ClassVar[str]


E = TypeVar("E", bound=AgentEvent)
KINDS: dict[str, type[AgentEvent]] = {}
"""Every kind of event with its class."""
_CHECKED: set[type[AgentEvent]] = set()
_quick = Encoder().encode
_FIELDS: dict[type[AgentEvent], tuple[tuple[str, Any], ...]] = {}
_NAMES: dict[type[AgentEvent], frozenset[str]] = {}
_TUPLES: dict[type[AgentEvent], frozenset[str]] = {}  # a list elsewhere is somebody's value


def kind(name: str, *, checked: bool = False) -> Callable[[type[E]], type[E]]:
    """`checked`: its values are made here or were found to be JSON where they came in."""

    def register(cls: type[E]) -> type[E]:
        if checked:
            _CHECKED.add(cls)
        cls.kind = name
        KINDS[name] = cls
        given = fields(cls)
        _FIELDS[cls] = tuple((f.name, _default(f)) for f in given)
        _NAMES[cls] = frozenset(f.name for f in given)
        _TUPLES[cls] = frozenset(f.name for f in given if get_origin(f.type) is tuple)
        return cls

    return register


def _default(given: FieldInfo) -> Any:
    factory = given.default_factory
    return given.default if factory is NODEFAULT else factory()


def encode(event: AgentEvent) -> dict[str, Any]:
    """The body of an event as JSON, without what has its default."""
    body = {}
    for name, default in _FIELDS[type(event)]:
        value = getattr(event, name)
        if value is not default and value != default:
            body[name] = value
    return body


def encoded(event: AgentEvent) -> str | None:
    """The text of `encode(event)`, or None: then a strict encoder has to make it.

    The quick encoder writes NaN as null and takes types that JSON has not: it is given checked
    values only, and a text that holds a null is not trusted.
    """
    if type(event) not in _CHECKED:
        return None
    try:
        text = _quick(event)
    except (TypeError, ValueError, RecursionError):  # a lone surrogate, or what is no JSON
        return None
    return None if b"null" in text else text.decode()


def decode(kind: str, version: int, body: Json) -> AgentEvent:
    """The event of a stored body. Raises StorageError for one this program does not know."""
    cls = KINDS.get(kind)
    if cls is None or version > VERSION:
        raise StorageError(
            f"event {kind!r} of version {version} was written by a newer proctor",
            hint="open the run with the version of proctor that wrote it",
        )
    known, tuples = _NAMES[cls], _TUPLES[cls]
    return cls(
        **{
            name: tuple(value) if name in tuples and type(value) is list else value
            for name, value in body.items()
            if name in known
        },
    )
