"""A persistent sequence: a new version costs O(log n), and every old version stays as it was.

The view of a run is a value; copying a tuple of ten thousand actions for every event would make a
run quadratic. Nearly every change is near the end, so the last items are kept in a tail of their
own, beside a tree of whole blocks.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Generic, TypeVar

from msgspec import Struct

T = TypeVar("T")

_BITS = 5
_WIDTH = 1 << _BITS
_MASK = _WIDTH - 1
Node = tuple[Any, ...]


class Later:
    """A block of 32 items that is made when one of them is asked for. `source`: what it is made of.
    Equal to a block of the same items."""

    __slots__ = ("_items", "_make", "source")

    def __init__(self, source: str, make: Callable[[str], Node]) -> None:
        self.source = source
        self._make = make
        self._items: Node | None = None

    @property
    def items(self) -> Node:
        """The items, made once."""
        if self._items is None:
            self._items = self._make(self.source)
        return self._items

    def __eq__(self, other: object) -> bool:
        return self.items == (other.items if isinstance(other, Later) else other)

    def __hash__(self) -> int:
        return hash(self.items)


class Sequence32(Struct, Generic[T], frozen=True, gc=False, eq=False):
    """Items 0 … len-1. `append` and `replace` return a new sequence.

    `tail`: the last 1 to 32 items, none only if there are none at all; `before`: how many are in
    the tree; `root`: nodes of 32, the lowest of blocks of 32 items.
    """

    tail: Node = ()
    before: int = 0
    root: Node = ()
    shift: int = _BITS

    @classmethod
    def of(cls, items: Sequence[T]) -> "Sequence32[T]":
        """A sequence of these items, made in one go."""
        before = max(0, len(items) - 1) & ~_MASK
        return cls.of_blocks(_grouped(items[:before]), items[before:])

    @classmethod
    def of_blocks(cls, blocks: Sequence[Node | Later], tail: Sequence[T]) -> "Sequence32[T]":
        """A sequence of these blocks, 32 items each, and the last 1 to 32 items (none only if there
        are none at all). Raises ValueError."""
        if len(tail) > _WIDTH or (blocks and not tail):
            raise ValueError(f"{len(blocks)} blocks and {len(tail)} items behind them")
        level: list[Any] = list(blocks)
        before, shift = len(blocks) * _WIDTH, _BITS
        while len(level) > _WIDTH:
            level, shift = _grouped(level), shift + _BITS
        return cls(tuple(tail), before, tuple(level), shift)

    @property
    def blocks(self) -> Iterator[Node | Later]:
        """The whole blocks, as they are kept."""
        return _blocks(self.root, self.shift)

    def __len__(self) -> int:
        return self.before + len(self.tail)

    def __getitem__(self, index: int) -> T:
        place = index - self.before
        if place >= 0:
            return self.tail[place]  # type: ignore[no-any-return]
        item: T = self._block(index)[index & _MASK]
        return item

    def span(self, start: int, stop: int) -> list[T]:
        """The items from `start` to before `stop`, block by block."""
        found: list[T] = []
        stop = min(stop, len(self))
        while start < min(stop, self.before):
            place = start & _MASK
            found += self._block(start)[place : place + stop - start]
            start += _WIDTH - place
        if stop > self.before:
            found += self.tail[max(0, start - self.before) : stop - self.before]
        return found

    def __iter__(self) -> Iterator[T]:
        for block in _blocks(self.root, self.shift):
            yield from block.items if isinstance(block, Later) else block
        yield from self.tail

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence32):
            return NotImplemented
        return self.tail == other.tail and self.root == other.root

    def __hash__(self) -> int:
        return hash((self.tail, self.root))

    def __repr__(self) -> str:
        return f"Sequence32({list(self)!r})"

    @property
    def last(self) -> T | None:
        """The last item, None if there is none."""
        return self.tail[-1] if self.tail else None

    def append(self, item: T) -> "Sequence32[T]":
        """The sequence with `item` behind its last one."""
        tail, before, root, shift = self.tail, self.before, self.root, self.shift
        if len(tail) < _WIDTH:
            return Sequence32((*tail, item), before, root, shift)
        if before == _WIDTH << shift:  # full: one level more
            root, shift = (root,), shift + _BITS
        return Sequence32((item,), before + _WIDTH, _put(root, shift, before, tail), shift)

    def replace(self, index: int, item: T) -> "Sequence32[T]":
        """The sequence with `item` in the place of item `index`. Raises IndexError."""
        place = index - self.before
        if place >= 0:
            tail = list(self.tail)
            tail[place] = item
            return Sequence32(tuple(tail), self.before, self.root, self.shift)
        block = list(self._block(index))
        block[index & _MASK] = item
        root = _put(self.root, self.shift, index, tuple(block))
        return Sequence32(self.tail, self.before, root, self.shift)

    def _block(self, index: int) -> Node:
        if index < 0:
            raise IndexError(f"item {index} of {len(self)}")
        node: Any = self.root
        shift = self.shift
        while shift:
            node = node[(index >> shift) & _MASK]
            shift -= _BITS
        found: Node = node.items if type(node) is Later else node
        return found


def _put(node: Node, shift: int, index: int, block: Node) -> Node:
    """`node` with `block` as the one that holds item `index`."""
    slot = (index >> shift) & _MASK
    below: Node = block
    if shift > _BITS:
        below = _put(node[slot] if slot < len(node) else (), shift - _BITS, index, block)
    if slot >= len(node):
        return (*node, below)
    items = list(node)
    items[slot] = below
    return tuple(items)


def _grouped(items: Sequence[Any]) -> list[Any]:
    return [tuple(items[at : at + _WIDTH]) for at in range(0, len(items), _WIDTH)]


def _blocks(node: Node, shift: int) -> Iterator[Node | Later]:
    for below in node:
        if shift > _BITS:
            yield from _blocks(below, shift - _BITS)
        else:
            yield below
