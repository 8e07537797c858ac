"""Tool calls are parsed strictly; nothing is repaired."""

import pytest

from proctor.models.contract import ToolCall
from proctor.models.errors import Category, RequestFailed
from proctor.models.toolcalls import tool_call


@pytest.mark.parametrize(
    ("text", "arguments"),
    [
        ("", {}),
        ("  \n", {}),
        ("{}", {}),
        ('{"path": "a.txt", "n": 1.5, "deep": {"x": [null, true]}}',
         {"path": "a.txt", "n": 1.5, "deep": {"x": [None, True]}}),
        ('{"s": "\\ud83d\\ude00"}', {"s": "😀"}),
    ],
)  # fmt: skip
def test_complete_arguments(text: str, arguments: dict[str, object]) -> None:
    assert tool_call("c1", "f", text) == ToolCall("c1", "f", arguments)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('{"path": "a.txt", "content": "line1', "not JSON"),
        ('{"path": "a.txt"', "not JSON"),
        ('{"path": "a.txt"} trailing', "not JSON"),
        ("{'path': 'a.txt'}", "not JSON"),
        ('{"a": 1, "a": 1}', "given twice"),
        ('{"a": {"b": 1, "b": 2}}', "given twice"),
        ('{"a": NaN}', "NaN"),
        ('{"a": 1e999}', "out of range"),
        ('["a"]', "must be an object"),
        ("null", "must be an object"),
        ('"{}"', "must be an object"),
        ("[" * 100_000, "nested too deeply"),
        (None, "must be JSON text"),
        ({"a": 1}, "must be JSON text"),
    ],
)
def test_anything_else_is_malformed(text: object, reason: str) -> None:
    with pytest.raises(RequestFailed, match=reason) as caught:
        tool_call("c1", "write_file", text)
    assert caught.value.failure.category is Category.MALFORMED
    assert "write_file" in str(caught.value)


@pytest.mark.parametrize(("call_id", "name"), [("", "f"), (None, "f"), ("c", ""), ("c", None)])
def test_calls_need_id_and_name(call_id: object, name: object) -> None:
    with pytest.raises(RequestFailed):
        tool_call(call_id, name, "{}")
