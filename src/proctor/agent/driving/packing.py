"""Long sequences inside a snapshot: whole blocks are compressed texts, made into items again when
somebody asks for one of them. What was read from a snapshot and not asked for since goes into the
next one as it is.
"""

import base64
import zlib
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, TypeVar

from proctor.agent.core.sequence import Later, Sequence32
from proctor.kernel import jsontext

T = TypeVar("T")
_QUICK = 1  # of zlib's levels: a driver packs on its way
_WIDTH = 32


def packed(items: Sequence32[T], encode: Callable[[T], Any]) -> dict[str, Any]:
    """The sequence as JSON, with a sum to check the blocks by."""
    blocks = [
        block.source if isinstance(block, Later) else _text([encode(item) for item in block])
        for block in items.blocks
    ]
    return {"blocks": blocks, "sum": _sum(blocks), "tail": [encode(item) for item in items.tail]}


def unpacked(given: Mapping[str, Any], decode: Callable[[Any], T]) -> Sequence32[T]:
    """The sequence of `packed`. Raises LookupError, TypeError or ValueError for anything else,
    damaged blocks too, though they are not looked into yet."""
    blocks = given["blocks"]
    if given["sum"] != _sum(blocks):
        raise ValueError("a block of the snapshot is damaged")
    make = partial(_items, decode=decode)
    tail = [decode(value) for value in given["tail"]]
    return Sequence32.of_blocks([Later(text, make) for text in blocks], tail)


def _text(values: list[Any]) -> str:
    """Text without anything that JSON would have to escape."""
    return base64.b64encode(zlib.compress(jsontext.dumps(values).encode(), _QUICK)).decode("ascii")


def _items(text: str, *, decode: Callable[[Any], Any]) -> tuple[Any, ...]:
    values = jsontext.loads(zlib.decompress(base64.b64decode(text)))
    if len(values) != _WIDTH:
        raise ValueError(f"a block of {len(values)} items")
    return tuple([decode(value) for value in values])


def _sum(blocks: Iterable[str]) -> int:
    found = 0
    for text in blocks:
        found = zlib.crc32(text.encode("ascii"), found)
    return found
