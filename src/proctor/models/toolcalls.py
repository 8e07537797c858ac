"""Tool calls are used only when complete and strictly parsed; nothing is ever repaired."""

from collections.abc import Mapping
from typing import Any

from proctor.kernel import jsontext
from proctor.models.contract import ToolCall
from proctor.models.errors import Category, failed


def tool_call(call_id: Any, name: Any, arguments: Any) -> ToolCall:
    """A checked call from what the endpoint sent. Raises RequestFailed (malformed).

    `arguments` is the text of one JSON object; the empty text means `{}`. An object that gives
    a key twice is ambiguous and refused.
    """
    if not isinstance(name, str) or not name:
        raise failed(Category.MALFORMED, "a tool call has no function name")
    if not isinstance(call_id, str) or not call_id:
        raise failed(Category.MALFORMED, f"the call of tool {name!r} has no id")
    return ToolCall(call_id, name, _arguments(name, arguments))


def _arguments(name: str, text: Any) -> Mapping[str, Any]:
    if not isinstance(text, str):
        raise failed(
            Category.MALFORMED,
            f"the arguments of tool {name!r} must be JSON text, found {type(text).__name__}",
        )
    if not text.strip():
        return {}
    try:
        value = jsontext.loads(text, unique_keys=True)
    except jsontext.JsonError as error:
        raise failed(
            Category.MALFORMED, f"the arguments of tool {name!r} are not JSON: {error}"
        ) from None
    if not isinstance(value, dict):
        raise failed(
            Category.MALFORMED,
            f"the arguments of tool {name!r} must be an object, found {type(value).__name__}",
        )
    return value
