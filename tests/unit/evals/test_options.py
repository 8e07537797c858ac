"""Typed options: text verbatim, everything else as JSON, unknown keys with the nearest names."""

from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, ConfigDict, Field

from proctor.evals.options import assign, build_options, nearest, parse_option
from proctor.kernel.errors import OptionError


class Colour(Enum):
    RED = "red"


class Inner(BaseModel):
    model_config = ConfigDict(extra="forbid")
    depth: int = 0
    name: str = ""


class Shape(BaseModel):
    model_config = ConfigDict(extra="forbid")
    text: str = ""
    maybe: str | None = None
    path: Path = Path()
    choice: Literal["a", "b"] = "a"
    colour: Colour = Colour.RED
    limited: Annotated[str, Field(max_length=3)] = ""
    number: int = 0
    share: float = 0.0
    exact: Decimal = Decimal(0)
    switch: bool = False
    names: list[str] = []
    either: int | str = 0
    anything: Any = None
    table: dict[str, int] = {}
    inner: Inner = Inner()
    renamed: int = Field(default=0, alias="other-name")


@pytest.mark.parametrize(
    "key", ["text", "maybe", "path", "choice", "colour", "limited", "inner.name"]
)
@pytest.mark.parametrize(
    "value", ["no", "1.10", "echo a: b", "*.py", "{workspace}/run", "", "null"]
)
def test_text_is_taken_verbatim(key, value):
    assert parse_option(Shape, key, value, "it") == value


@pytest.mark.parametrize(
    ("key", "text", "value"),
    [
        ("number", "3", 3),
        ("share", "1.10", 1.1),
        ("switch", "true", True),
        ("names", '["a", "b"]', ["a", "b"]),
        ("either", "3", 3),
        ("either", "three", "three"),
        ("table.x", "5", 5),
        ("inner.depth", "7", 7),
        ("other-name", "2", 2),
        ("anything", '{"a": 1}', {"a": 1}),
        ("inner", '{"depth": 1}', {"depth": 1}),
    ],
)
def test_other_types_are_json(key, text, value):
    assert parse_option(Shape, key, text, "it") == value


@pytest.mark.parametrize(("key", "text"), [("number", "three"), ("switch", "yes"), ("share", "NaN"),
                                           ("names", "a,b"), ("number", "")])  # fmt: skip
def test_what_is_no_json_is_told(key, text):
    with pytest.raises(OptionError, match=f"it.{key}: .* is not JSON") as caught:
        parse_option(Shape, key, text, "it")
    assert caught.value.hint.startswith("expected ")


@pytest.mark.parametrize(
    ("key", "message", "hint"),
    [
        ("txet", "unknown option it.txet", "did you mean text?"),
        ("inner.dept", "unknown option it.inner.dept", "did you mean depth?"),
        ("number.x", "unknown option it.number.x: number has no parts", None),
    ],
)
def test_an_unknown_key_is_told_with_the_nearest(key, message, hint):
    with pytest.raises(OptionError) as caught:
        parse_option(Shape, key, "1", "it")
    assert (str(caught.value), caught.value.hint) == (message, hint)


def test_a_component_without_options_takes_none():
    with pytest.raises(OptionError, match=r"it\.a: this it takes no options"):
        parse_option(None, "a", "1", "it")
    assert build_options(None, {}, "it") is None
    with pytest.raises(OptionError):
        build_options(None, {"a": 1}, "it")


def test_dotted_keys_are_nested_and_the_last_one_wins():
    target: dict[str, Any] = {}
    assign(target, "a.b.c", 1)
    assign(target, "a.b.d", 2)
    assign(target, "a.b.c", 3)
    assert target == {"a": {"b": {"c": 3, "d": 2}}}
    with pytest.raises(OptionError, match="b is not a group"):
        assign({"a": {"b": "text"}}, "a.b.c", 1)


def test_every_wrong_field_is_told_at_once():
    with pytest.raises(OptionError) as caught:
        build_options(Shape, {"number": "x", "share": [], "choice": "c"}, "it")
    lines = str(caught.value).splitlines()
    assert [line.split(":")[0] for line in lines] == ["it.choice", "it.number", "it.share"]


@pytest.mark.parametrize(
    ("name", "known", "hint"),
    [
        ("hummaneval", ["humaneval", "gsm8k"], "did you mean humaneval?"),
        ("zzz", ["b", "a"], "known: a, b"),
        ("zzz", [], "none are known"),
    ],
)
def test_the_nearest_names(name, known, hint):
    assert nearest(name, known) == hint
