"""Changed copies of frozen slotted dataclasses, several times cheaper than `dataclasses.replace`: a
view has thirty fields and every event changes a few of them.

A copy is made as an object of a twin class that is not frozen and has the same slots; then it is
given the class of the original, which Python allows for classes of one layout.
"""

from collections.abc import Callable, Mapping
from dataclasses import fields, make_dataclass
from operator import attrgetter
from typing import Any, TypeVar

T = TypeVar("T")

_TWINS: dict[type, tuple[Callable[..., Any], Callable[[Any], Any]]] = {}
_set = object.__setattr__


def _twin(cls: type) -> tuple[Callable[..., Any], Callable[[Any], Any]]:
    names = [field.name for field in fields(cls)]
    made = make_dataclass(f"{cls.__name__}Draft", names, slots=True, eq=False, repr=False)
    _TWINS[cls] = found = (made, attrgetter(*names))
    return found


def copied(value: T) -> T:
    """A copy of `value`, which has at least two fields."""
    cls = type(value)
    make, values = _TWINS.get(cls) or _twin(cls)
    new: T = make(*values(value))
    new.__class__ = cls
    return new


def changed(value: T, /, **changes: Any) -> T:
    """`value` with these fields changed. Raises AttributeError for a field it does not have."""
    cls = type(value)
    make, values = _TWINS.get(cls) or _twin(cls)
    new: T = make(*values(value))
    for name, item in changes.items():
        setattr(new, name, item)
    new.__class__ = cls
    return new


def complete(own: object, changes: Mapping[str, Any]) -> None:
    """Set fields of `own`: only for a copy that nobody else has seen yet."""
    for name, item in changes.items():
        _set(own, name, item)
