"""A conversation is counted first and made when somebody looks."""

import pytest
from tests.unit.agent.steps import Run, call

from proctor.agent import context
from proctor.agent.context import Conversation, messages
from proctor.agent.core import commands as cmd


def grown(turns):
    """A run after each of these many turns of two calls, one refused; and messages in between."""
    run = Run()
    yield run.view
    for turn in range(turns):
        done, refused = call(f"c{turn}", effect="pure"), call(f"r{turn}", problem="no such tool")
        run.turn(done, refused, text=f"turn {turn}")
        yield run.view
        run.start(f"a{turn + 1}")
        yield run.view
        run.end(action=f"a{turn + 1}", text=f"result {turn}")
        run.do(cmd.Receive(f"m{turn}", f"message {turn}"))
        yield run.view


def test_its_length_is_known_before_it_is_made_and_it_says_what_a_fresh_look_says():
    kept = Conversation()
    for view in grown(40):
        told = kept.of(view)
        assert len(told) == len(messages(view))
        assert told.replies == len([m for m in messages(view) if m["role"] == "assistant"])
        assert list(told) == messages(view)
        assert told[-1] == messages(view)[-1]
        assert told[1:3] == messages(view)[1:3]


def test_an_older_one_stays_as_it_was_whenever_it_is_looked_at():
    kept = Conversation()
    pairs = [(view, kept.of(view)) for view in grown(40)]
    for view, told in reversed(pairs):
        assert told.messages == messages(view)
        told.messages.clear()  # what somebody does with their list is their own affair
    view = pairs[-1][0]
    assert kept.of(view).messages == messages(view)


def test_nothing_is_made_until_somebody_looks(monkeypatch):
    made = []
    item = context._item
    monkeypatch.setattr(context, "_item", lambda view, one: made.append(one) or item(view, one))
    kept = Conversation()
    for view in grown(20):
        told = kept.of(view)
    assert made == []
    assert len(told.messages) == 1 + 20 * 4
    assert len(made) == 40


def test_it_is_equal_to_and_added_to_as_the_list_it_stands_for():
    *_, view = grown(3)
    told, listed = Conversation().of(view), messages(view)
    assert told == listed
    assert listed == told
    assert told != listed[:-1]
    more = [{"role": "user", "content": "x"}]
    assert told + more == listed + more


@pytest.mark.parametrize("how", ["closed", "open"])
def test_turns_without_a_reply_are_no_messages(how):
    run = Run()
    run.do(cmd.RequestTurn())
    if how == "closed":
        run.do(cmd.CloseTurn(1, "no reply"))
    told = Conversation().of(run.view)
    assert len(told) == 1
    assert list(told) == [{"role": "user", "content": "g"}]
