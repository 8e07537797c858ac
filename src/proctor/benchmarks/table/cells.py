"""CSV cells that hold values: how a list or object is written into a cell and read back.

`from_cell(to_cell(value))` is `value` for text, lists and objects. A list or object is its JSON
text. Text stays as it is, except text that would be read as one of those: it becomes a JSON
string. Numbers, booleans and null are written as JSON and read back as text, because a cell does
not say whether `007` is a number.
"""

from typing import Any

from proctor.kernel import jsontext
from proctor.kernel.jsontext import JsonError, JsonValue


def to_cell(value: JsonValue) -> str:
    """The cell for `value`. Raises JsonError for what JSON cannot hold."""
    if isinstance(value, str):
        return value if from_cell(value) == value else jsontext.dumps(value)
    return jsontext.dumps(value)


def from_cell(cell: str) -> Any:
    """The value of a cell: a list, an object or text."""
    first = cell[:1]
    if first in ("[", "{"):
        parsed = _parsed(cell)
        return cell if parsed is None else parsed
    if first == '"' and len(cell) > 2:
        inner = _parsed(cell)
        # Only text that `to_cell` had to quote is unquoted; any other cell means itself.
        if isinstance(inner, str) and from_cell(inner) != inner:
            return inner
    return cell


def _parsed(cell: str) -> Any:
    try:
        return jsontext.loads(cell)
    except JsonError:
        return None
