"""Reading requests from YAML, with every complaint at its line and column."""

from pathlib import Path
from typing import Any

import yaml

from proctor.kernel.errors import OptionError


class _Loader(yaml.SafeLoader):
    """Safe YAML that refuses a key given twice: last-wins would hide one of them."""

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
        data = yaml.load(text, Loader=_Loader)  # noqa: S506 - a SafeLoader
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = f", line {mark.line + 1}, column {mark.column + 1}" if mark is not None else ""
        raise OptionError(f"{path}{place}: {error.problem or error.context}") from None
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise OptionError(f"{path}: not YAML: {error}") from None
    if not isinstance(data, dict):
        raise OptionError(f"{path}: a request must be a mapping, found {type(data).__name__}")
    return data
