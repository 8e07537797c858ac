"""What may have had an effect never ends as if it had none: idempotent actions between attempts."""

from decimal import Decimal

import pytest
from tests.unit.agent.steps import Run, call

from proctor.agent.context import result_text
from proctor.agent.core import commands as cmd
from proctor.agent.core import events as ev
from proctor.agent.core.budgets import Cost, Limits, flaw

UNKNOWN = "its outcome is not known"


def doubtful(attempts=3, **settings) -> Run:
    """An idempotent action that is ready again after an attempt without an answer."""
    run = Run(**settings)
    run.turn(call(effect="idempotent", max_attempts=attempts))
    run.start()
    run.end("lost")
    assert (run.state(), run.view.action("a1").past) == ("ready", "unknown")
    return run


def told(run):
    return result_text(run.view, run.view.action("a1"))


def is_asked(run):
    """The action is stopped, a person is asked, and the model is told that nobody knows."""
    assert run.state() == "stopped"
    (wait,) = run.view.waiting("statement")
    assert wait.action == "a1"
    assert UNKNOWN in told(run)
    return wait


@pytest.mark.parametrize("event", ["denied", "expired", "invalid", "cancelled"])
def test_an_action_closed_between_attempts_is_given_up(event):
    run = doubtful()
    names = run.do(cmd.CloseAction("a1", event, "not permitted any more"))
    assert names == ["ActionClosed", "ActionSettled", "WaitOpened"]
    wait = is_asked(run)
    assert run.view.action("a1").handover["reason"] == "not permitted any more"
    run.do(cmd.CloseWait(wait.id, "arrived", "ann", {"happened": True, "text": "it is there"}))
    assert (run.state(), told(run)) == ("done", "it is there")


@pytest.mark.parametrize("outcome", ["refused", "rejected", "stopped_without_effect"])
def test_that_a_later_attempt_had_no_effect_says_nothing_about_an_earlier_one(outcome):
    run = doubtful(attempts=3)
    run.start()
    run.end(outcome)
    assert run.state() == "ready"  # once more, with the same key
    run.start()
    run.end(outcome)
    is_asked(run)


def test_a_refused_first_attempt_is_a_failure_without_effect():
    run = Run()
    run.turn(call(effect="idempotent"))
    run.start()
    run.end("refused", text="no route")
    assert (run.state(), told(run)) == ("failed", "Failed: no route")


def test_a_result_of_the_key_speaks_for_every_attempt():
    run = doubtful()
    run.start()
    run.end("result", text="said")
    assert run.state() == "done"
    assert not run.view.waiting("statement")


@pytest.mark.parametrize("how", ["denied", "expired"])
def test_an_approval_that_does_not_come_leaves_the_earlier_attempt_unknown(how):
    run = doubtful()
    run.do(cmd.OpenWait("approval", "a1", "s", due_ms=9_000))
    source = "person" if how == "denied" else "clock"
    run.do(cmd.CloseWait("w1", how, "ann", reason="no", source=source))
    is_asked(run)
    assert run.view.wait("w1").state == how


@pytest.mark.parametrize("waiting", [False, True])
@pytest.mark.parametrize("compensate", [False, True])
def test_a_run_cancelled_between_attempts_lists_what_nobody_knows(waiting, compensate):
    run = doubtful()
    if waiting:
        run.do(cmd.OpenWait("approval", "a1", "s"))
    run.do(cmd.RequestCancel("ann", compensate=compensate))
    is_asked(run)
    assert run.view.action("a1").effects == "unknown"
    run.do(cmd.End())
    assert [u["action"] for u in run.view.unsettled] == ["a1"]


def test_a_run_that_fails_between_attempts_gives_every_doubtful_action_a_question():
    run = Run()
    run.turn(*(call(f"c{n}", effect="idempotent", resources=()) for n in range(3)))
    for name in ("a1", "a2"):
        run.start(name)
        run.end("lost", name)
    run.do(cmd.Close("failed", "out of money"))
    assert [run.state(a) for a in ("a1", "a2", "a3")] == ["stopped", "stopped", "cancelled"]
    assert [w.action for w in run.view.waiting("statement")] == ["a1", "a2"]


