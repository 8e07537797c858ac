"""What tools and policies hand in: somebody else's code, on an agent's arguments, may return and
raise anything. Here it becomes values of the right type, or a reason that the model is told."""

import asyncio
import math
from collections.abc import Awaitable, Callable, Iterable
from decimal import Decimal
from typing import Any, TypeVar

from proctor.agent.core.locks import Access, Mode
from proctor.kernel import jsontext

T = TypeVar("T")
REASON_LIMIT = 2000
"""Characters of a reason that stay in the log."""
NAME_LIMIT = 200
RESOURCES_LIMIT = 1000
PATH_LIMIT = 4096
LONGEST_S = 100 * 365.25 * 86_400
"""The longest time that anybody can wait for: a hundred years."""


class Misbehaved(Exception):
    """Somebody else's code tried to end the worker, or cancelled itself."""


def is_given(found: object, default: Callable[..., Any]) -> bool:
    """Whether a method that was looked up on somebody else's object is not the default of its
    base class: then there is something to call."""
    return getattr(found, "__func__", None) is not default


def call(function: Callable[..., T], *arguments: Any) -> T:
    """`function(*arguments)`; what is no Exception becomes Misbehaved."""
    try:
        return function(*arguments)
    except (SystemExit, GeneratorExit, asyncio.CancelledError) as error:
        raise Misbehaved(f"it raised {type(error).__name__}") from error


async def awaited(function: Callable[..., Awaitable[T]], *arguments: Any) -> T:
    """`await function(*arguments)`. A cancellation of the awaiting task stays one; everything else
    that is no Exception becomes Misbehaved."""
    try:
        return await function(*arguments)
    except (SystemExit, GeneratorExit, asyncio.CancelledError) as error:
        task = asyncio.current_task()
        if isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling():
            raise
        raise Misbehaved(f"it raised {type(error).__name__}") from error


def shown(value: object, limit: int = REASON_LIMIT) -> str:
    """Any value as a text of at most `limit` characters; of a collection only its type, because
    its text can be far larger than itself. Never raises."""
    plain = value is None or isinstance(value, str | int | float | Decimal | BaseException)
    text = jsontext.text_of(value) if plain else f"a value of type {type(value).__name__}"
    return text if len(text) <= limit else text[:limit] + "…"


def said(error: BaseException, limit: int = REASON_LIMIT) -> str:
    """What an exception says, or its name."""
    return shown(error, limit) or type(error).__name__


def objection(value: object) -> str | None:
    """The answer of a check: None, or why not. Anything but None is a no."""
    return None if value is None else shown(value)


def name_problem(name: object) -> str | None:
    """Why this cannot be the id of a call, or None."""
    if type(name) is not str:
        return f"the id of a call is a text, not {type(name).__name__}"
    if not 0 < len(name) <= NAME_LIMIT or not name.isprintable():
        return f"the id of a call has 1 to {NAME_LIMIT} printable characters"
    return None


def accesses(found: object) -> tuple[Access, ...]:
    """The resources that a tool declares. Raises ValueError for anything else."""
    if type(found) is not tuple and not isinstance(found, Iterable):
        raise ValueError(f"resources are {type(found).__name__}, not a sequence of Access")
    taken: list[Access] = []
    for access in found:
        if not isinstance(access, Access) or not isinstance(access.mode, Mode):
            raise ValueError(f"a resource is {type(access).__name__}, not Access")
        if type(access.path) is not str or len(access.path) > PATH_LIMIT:
            raise ValueError(f"a resource's path is a text of at most {PATH_LIMIT} characters")
        if len(taken) == RESOURCES_LIMIT:
            raise ValueError(f"more than {RESOURCES_LIMIT} resources")
        taken.append(access)
    return tuple(taken)


def seconds(value: object, what: str) -> float:
    """A time in seconds from 0 to a hundred years. Raises ValueError."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"{what} is a number of seconds, not {type(value).__name__}")
    if not (math.isfinite(value) and 0 <= value <= LONGEST_S):
        raise ValueError(f"{what} is from 0 to {LONGEST_S:.0f} seconds")
    return float(value)
