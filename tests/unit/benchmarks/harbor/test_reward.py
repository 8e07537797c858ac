"""What counts as a verdict, and the distinct reasons why something does not."""

import pytest

from proctor.benchmarks.harbor.reward import NoReward, Reward, parse_json, parse_text


@pytest.mark.parametrize(
    ("data", "value"),
    [
        (b"1", 1.0),
        (b" 0.5\n", 0.5),
        (b"-3", -3.0),
        (b"+1.", 1.0),
        (b".5", 0.5),
        (b"1e-2", 0.01),
        (b"\xef\xbb\xbf1\r\n", 1.0),
        (b"0", 0.0),
    ],
)
def test_a_number(data, value):
    assert parse_text(data) == Reward({"reward": value}, "reward.txt")


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"", "reward_empty"),
        (b" \n ", "reward_empty"),
        (b"\xff1", "reward_unparsable"),
        (b"yes", "reward_not_numeric"),
        (b"1 0", "reward_not_numeric"),
        (b"1_0", "reward_not_numeric"),
        ("١".encode(), "reward_not_numeric"),
        (b"0x1", "reward_not_numeric"),
        (b"true", "reward_not_numeric"),
        (b"nan", "reward_not_finite"),
        (b"-Infinity", "reward_not_finite"),
        (b"1e999", "reward_not_finite"),
        (b"9" * 400, "reward_not_finite"),
    ],
)
def test_no_number(data, code):
    found = parse_text(data)
    assert isinstance(found, NoReward)
    assert found.code == code
    assert len(found.reason) < 200


@pytest.mark.parametrize(
    ("data", "rewards", "passed", "scalar"),
    [
        (b'{"reward": 1}', {"reward": 1.0}, True, 1.0),
        (b'{"a": 1, "b": 0.5}', {"a": 1.0, "b": 0.5}, False, 0.75),
        (b'{"a": 1, "b": 2}', {"a": 1.0, "b": 2.0}, True, 1.5),
        (b'{"reward": 0.25, "style": 1}', {"reward": 0.25, "style": 1.0}, False, 0.25),
        (b'\xef\xbb\xbf{"a": -1e300, "b": -1e300}', {"a": -1e300, "b": -1e300}, False, -1e300),
    ],
)
def test_an_object(data, rewards, passed, scalar):
    found = parse_json(data)
    assert isinstance(found, Reward)
    assert (found.rewards, found.passed, found.scalar) == (rewards, passed, scalar)


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"", "reward_empty"),
        (b"{}", "reward_empty"),
        (b"{", "reward_unparsable"),
        (b"[1]", "reward_unparsable"),
        (b"1", "reward_unparsable"),
        (b'{"a": 1, "a": 0}', "reward_unparsable"),
        (b"\xff", "reward_unparsable"),
        (b"[" * 50_000, "reward_unparsable"),
        (b'{"a": "1"}', "reward_not_numeric"),
        (b'{"a": true}', "reward_not_numeric"),
        (b'{"a": null}', "reward_not_numeric"),
        (b'{"a": {"b": 1}}', "reward_not_numeric"),
        (b'{"a": NaN}', "reward_not_finite"),
        (b'{"a": -Infinity}', "reward_not_finite"),
        (b'{"a": 1e999}', "reward_not_finite"),
        (b'{"a": ' + b"9" * 400 + b"}", "reward_not_finite"),
    ],
)
def test_no_object_of_numbers(data, code):
    found = parse_json(data)
    assert isinstance(found, NoReward)
    assert found.code == code
    assert len(found.reason) < 200
