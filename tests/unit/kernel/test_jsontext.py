"""Strict JSON in both directions."""

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proctor.kernel import jsontext
from proctor.kernel.jsontext import JsonError

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text()
    | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)  # fmt: skip


@given(VALUES)
def test_what_is_written_is_read_back(value):
    assert jsontext.loads(jsontext.dumps(value)) == value
    assert jsontext.loads(jsontext.pretty(value)) == value
    assert jsontext.loads(jsontext.dumps(value).encode("utf-8")) == value


@given(VALUES)
def test_a_compact_text_is_one_line(value):
    assert "\n" not in jsontext.dumps(value)
    assert "\n" not in jsontext.canonical(value)


@given(st.dictionaries(st.text(), st.integers()))
def test_the_canonical_text_does_not_depend_on_the_order(value):
    turned = dict(reversed(list(value.items())))
    assert jsontext.canonical(turned) == jsontext.canonical(value)


@given(VALUES)
def test_texts_are_those_of_the_standard_encoder(value):
    """The encoder's C part is made once; without it the standard way is taken."""
    compact = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    assert jsontext._made_once(compact)(value) == compact.encode(value)
    sorted_ = json.JSONEncoder(
        ensure_ascii=False, allow_nan=False, separators=(",", ":"), sort_keys=True
    )
    assert jsontext._made_once(sorted_)(value) == sorted_.encode(value)


def test_a_lone_surrogate_is_kept():
    text = jsontext.dumps({"a\ud800": "\udfffb"})
    assert text.encode("utf-8")
    assert jsontext.loads(text) == {"a\ud800": "\udfffb"}


def test_integers_keep_all_their_digits():
    big = 10**4000 + 1
    assert jsontext.loads(jsontext.dumps(big)) == big
    assert jsontext.loads("9007199254740993") == 9007199254740993


@pytest.mark.parametrize(
    "value", [math.nan, math.inf, -math.inf, [math.nan], {"a": {"b": math.inf}}]
)
def test_numbers_that_are_none_are_not_written(value):
    for write in (jsontext.dumps, jsontext.canonical, jsontext.pretty):
        with pytest.raises(JsonError):
            write(value)


@pytest.mark.parametrize(
    "value", [object(), {1, 2}, b"x", {(1, 2): 3}, 10**5000],
    ids=["object", "set", "bytes", "tuple key", "huge"],
)  # fmt: skip
def test_what_json_cannot_hold_is_refused(value):
    with pytest.raises(JsonError):
        jsontext.dumps(value)


def test_endless_values_are_refused():
    loop: list = []
    loop.append(loop)
    with pytest.raises(JsonError):
        jsontext.dumps(loop)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("NaN", "NaN is not JSON"),
        ("[-Infinity]", "-Infinity is not JSON"),
        ("1e999", "number out of range: 1e999"),
        ("1" * 5000, "digits"),
        ("[" * 100_000, "nested too deeply"),
        ("{", "column 2"),
        ('{"a": 1} x', "Extra data at column 10"),
        ("", "column 1"),
        (b"\xff", "not UTF-8 at byte 0"),
        ('{"a": 1, }', "column"),
    ],
)
def test_what_is_no_json_is_refused_in_one_line(text, reason):
    with pytest.raises(JsonError) as caught:
        jsontext.loads(text)
    assert reason in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_repeated_key_is_refused_on_request():
    assert jsontext.loads('{"a": 1, "a": 2}') == {"a": 2}
    with pytest.raises(JsonError, match="key 'a' is given twice"):
        jsontext.loads('{"a": 1, "a": 2}', unique_keys=True)


class Hostile:
    def __str__(self):
        raise RuntimeError("no")


def test_sanitized_leaves_out_what_holds_itself_many_times_over():
    value = "x"
    for _ in range(60):  # 2**60 leaves
        value = {"a": value, "b": value}
    clean = jsontext.dumps(jsontext.sanitized(value))
    assert "left out: too many values" in clean
    assert len(clean) < 10_000_000
    assert jsontext.sanitized([1, [2, 3], 4], values=4) == [1, "left out: too many values", 4]


def test_sanitized_holds_whatever_a_plug_in_leaves():
    loop: dict = {}
    loop["loop"] = loop
    value = {
        1: math.nan, "bytes": b"x", "set": {3}, "tuple": (1, -math.inf), "odd": Hostile(),
        Hostile: 1, "huge": 10**5000, "loop": loop, "none": None, "true": True,
    }  # fmt: skip
    clean = jsontext.sanitized(value)
    read = json.loads(jsontext.dumps(clean))
    assert (read["1"], read["bytes"], read["set"]) == ("nan", "b'x'", [3])
    assert (read["tuple"], read["none"], read["true"]) == ([1, "-inf"], None, True)
    assert read["odd"] == "a Hostile that cannot be shown (RuntimeError)"
    assert int(read["huge"], 16) == 10**5000
    assert "nested too deeply" in jsontext.dumps(clean)


@given(VALUES)
def test_sanitized_leaves_json_alone(value):
    assert jsontext.sanitized(value) == value
