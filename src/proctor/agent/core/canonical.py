"""The canonical text of an action's arguments, which is needed twice within one append: for the
action's key and for its row."""

from collections.abc import Mapping
from typing import Any

from proctor.kernel.digest import of_text
from proctor.kernel.jsontext import canonical

_KEPT = 64
_SHORT = 4096  # characters; what is longer is made again, rather than kept
_recent: dict[int, tuple[Mapping[str, Any], str]] = {}


def arguments_text(arguments: Mapping[str, Any]) -> str:
    """`canonical(arguments)`, which nobody changes; the newest ones are known by identity."""
    known = _recent.get(id(arguments))
    if known is not None and known[0] is arguments:
        return known[1]
    text = canonical(arguments)
    if len(text) <= _SHORT:
        if len(_recent) >= _KEPT:
            _recent.clear()
        _recent[id(arguments)] = (arguments, text)
    return text


def arguments_digest(arguments: Mapping[str, Any]) -> str:
    """The digest of the arguments."""
    return of_text(arguments_text(arguments))