def test_giving_up_stops_the_run_where_unknown_outcomes_do():
    run = Run(on_unknown="stop_run")
    run.turn(call("c1", effect="idempotent", resources=()), call("c2", resources=()))
    run.start()
    run.end("lost")
    run.do(cmd.CloseAction("a1", "denied", "no"))
    assert (run.state(), run.state("a2")) == ("stopped", "cancelled")
    assert (run.view.state, run.view.aim) == ("finishing", "stopped")


def corrected(effect="idempotent", attempts=3) -> Run:
    """An action that took effect and whose result was not acceptable."""
    run = Run()
    run.turn(call(effect=effect, max_attempts=attempts))
    run.start()
    run.end("result", text="half", objection="half of it is missing")
    return run


def test_what_took_effect_and_was_to_be_corrected_is_not_called_without_effect():
    run = corrected()
    run.do(cmd.RequestCancel("ann", compensate=True))
    assert (run.state(), run.view.action("a1").effects) == ("cancelled", "done")
    assert told(run) == "Cancelled after it took effect; half"
    run.do(cmd.Compensate("a1", call("", tool="undo")))


def test_a_result_that_is_not_accepted_in_a_cancelled_run_was_an_effect():
    run = Run()
    run.turn(call())
    run.start()
    run.do(cmd.RequestCancel("ann"))
    run.end("result", objection="wrong")
    assert (run.state(), run.view.action("a1").effects) == ("failed", "done")


def test_a_pure_action_leaves_no_doubt():
    run = Run()
    run.turn(call(effect="pure"))
    run.start()
    run.end("lost")
    run.do(cmd.CloseAction("a1", "denied", "no"))
    assert (run.state(), told(run)) == ("failed", "Failed: no")


# --- what a person states


def stated(happened, **settings) -> Run:
    run = Run(**settings)
    run.turn(call())
    run.start()
    run.end("lost")
    return run


def test_stated_not_starts_nothing_that_the_model_was_told_is_unknown():
    """The model may have done it again: a second start would be a second effect."""
    run = stated(False, on_unknown="tell_model")
    run.turn(call("c2"))
    run.start("a2")
    run.end("result", "a2")
    run.do(cmd.CloseWait("w1", "arrived", "ann", {"happened": False}))
    assert run.state() == "failed"
    assert "it did not happen (stated by ann)" in told(run)


@pytest.mark.parametrize("policy", ["wait", "tell_model"])
def test_stated_not_leaves_nothing_ready_in_a_run_that_has_ended(policy):
    run = stated(False, on_unknown=policy)
    run.do(cmd.Close("failed", "enough"))
    run.do(cmd.End())
    run.do(cmd.CloseWait("w1", "arrived", "ann", {"happened": False}))
    assert run.view.state == "failed"
    assert run.state() in ("cancelled", "failed")


def test_stated_not_is_done_again_where_the_run_waited_for_it():
    run = stated(False, on_unknown="stop_run")
    run.do(cmd.End())
    run.do(cmd.CloseWait("w1", "arrived", "ann", {"happened": False}))
    run.do(cmd.Move("resume"))
    assert (run.view.state, run.state()) == ("ready", "ready")


# --- subtasks


def spawned() -> Run:
    run = Run(limits=Limits(steps=9))
    run.turn(call(effect="idempotent"))
    run.do(cmd.OpenWait("child", "a1", spec={"child": "sub-1", "goal": "g"}))
    return run


@pytest.mark.parametrize("state", ["cancelled", "failed"])
def test_an_action_whose_subtask_was_started_is_never_called_not_executed(state):
    run = spawned()
    assert told(run) == "Its subtask was started and has not ended yet."
    how = "cancelled" if state == "cancelled" else "arrived"
    ended = state == "failed"
    value = {"state": state, "result": "sent one mail", "spent": {"steps": 1}}
    run.do(cmd.CloseWait("w1", how, "m", value, f"the subtask was {state}", source="child"))
    if ended:
        assert told(run) == "Its subtask has ended (failed)."
        run.do(cmd.RequestCancel("ann"))
    assert run.state() == "cancelled"
    assert told(run).startswith(f"Its subtask has ended ({state}); what it did stays done; ")
    assert told(run).endswith("; sent one mail")


