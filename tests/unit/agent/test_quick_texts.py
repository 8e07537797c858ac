"""Texts of events and keys that are made a quick way are those of the strict one."""

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proctor.agent.core import events as ev
from proctor.agent.core.canonical import arguments_digest, arguments_text
from proctor.agent.core.deciding import op_key
from proctor.kernel import jsontext
from proctor.kernel.digest import of_json

TEXTS = st.text(st.characters(exclude_categories=())) | st.sampled_from(["null", "\0", "\ud800"])
NUMBERS = (
    st.integers()
    | st.integers(-(2**400), 2**400)
    | st.floats(allow_nan=False, allow_infinity=False)
)
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=12,
)
OBJECTS = st.dictionaries(TEXTS, VALUES, max_size=5)


def back(event):
    text = ev.encoded(event)
    return None if text is None else jsontext.loads(text)


@given(TEXTS, TEXTS, OBJECTS, OBJECTS)
def test_a_quick_text_says_what_the_strict_one_says(text, tool, arguments, evidence):
    calls = ({"call_id": "c", "tool": tool, "arguments": arguments},)
    events = (
        ev.TurnReplied(3, text, calls, {"steps": 1}, {"up_to": 3, "open": {"a1": "ready"}}),
        ev.AttemptEnded("a1", 1, 2, "result", text, evidence, accepted=True),
        ev.ActionAccepted("a1", 3, "c", "tool", "1", "pure", "key", (("read", text),)),
        ev.AttemptStarted("a1", 1, 2, {"tool_ms": 5}),
        ev.TurnRequested(3, {"steps": 1}, {"up_to": 3}),
    )
    for event in events:
        found = back(event)
        strict = jsontext.loads(jsontext.dumps(ev.encode(event)))
        assert found is None or found == strict
    assert back(events[3]) == {"action": "a1", "attempt": 1, "fence": 2, "reserve": {"tool_ms": 5}}


@pytest.mark.parametrize("value", [float("nan"), float("inf"), None, "null", {"a": [None]}])
def test_a_text_that_may_hide_what_is_no_number_is_left_to_the_strict_encoder(value):
    assert ev.encoded(ev.AttemptEnded("a1", 1, 2, "result", "", {"found": value})) is None


def test_what_was_not_checked_is_left_to_the_strict_encoder():
    created = ev.RunCreated("r", {"goal": Decimal(1)}, "sha256:0")
    assert ev.encoded(created) is None
    assert ev.encode(created)["task"] == {"goal": Decimal(1)}


@given(TEXTS, TEXTS, TEXTS, OBJECTS)
def test_the_key_of_an_action_is_the_digest_of_what_it_is_made_of(run_id, action, tool, arguments):
    assert op_key(run_id, action, tool, arguments) == of_json([run_id, action, tool, arguments])
    assert arguments_digest(arguments) == of_json(arguments)


def test_texts_are_known_by_the_arguments_themselves_and_not_by_where_they_lay():
    texts = {arguments_text({"n": number}) for number in range(1000)}
    assert texts == {f'{{"n":{number}}}' for number in range(1000)}


def test_an_action_of_an_older_log_is_read():
    body = {
        "action": "a1", "turn": 1, "call_id": "c", "tool": "t", "tool_version": "1",
        "effect": "pure", "arguments": None, "op_key": "k", "resources": [["read", "p"]],
    }  # fmt: skip
    found = ev.decode("action.accepted", 2, body)
    assert (found.arguments, found.op_key, found.resources) == (None, "k", (["read", "p"],))
    assert ev.VERSION == 3
