"""Reading requests from YAML, with every complaint at its line and column."""

from pathlib import Path
from typing import Any

import yaml

from proctor.kernel.errors import OptionError

MOST_VALUES = 100_000
"""What a request may hold, aliases written out."""
MOST_LEVELS = 100
"""How deep its values may be nested; the parser's own work grows with the square of it."""


class _Loader(yaml.SafeLoader):
    """Safe YAML that refuses a key given twice: last-wins would hide one of them."""

    level = 0

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        self.level += 1
        if self.level > MOST_LEVELS:
            problem = f"nested deeper than {MOST_LEVELS} levels"
            raise yaml.composer.ComposerError(None, None, problem, self.get_mark())
        node: yaml.Node | None = super().compose_node(parent, index)
        self.level -= 1
        return node

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[Any] = set()
        for key_node, _ in node.value:
            if isinstance(key_node, yaml.ScalarNode) and key_node.tag != "tag:yaml.org,2002:merge":
                if key_node.value in seen:
                    raise yaml.constructor.ConstructorError(
                        None,
                        None,
                        f"the key {key_node.value!r} is given twice",
                        key_node.start_mark,
                    )
                seen.add(key_node.value)
        return super().construct_mapping(node, deep)


def read_yaml(path: str) -> dict[str, Any]:
    """A YAML file whose top is a mapping. Raises OptionError with line and column."""
    try:
        text = Path(path).read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise OptionError(f"no such file: {path}") from None
    except UnicodeDecodeError as error:
        raise OptionError(f"{path}: not UTF-8 at byte {error.start}") from None
    except OSError as error:
        raise OptionError(f"cannot read {path}: {error.strerror}") from None
    try:
        data = _data(_Loader(text))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = f", line {mark.line + 1}, column {mark.column + 1}" if mark is not None else ""
        raise OptionError(f"{path}{place}: {error.problem or error.context}") from None
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise OptionError(f"{path}: not YAML: {error}") from None
    if data is None:
        raise OptionError(f"{path}: the file is empty", hint="a request has at least a benchmark")
    if not isinstance(data, dict):
        raise OptionError(f"{path}: a request must be a mapping, found {_kind(data)}")
    return data


def _data(loader: _Loader) -> Any:
    try:
        node = loader.get_single_node()
        if node is None:
            return None
        _size(node, {})
        return loader.construct_document(node)
    finally:
        loader.dispose()


def _size(node: yaml.Node, known: dict[int, int | None]) -> int:
    """How many values a node comes to when every alias in it is written out. Refuses a node that
    contains itself, and one that grows beyond all measure."""
    seen = known.get(id(node), 0)
    if seen is None:
        raise yaml.constructor.ConstructorError(
            None, None, "an anchor is used inside itself", node.start_mark
        )
    if seen == 0:
        known[id(node)] = None
        seen = 1
        if isinstance(node, yaml.MappingNode):
            seen += sum(_size(key, known) + _size(value, known) for key, value in node.value)
        elif isinstance(node, yaml.SequenceNode):
            seen += sum(_size(item, known) for item in node.value)
        known[id(node)] = seen
    if seen > MOST_VALUES:
        raise yaml.constructor.ConstructorError(
            None, None, f"more than {MOST_VALUES} values", node.start_mark
        )
    return seen


def _kind(value: object) -> str:
    if isinstance(value, list):
        return "a list"
    return "text" if isinstance(value, str) else type(value).__name__
