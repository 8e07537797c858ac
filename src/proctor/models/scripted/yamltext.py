"""YAML with the place of every value, so that a problem can name its line and column.

Stricter than YAML 1.1: only `true`, `false`, `null`, `~` and decimal numbers are not text, so
`no`, `1.10` in quotes and `12:30` stay what they look like. Keys are text, and given once.
"""

import re
from typing import Any, TypeAlias

import yaml

Path: TypeAlias = tuple[str | int, ...]
Places: TypeAlias = dict[Path, tuple[int, int]]
"""Line and column, from 1, of each key or list item."""

MAX_VALUES = 500_000
"""Values a document may have once its aliases are followed."""


class YamlProblem(ValueError):
    """The text is not usable YAML; `line` and `column` count from 1."""

    def __init__(self, reason: str, line: int, column: int) -> None:
        self.line = line
        self.column = column
        super().__init__(reason)


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012


_INT = re.compile(r"[-+]?(?:0|[1-9][0-9]*)")
_FLOAT = re.compile(r"[-+]?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?")
_PLAIN = {"true": True, "false": False, "null": None, "~": None, "": None}
_STR = "tag:yaml.org,2002:str"


def parse(text: str) -> tuple[Any, Places]:
    """The document and the places of its values. Raises YamlProblem."""
    try:
        root = yaml.compose(text, Loader=_Loader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line, column = (mark.line + 1, mark.column + 1) if mark else (1, 1)
        raise YamlProblem(error.problem or "not YAML", line, column) from None
    except yaml.YAMLError as error:  # a character that YAML does not allow
        raise YamlProblem(str(error).splitlines()[0], *_position(text, error)) from None
    except RecursionError:
        raise YamlProblem("nested too deeply", 1, 1) from None
    if root is None:
        return None, {}
    places: Places = {(): (1, 1)}
    return _Builder(places).value(root, ()), places


def _position(text: str, error: yaml.YAMLError) -> tuple[int, int]:
    offset = getattr(error, "position", 0) or 0
    before = text[:offset]
    return before.count("\n") + 1, offset - (before.rfind("\n") + 1) + 1


class _Builder:
    def __init__(self, places: Places) -> None:
        self._places = places
        self._values = 0
        self._open: set[int] = set()

    def value(self, node: yaml.Node, path: Path) -> Any:
        self._values += 1
        if self._values > MAX_VALUES:
            raise _problem(node, f"more than {MAX_VALUES:,} values")
        if isinstance(node, yaml.ScalarNode):
            return _scalar(node)
        if id(node) in self._open:
            raise _problem(node, "an alias that contains itself")
        self._open.add(id(node))
        built: Any = (
            self._mapping(node, path)
            if isinstance(node, yaml.MappingNode)
            else self._sequence(node, path)
        )
        self._open.discard(id(node))
        return built

    def _sequence(self, node: yaml.Node, path: Path) -> list[Any]:
        items = []
        for index, item in enumerate(node.value):
            self._places[(*path, index)] = _mark(item)
            items.append(self.value(item, (*path, index)))
        return items

    def _mapping(self, node: yaml.Node, path: Path) -> dict[str, Any]:
        built: dict[str, Any] = {}
        for key_node, item in node.value:
            if not isinstance(key_node, yaml.ScalarNode):
                raise _problem(key_node, "a key must be text")
            key = str(key_node.value)
            if key in built:
                raise _problem(key_node, f"{key!r} is given twice")
            self._places[(*path, key)] = _mark(key_node)
            built[key] = self.value(item, (*path, key))
        return built


def _scalar(node: yaml.ScalarNode) -> Any:
    text = str(node.value)
    if node.tag != _STR:
        raise _problem(node, f"tags such as {node.tag} are not used here")
    if node.style:  # quoted or a block: text as it stands
        return text
    if text in _PLAIN:
        return _PLAIN[text]
    if len(text) <= 40 and _INT.fullmatch(text):
        return int(text)
    if len(text) <= 40 and _FLOAT.fullmatch(text):
        return float(text)
    return text


def _mark(node: yaml.Node) -> tuple[int, int]:
    return node.start_mark.line + 1, node.start_mark.column + 1


def _problem(node: yaml.Node, reason: str) -> YamlProblem:
    return YamlProblem(reason, *_mark(node))