def test_a_subtask_that_does_not_end_in_the_time_for_cleaning_up_is_unsettled():
    run = spawned()
    run.do(cmd.RequestCancel("ann"))
    assert run.refusal(cmd.End()) == "blocked"
    run.do(cmd.CloseWait("w1", "cancelled", "runtime", reason="time is over", source="runtime"))
    assert run.view.action("a1").handover["child"] == "sub-1"
    is_asked(run)
    run.do(cmd.End())
    assert run.view.state == "stopped"
    assert [u["action"] for u in run.view.unsettled] == ["a1"]
    assert run.view.budgets.spent.steps == 9  # what it had was all that was left


def test_a_late_subtask_is_told_to_end_and_waited_for():
    run = Run()
    run.turn(call(effect="idempotent"))
    run.do(cmd.OpenWait("child", "a1", due_ms=2_000, spec={"child": "sub-1"}))
    assert run.refusal(cmd.Overdue("w1")) == "late"
    run.now = 2_000
    assert run.refusal(cmd.CloseWait("w1", "expired", source="clock")) == "state"
    run.do(cmd.Overdue("w1"))
    assert (run.state(), run.view.wait("w1").due_ms) == ("waiting", None)
    assert run.refusal(cmd.Overdue("w1")) == "late"
    value = {"state": "done", "result": "r", "spent": {}}
    run.do(cmd.CloseWait("w1", "arrived", "m", value, source="child"))
    assert run.state() == "ready"


def test_old_logs_keep_their_states():
    """A log of a program that did not know of doubt is read as it was meant then."""
    from proctor.agent.core.events import decode
    from proctor.agent.core.evolve import evolve

    run = doubtful()
    old = decode("action.closed", 1, {"action": "a1", "event": "denied", "reason": "no"})
    assert evolve(run.view, old, 2).action("a1").state == "failed"
    assert isinstance(old, ev.ActionClosed)
    assert Cost() == Cost.from_json({})


def test_a_denied_retry_stops_the_run_where_unknown_outcomes_do():
    run = Run(on_unknown="stop_run")
    run.turn(*(call(f"c{n}", effect="idempotent", resources=()) for n in range(2)))
    run.start()
    run.end("lost")
    run.do(cmd.OpenWait("approval", "a1", "s"))
    run.do(cmd.OpenWait("approval", "a2", "s"))
    run.do(cmd.CloseWait("w1", "denied", "ann", reason="no"))
    assert [run.state(a) for a in ("a1", "a2")] == ["stopped", "cancelled"]
    assert [w.id for w in run.view.waiting()] == ["w3"]
    assert (run.view.state, run.view.aim) == ("finishing", "stopped")


@pytest.mark.parametrize(("state", "spent"), [("done", "0.1"), ("failed", "0.1"), ("stopped", "1")])
def test_a_subtask_that_may_be_resumed_keeps_all_that_was_reserved_for_it(state, spent):
    """The limit is a number as JSON has it."""
    run = Run(limits=Limits(usd=Decimal("1.5")))
    run.turn(call(effect="idempotent"))
    asked = {"child": "sub-1", "goal": "g", "limits": {"usd": 0.1 + 0.9}}
    run.do(cmd.OpenWait("child", "a1", spec=asked))
    assert run.view.budgets.reserved == Cost(usd=Decimal("1.0"))
    value = {"state": state, "result": None, "spent": {"usd": "0.1", "tokens": 7}}
    run.do(cmd.CloseWait("w1", "arrived", "m", value, source="child"))
    assert run.view.budgets.reserved.usd == 0
    assert run.view.budgets.spent == Cost(Decimal(spent), tokens=7, steps=1)


def test_a_limit_that_is_no_exact_binary_number_is_the_number_that_was_written():
    assert Limits.from_json({"usd": 0.1}).usd == Decimal("0.1")
    assert flaw(Limits.from_json({"usd": 0.1})) is None
