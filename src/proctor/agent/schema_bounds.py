"""How much work a schema from a stranger can make, found out before it is compiled.

Neither compiling nor checking can be interrupted, and a schema of a few lines can double its work
with every reference (`a` is `b` and `b`, `b` is `c` and `c`, …), or with every level of the
arguments. Both are counted here, each definition once.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

CHARS = 100_000
"""Characters of a schema, as JSON."""
NODES = 20_000
"""Objects, lists and values of a schema."""
DEPTH = 64
"""Levels of a schema as it is written."""
STEPS = 150
"""Levels of a schema when its references are followed, each once."""
WORK = 50_000
"""Subschemas that are looked at when every reference is followed, each cycle once."""
PATTERNS = 100
PATTERN_CHARS = 1_000
CHECKS = 1_000_000
"""How often a recursive schema may look at one place of the arguments."""

_DATA = frozenset({"enum", "const", "default", "examples"})
_DEFINITIONS = frozenset({"$defs", "definitions"})
_POINTERS = ("$dynamicRef", "$recursiveRef", "$dynamicAnchor", "$recursiveAnchor", "$anchor")


def growth(schema: Any) -> int:
    """How many times more often each level of the arguments can be looked at than the one above; 1
    for a schema without recursion. Raises ValueError saying which bound is broken."""
    _measure(schema)
    walk = _Walk(schema)
    work = walk.cost(schema, 0).work
    if work > WORK:
        raise ValueError(f"its references make it {work:.3g} subschemas, more than {WORK}")
    return walk.growth


def too_deep(arguments: Any, factor: int) -> bool:
    """Whether a schema of this growth would look at a place of these arguments too often."""
    if factor < 2:
        return False
    depth, checks = 0, 1
    level = [arguments]
    while level:
        depth, checks = depth + 1, checks * factor
        if checks > CHECKS:
            return True
        level = [child for value in level for child in _children(value) if _children(child)]
    return False


def _children(value: Any) -> Sequence[Any]:
    if isinstance(value, Mapping):
        return tuple(value.values())
    return value if isinstance(value, list | tuple) else ()


def _measure(schema: Any) -> None:
    """The bounds of the schema as it is written."""
    level, nodes, depth, patterns = [schema], 0, 0, 0
    while level:
        depth, nodes = depth + 1, nodes + len(level)
        if depth > DEPTH or nodes > NODES:
            raise ValueError(f"it has more than {DEPTH} levels or {NODES} values")
        below: list[Any] = []
        for value in level:
            patterns += sum(1 for _ in _patterns(value))
            below += _children(value)
            if len(below) > NODES:
                raise ValueError(f"it has more than {NODES} values")
        level = below
    if patterns > PATTERNS:
        raise ValueError(f"it has {patterns} patterns, more than {PATTERNS}")


def _patterns(value: Any) -> Iterator[str]:
    if not isinstance(value, Mapping):
        return
    named = value.get("patternProperties")
    found = [value.get("pattern"), *(named if isinstance(named, Mapping) else ())]
    for pattern in found:
        if isinstance(pattern, str):
            if len(pattern) > PATTERN_CHARS:
                raise ValueError(f"a pattern has more than {PATTERN_CHARS} characters")
            yield pattern


@dataclass(frozen=True, slots=True)
class _Cost:
    """`again`: how often a schema that is being looked at is come back to."""

    work: int = 0
    again: int = 0


class _Walk:
    """Follows references; each target is gone through once."""

    def __init__(self, root: Any) -> None:
        self._root = root
        self._known: dict[str, _Cost] = {}
        self._open: set[str] = set()
        self.growth = 1

    def cost(self, node: Any, depth: int) -> _Cost:
        if depth > STEPS:
            raise ValueError(f"it has more than {STEPS} levels with its references")
        work, again = 1, 0
        if isinstance(node, list | tuple):
            for each in node:
                found = self.cost(each, depth + 1)
                work, again = work + found.work, again + found.again
        if not isinstance(node, Mapping):
            return _Cost(work, again)
        for key, value in node.items():
            if key in _DATA or key in _DEFINITIONS:
                continue
            if key == "$ref" and isinstance(value, str):
                found = self._target(value, depth + 1)
            elif (key in _POINTERS or (key == "$id" and depth)) and isinstance(value, str):
                raise ValueError(f"{key} is not supported: refer with #/…")
            elif key == "properties" and isinstance(value, Mapping):
                found = self._apart(value, depth + 1)
            else:
                found = self.cost(value, depth + 1)
            work, again = work + found.work, again + found.again
        return _Cost(work, again)

    def _apart(self, named: Mapping[Any, Any], depth: int) -> _Cost:
        """Properties of several names are several places: no place is looked at by all."""
        found = [self.cost(value, depth + 1) for value in named.values()]
        return _Cost(sum(c.work for c in found), max((c.again for c in found), default=0))

    def _target(self, name: str, depth: int) -> _Cost:
        if name in self._open:
            return _Cost(1, 1)
        if name not in self._known:
            self._open.add(name)
            found = self._known[name] = self.cost(_resolved(self._root, name), depth)
            self._open.discard(name)
            self.growth = max(self.growth, found.again)
        return self._known[name]


def _resolved(root: Any, name: str) -> Any:
    if name != "#" and not name.startswith("#/"):
        raise ValueError(f"{name:.100} is not followed: only what begins with #/ is")
    found = root
    for word in name.split("/")[1:]:
        step = unquote(word).replace("~1", "/").replace("~0", "~")
        if isinstance(found, Mapping) and step in found:
            found = found[step]
        elif isinstance(found, list) and step.isdecimal() and int(step[:9]) < len(found):
            found = found[int(step[:9])]
        else:
            raise ValueError(f"{name:.100} leads nowhere")
    return found
