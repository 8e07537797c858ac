"""A persistent sequence: a new version costs O(log n), and every old version stays as it was.

The view of a run is a value; copying a tuple of ten thousand actions for every event would make a
run quadratic.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Generic, TypeVar

T = TypeVar("T")

_BITS = 5
_WIDTH = 1 << _BITS
_MASK = _WIDTH - 1


class Sequence32(Generic[T]):
    """Items 0 … len-1. `append` and `replace` return a new sequence."""

    __slots__ = ("_length", "_root", "_shift")

    def __init__(self, root: tuple[Any, ...] = (), length: int = 0, shift: int = 0) -> None:
        self._root = root
        self._length = length
        self._shift = shift

    @classmethod
    def of(cls, items: Sequence[T]) -> "Sequence32[T]":
        """A sequence of these items, made in one go."""
        level: list[Any] = list(items)
        shift = 0
        level = [tuple(level[at : at + _WIDTH]) for at in range(0, len(level), _WIDTH)]
        while len(level) > 1:
            level = [tuple(level[at : at + _WIDTH]) for at in range(0, len(level), _WIDTH)]
            shift += _BITS
        return cls(level[0] if level else (), len(items), shift)

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, index: int) -> T:
        if not 0 <= index < self._length:
            raise IndexError(f"item {index} of {self._length}")
        node: Any = self._root
        shift = self._shift
        while shift:
            node = node[(index >> shift) & _MASK]
            shift -= _BITS
        item: T = node[index & _MASK]
        return item

    def __iter__(self) -> Iterator[T]:
        yield from _walk(self._root, self._shift)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence32):
            return NotImplemented
        return len(self) == len(other) and self._root == other._root

    def __hash__(self) -> int:
        return hash((self._length, self._root))

    def __repr__(self) -> str:
        return f"Sequence32({list(self)!r})"

    def append(self, item: T) -> "Sequence32[T]":
        """The sequence with `item` behind its last one."""
        root, shift = self._root, self._shift
        if self._length == _WIDTH << shift:  # full: one level more
            root, shift = (root,), shift + _BITS
        return Sequence32(_put(root, shift, self._length, item), self._length + 1, shift)

    def replace(self, index: int, item: T) -> "Sequence32[T]":
        """The sequence with `item` in the place of item `index`. Raises IndexError."""
        if not 0 <= index < self._length:
            raise IndexError(f"item {index} of {self._length}")
        return Sequence32(_put(self._root, self._shift, index, item), self._length, self._shift)


def _put(node: tuple[Any, ...], shift: int, index: int, item: Any) -> tuple[Any, ...]:
    slot = (index >> shift) & _MASK
    if shift:
        below = node[slot] if slot < len(node) else ()
        item = _put(below, shift - _BITS, index, item)
    if slot >= len(node):
        return (*node, item)
    items = list(node)
    items[slot] = item
    return tuple(items)


def _walk(node: tuple[Any, ...], shift: int) -> Iterator[Any]:
    if not shift:
        yield from node
        return
    for below in node:
        yield from _walk(below, shift - _BITS)
