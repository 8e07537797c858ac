"""The tables, and that the code follows them and nothing else."""

from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.unit.agent.steps import Run, in_state

from proctor.agent.core import events as ev
from proctor.agent.core.evolve import evolve
from proctor.agent.statesdoc import document
from proctor.kernel.agent_states import ACTION, ACTION_STATES, RUN, RUN_STATES
from proctor.kernel.states import IllegalTransition

ROOT = Path(__file__).resolve().parents[3]
ACTION_EVENTS = sorted({event for moves in ACTION.table.values() for event in moves})
RUN_EVENTS = sorted({event for moves in RUN.table.values() for event in moves})

# Which event of the log carries which event of the table.
CLOSED = {"denied", "expired", "invalid", "cancelled", "given_up"}
ENDED = {"result", "rejected", "refused", "stopped_without_effect", "lost"}
SETTLED = {"happened", "did_not_happen", "repeatable", "cannot_be_settled"}
STATED = {"stated_happened", "stated_not"}
JUDGED = {"accepted", "correct", "not_accepted"}


def test_tables_name_every_state_and_every_state_can_be_reached():
    for machine, names in ((ACTION, ACTION_STATES), (RUN, RUN_STATES)):
        assert machine.states == set(names)
        reached, new = {machine.initial}, {machine.initial}
        while new:
            new = {to for s in new for to in machine.table[s].values()} - reached
            reached |= new
        assert reached == set(names)


def as_log_event(view, event):
    action = view.action("a1")
    if event == "condition_missing":
        return ev.WaitOpened(f"w{len(view.waits) + 1}", "input", "a1")
    if event == "arrived":
        return ev.WaitClosed("w1", "arrived")
    if event == "started":
        return ev.AttemptStarted("a1", action.attempts + 1, 1)
    if event in ENDED:
        return ev.AttemptEnded("a1", action.attempts, 1, event)
    if event in SETTLED | STATED:
        return ev.ActionSettled("a1", event, "x")
    if event in JUDGED:
        return ev.ActionJudged("a1", event)
    assert event in CLOSED
    return ev.ActionClosed("a1", event, "why")


def view_in(state):
    view = in_state("running" if state == "verifying" else state).view
    if state == "verifying":
        view = evolve(view, ev.AttemptEnded("a1", 1, 1, "result"), 1)
    assert view.action("a1").state == state
    return view


@pytest.mark.parametrize("state", ACTION_STATES)
@pytest.mark.parametrize("event", ACTION_EVENTS)
def test_every_pair_of_action_state_and_event_is_listed_or_refused(state, event):
    view = view_in(state)
    log_event = as_log_event(view, event)
    listed = ACTION.table[state].get(event)
    if (state, event) == ("stopped", "arrived"):  # its statement: what settles it is said apart
        assert evolve(view, log_event, 1).action("a1").state == "stopped"
        return
    if listed is None:
        with pytest.raises(IllegalTransition):
            evolve(view, log_event, 1)
        assert view.action("a1").state == state
        return
    after = evolve(view, log_event, 1)
    assert after.action("a1").state == listed
    assert (after.action("a1").id in after.open_actions) == (not ACTION.is_final(listed))


@pytest.mark.parametrize("state", RUN_STATES)
@pytest.mark.parametrize("event", RUN_EVENTS)
def test_every_pair_of_run_state_and_event_is_listed_or_refused(state, event):
    view = replace(Run().view, state=state)
    if event == "candidate":
        log_event = ev.CandidateGiven("x", 0)
    elif event == "close":
        log_event = ev.RunClosing("failed")
    elif event == "correct":
        log_event = ev.CandidateJudged(False, ({"accepted": False, "reason": "r"},))
    elif event.startswith("end_"):
        log_event = ev.RunEnded(event.removeprefix("end_"))
    else:
        log_event = ev.RunMoved(event)
    if event in RUN.table[state]:
        assert evolve(view, log_event, 1).state == RUN.table[state][event]
    else:
        with pytest.raises(IllegalTransition):
            evolve(view, log_event, 1)


def test_the_diagrams_of_the_documentation_are_the_tables():
    assert (ROOT / "docs" / "states.md").read_text("utf-8") == document()
