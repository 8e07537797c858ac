"""Which actions may run together: locks on hierarchical paths, the whole set at once.

A path is `scope/part/part`; the empty path is everything. Reading or writing a path puts an
intent on every path above it, so a write of `ws:1` keeps out an edit of `ws:1/src/a.py`, and two
reads share. First come, first served: an action that has to wait keeps out later ones that
conflict with it, so nobody starves.
"""

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from functools import lru_cache

from msgspec import Struct

MAX_DEPTH = 64
"""Parts of a path; what lies deeper is locked at this depth."""


class Mode(StrEnum):
    """What an action does with a resource."""

    READ = "read"
    WRITE = "write"


MODES: Mapping[str, Mode] = {mode.value: mode for mode in Mode}
"""By name: several times cheaper than `Mode(name)`."""
_WRITE = Mode.WRITE
_INTENT = {Mode.READ: "intent_read", Mode.WRITE: "intent_write"}
_EXCLUDES: Mapping[str, frozenset[str]] = {
    "read": frozenset({"write", "intent_write"}),
    "write": frozenset({"read", "write", "intent_read", "intent_write"}),
    "intent_read": frozenset({"write"}),
    "intent_write": frozenset({"read", "write"}),
}
Parts = tuple[str, ...]


class Access(Struct, frozen=True, gc=False):
    """One resource an action uses."""

    mode: Mode
    path: str

    @property
    def parts(self) -> Parts:
        """The path's parts; empty parts do not count. `.` and `..` are names like any other:
        whoever declares a resource normalises its paths."""
        return tuple([part for part in self.path.split("/") if part][:MAX_DEPTH])


EVERYTHING = (Access(Mode.WRITE, ""),)
"""The declaration of a tool that declares nothing."""


class LockTable:
    """Who holds which set of accesses. Not for several threads."""

    def __init__(self) -> None:
        self._modes: dict[Parts, dict[str, int]] = {}
        self._held: dict[Hashable, tuple[Access, ...]] = {}

    def holds(self, owner: Hashable) -> bool:
        """Whether `owner` holds a set."""
        return owner in self._held

    @property
    def is_full(self) -> bool:
        """Whether somebody holds everything, so that nothing else fits."""
        return Mode.WRITE.value in self._modes.get((), ())

    def fits(self, accesses: Iterable[Access]) -> bool:
        """Whether the whole set is compatible with everything that is held."""
        return not any(
            _EXCLUDES[mode] & self._modes.get(parts, {}).keys()
            for access in accesses
            for parts, mode in _marks(access)
        )

    def hold(self, owner: Hashable, accesses: Sequence[Access]) -> None:
        """Take the whole set; whether it fits is for the caller to ask. Raises ValueError when
        `owner` holds one already."""
        if owner in self._held:
            raise ValueError(f"{owner!r} holds locks already")
        self._held[owner] = tuple(accesses)
        for access in accesses:
            for parts, mode in _marks(access):
                counts = self._modes.setdefault(parts, {})
                counts[mode] = counts.get(mode, 0) + 1

    def release(self, owner: Hashable) -> None:
        """Give the whole set back. Raises KeyError when `owner` holds none."""
        for access in self._held.pop(owner):
            for parts, mode in _marks(access):
                counts = self._modes[parts]
                counts[mode] -= 1
                if not counts[mode]:
                    del counts[mode]
                if not counts:
                    del self._modes[parts]


def startable(
    held: Iterable[Sequence[Access]], queue: Iterable[Sequence[Access]]
) -> tuple[int, ...]:
    """The places in `queue` (first come first) that may start now, all of them together."""
    return tuple(startable_in_turn(held, queue))


def startable_in_turn(
    held: Iterable[Sequence[Access]], queue: Iterable[Sequence[Access]]
) -> Iterator[int]:
    """`startable`, place by place: who needs only the first ones does not pay for a long queue."""
    table = LockTable()
    waiting = set[Hashable]()
    for number, accesses in enumerate(held):
        table.hold(("held", number), accesses)
    full = table.is_full
    for place, accesses in enumerate(queue):
        if full:  # only who needs nothing gets past somebody who needs everything
            if not accesses:
                yield place
            continue
        key = _key(accesses)
        if key in waiting:  # one of the same needs waits before it, and keeps out the same
            continue
        fits = table.fits(accesses)
        table.hold(("queued", place), accesses)  # also one that waits: nobody overtakes it
        full = table.is_full
        if fits:
            yield place
        else:
            waiting.add(key)


def _key(accesses: Sequence[Access]) -> Hashable:
    """The same for the same needs, and cheap: an enumeration's own hash is not."""
    if len(accesses) == 1:
        one = accesses[0]
        return (one.path, one.mode is _WRITE)
    return tuple([(access.path, access.mode is _WRITE) for access in accesses])


def fits_beside(wanted: Sequence[Access], taken: Iterable[Sequence[Access]]) -> bool:
    """Whether `wanted` can be held while each of `taken` is, or waits before it."""
    table = LockTable()
    for number, accesses in enumerate(taken):
        table.hold(number, accesses)
    return table.fits(wanted)


def _marks(access: Access) -> tuple[tuple[Parts, str], ...]:
    if len(access.path) > _SHORT:  # an agent's word: not to be kept
        return _marks_made(access.mode, access.path)
    return _marks_kept(access.mode, access.path)


def _marks_made(mode: Mode, path: str) -> tuple[tuple[Parts, str], ...]:
    parts = Access(mode, path).parts
    above = [(parts[:depth], _INTENT[mode]) for depth in range(len(parts))]
    return (*above, (parts, mode.value))


_SHORT = 200
_marks_kept = lru_cache(maxsize=1024)(_marks_made)
