"""Which events follow from which command, by effect class and circumstance."""

import pytest
from tests.unit.agent.steps import Run, call, in_state

from proctor.agent.core import commands as cmd
from proctor.agent.core import events as ev
from proctor.agent.core.budgets import Cost, Limits
from proctor.agent.core.deciding import op_key
from proctor.agent.core.evolve import replayed
from proctor.agent.core.locks import Access, Mode
from proctor.agent.core.view import View
from proctor.kernel.agent_states import ACTION_STATES, RUN_STATES

READ = (Access(Mode.READ, "ws:1"),)


@pytest.mark.parametrize(
    ("effect", "attempts", "state"),
    [
        ("pure", 1, "ready"),
        ("pure", 2, "failed"),
        ("idempotent", 1, "ready"),
        ("idempotent", 2, "stopped"),
        ("queryable", 1, "unknown"),
        ("non_repeatable", 1, "stopped"),
    ],
)
def test_a_lost_attempt_goes_where_its_effect_class_says(effect, attempts, state):
    run = Run()
    run.turn(call(effect=effect, max_attempts=2))
    for _ in range(attempts):
        run.start()
        run.end("lost")
    assert run.state() == state
    assert run.view.action("a1").attempts == attempts


def test_an_action_keeps_its_key_over_attempts_and_another_action_has_another_key():
    run = Run()
    run.turn(call("c1", effect="pure"), call("c2", effect="pure"))
    key = run.view.action("a1").op_key
    run.start()
    run.end("lost")
    run.start()
    assert run.view.action("a1").op_key == key == op_key("run1", "a1", "tool", {"x": 1})
    assert run.view.action("a2").op_key != key


def test_a_query_settles_an_unknown_outcome_three_ways():
    happened, did_not, cannot = (in_state("unknown") for _ in range(3))
    happened.do(cmd.Settle("a1", "happened", "query", "it did"))
    assert happened.state() == "done"
    assert happened.view.action("a1").text == "it did"
    did_not.do(cmd.Settle("a1", "did_not_happen", "query"))
    assert did_not.state() == "ready"
    cannot.do(cmd.Settle("a1", "cannot_be_settled", "query", handover={"asked": 7}))
    assert cannot.state() == "stopped"
    assert cannot.view.action("a1").handover["asked"] == 7
    assert cannot.view.action("a1").handover["op_key"] == cannot.view.action("a1").op_key


def test_a_person_states_what_happened_and_the_first_statement_counts():
    run = in_state("stopped")
    (wait,) = run.view.waiting("statement")
    assert run.refusal(cmd.CloseWait(wait.id, "arrived", "ann", {"happened": "yes"})) == "state"
    run.do(cmd.CloseWait(wait.id, "arrived", "ann", {"happened": True, "text": "seen it"}))
    assert run.state() == "done"
    assert run.view.action("a1").text == "seen it"
    again = cmd.CloseWait(wait.id, "arrived", "bob", {"happened": False})
    assert run.refusal(again) == "closed"


def test_stated_not_makes_it_ready_though_its_attempts_are_used_up():
    run = Run()
    run.turn(call(max_attempts=1))
    run.start()
    run.end("lost")
    run.do(cmd.CloseWait("w1", "arrived", "ann", {"happened": False}))
    assert run.state() == "ready"
    run.start()
    assert run.state() == "running"


@pytest.mark.parametrize(
    ("policy", "asked_again", "run_state"),
    [
        ("wait", "blocked", "running"),
        ("tell_model", None, "running"),
        ("stop_run", "state", "finishing"),
    ],
)
def test_on_unknown_says_what_the_run_does_meanwhile(policy, asked_again, run_state):
    run = Run(on_unknown=policy)
    run.turn(call())
    run.start()
    run.end("lost")
    assert (run.state(), run.view.state) == ("stopped", run_state)
    if asked_again is None:
        run.do(cmd.RequestTurn())
        run.do(cmd.Reply(2, "", (call(),)))
        run.start("a2")  # the model was told, so the locks are free
    else:
        assert run.refusal(cmd.RequestTurn()) == asked_again


def test_a_stopped_run_is_resumed_only_after_the_statement():
    run = Run(on_unknown="stop_run")
    run.turn(call())
    run.start()
    run.end("lost")
    run.do(cmd.End())
    assert run.view.state == "stopped"
    assert [u["action"] for u in run.view.unsettled] == ["a1"]
    assert run.refusal(cmd.Move("resume")) == "blocked"
    run.do(cmd.CloseWait("w1", "arrived", "ann", {"happened": True}))
    run.do(cmd.Move("resume"))
    assert (run.view.state, run.state()) == ("ready", "done")


@pytest.mark.parametrize("state", sorted(set(ACTION_STATES) - {"verifying", "running"}))
def test_a_late_result_settles_an_unknown_outcome_and_changes_no_other_state(state):
    run = in_state(state)
    attempt = run.view.action("a1").attempts
    names = run.do(cmd.EndAttempt("a1", attempt, 1, "result", "late"))
    if state == "unknown":
        assert names == ["LateResult", "ActionSettled", "ActionJudged"]
        assert run.state() == "done"
    else:
        assert names == ["LateResult"]
        assert run.state() == state


def test_a_result_of_a_superseded_attempt_or_fence_is_evidence_only():
    run = Run()
    run.turn(call(effect="pure"))
    run.start()
    run.end("lost")
    run.start()
    assert run.do(cmd.EndAttempt("a1", 1, 1, "result")) == ["LateResult"]
    assert run.do(cmd.EndAttempt("a1", 2, 9, "result")) == ["LateResult"]
    assert run.state() == "running"


def test_a_late_rejection_of_an_unknown_action_is_not_tried_again():
    run = in_state("unknown")
    run.do(cmd.EndAttempt("a1", 1, 1, "rejected", "no such account"))
    assert run.state() == "failed"


def test_a_result_that_is_not_acceptable_is_corrected_only_where_that_is_harmless():
    for effect, expected in (("pure", "ready"), ("non_repeatable", "failed")):
        run = Run()
        run.turn(call(effect=effect))
        run.start()
        run.end("result", objection="half of it is missing")
        assert run.state() == expected


def test_an_attempt_needs_permission_locks_budget_and_a_run_that_goes_on():
    run = Run(limits=Limits(tool_ms=1_000))
    run.turn(call("c1"), call("c2"))
    assert run.refusal(cmd.StartAttempt("a1", 1, approval="subject")) == "approval"
    assert run.refusal(cmd.StartAttempt("a1", 0)) == "late"
    assert run.refusal(cmd.StartAttempt("a1", 1, Cost(tool_ms=1_001))) == "budget"
    assert run.refusal(cmd.StartAttempt("a2", 1)) == "locks"  # first come, first served
    run.start("a1", reserve=Cost(tool_ms=1_000))
    assert run.refusal(cmd.StartAttempt("a1", 1)) == "state"
    assert run.refusal(cmd.StartAttempt("a2", 1)) == "locks"
    run.end("result", cost=Cost(tool_ms=10))
    run.do(cmd.Move("suspend"))
    assert run.refusal(cmd.StartAttempt("a2", 1)) == "state"


def test_an_approval_counts_for_exactly_what_was_approved():
    run = Run()
    run.turn(call())
    run.do(cmd.OpenWait("approval", "a1", subject="s1", due_ms=9_000))
    run.do(cmd.CloseWait("w1", "arrived", "ann", {"scope": "once"}))
    assert run.refusal(cmd.StartAttempt("a1", 1, approval="s2")) == "approval"
    run.start(approval="s1")


def test_a_grant_for_the_run_ends_with_its_time_and_with_the_epoch():
    run = Run()
    run.turn(call("c1", resources=READ), call("c2", resources=READ), call("c3", resources=READ))
    run.do(cmd.OpenWait("approval", "a1", subject="s"))
    value = {"scope": "run", "expires_ms": 5_000}
    run.do(cmd.CloseWait("w1", "arrived", "ann", value))
    run.start("a2", approval="s")
    run.now = 5_000
    assert run.refusal(cmd.StartAttempt("a3", 1, approval="s")) == "approval"
    run.now = 1_000
    run.do(cmd.ChangeEpoch(1))
    assert run.refusal(cmd.StartAttempt("a3", 1, approval="s")) == "approval"
    assert run.refusal(cmd.ChangeEpoch(1)) == "late"


def test_an_answer_after_the_time_is_refused_and_before_it_counts():
    run = Run()
    run.turn(call())
    run.do(cmd.OpenWait("approval", "a1", subject="s", due_ms=2_000))
    run.now = 2_000
    assert run.refusal(cmd.CloseWait("w1", "arrived", "ann")) == "expired"
    run.do(cmd.CloseWait("w1", "expired"))
    assert run.state() == "failed"


def test_cancelling_is_three_records_and_the_run_is_finishing_until_the_last():
    run = Run()
    run.turn(call("c1", resources=READ), call("c2", resources=READ), call("c3", resources=READ))
    run.do(cmd.OpenWait("input", "a2"))
    run.start("a1")
    names = run.do(cmd.RequestCancel("ann"))
    assert names[:2] == ["CancelRequested", "RunClosing"]
    assert [run.state(a) for a in ("a1", "a2", "a3")] == ["running", "cancelled", "cancelled"]
    assert run.refusal(cmd.StartAttempt("a3", 1)) == "state"
    assert run.refusal(cmd.End()) == "blocked"
    run.do(cmd.AnswerStop("a1", 1, "confirmed", ("SIGINT",)))
    assert run.end("stopped_without_effect") == ["AttemptEnded", "EffectsSettled"]
    run.do(cmd.End())
    assert run.view.state == "cancelled"
    effects = [e.effects for e in run.log if isinstance(e, ev.EffectsSettled)]
    assert effects == ["none"]


@pytest.mark.parametrize(
    ("effect", "outcome", "effects", "end"),
    [
        ("non_repeatable", "result", "done", "cancelled"),
        ("non_repeatable", "lost", "unknown", "cancelled"),
        ("idempotent", "lost", "unknown", "cancelled"),
        ("pure", "lost", "none", "cancelled"),
        ("pure", "result", "none", "cancelled"),
    ],
)
def test_what_a_cancelled_attempt_did_is_said_as_it_is_known(effect, outcome, effects, end):
    run = Run()
    run.turn(call(effect=effect))
    run.start()
    run.do(cmd.RequestCancel("ann"))
    run.end(outcome)
    assert run.view.action("a1").effects == effects
    run.do(cmd.End())
    assert run.view.state == end
    assert bool(run.view.unsettled) == (effects == "unknown")


def test_a_stop_that_never_came_ends_the_run_as_stopped_with_the_list():
    run = Run()
    run.turn(call())
    run.start()
    run.do(cmd.RequestCancel("ann"))
    run.do(cmd.AnswerStop("a1", 1, "timed_out"))
    run.end("lost")
    run.do(cmd.End())
    assert run.view.state == "stopped"
    assert [u["action"] for u in run.view.unsettled] == ["a1"]


def test_cancel_against_the_end_has_an_answer_in_both_orders():
    first = Run()
    first.turn(text="done")
    first.do(cmd.GiveCandidate("done"))
    first.do(cmd.Judge())
    assert first.refusal(cmd.RequestCancel("ann")) == "late"
    second = Run()
    second.turn(text="done")
    second.do(cmd.GiveCandidate("done"))
    second.do(cmd.RequestCancel("ann"))
    assert second.refusal(cmd.Judge()) == "state"
    assert second.refusal(cmd.RequestCancel("bob")) == "closed"


def test_a_compensation_is_an_action_of_its_own_and_may_fail():
    for outcome, effects in (("result", "compensated"), ("rejected", "done")):
        run = Run()
        run.turn(call())
        run.start()
        run.do(cmd.RequestCancel("ann", compensate=True))
        run.end("result")
        run.do(cmd.Compensate("a1", call("", tool="undo")))
        assert run.refusal(cmd.Compensate("a1", call("", tool="undo"))) == "state"
        run.start("a2")
        run.end(outcome, "a2")
        assert run.view.action("a1").effects == effects
        run.do(cmd.End())


def test_a_reply_after_the_cancel_is_kept_and_its_calls_are_not_executed():
    run = Run()
    run.do(cmd.RequestTurn())
    run.do(cmd.RequestCancel("ann"))
    run.do(cmd.Reply(1, "", (call(),)))
    assert run.view.turn(1).outcomes["c1"][0] == "refused"
    assert len(run.view.actions) == 0


def test_calls_of_one_turn_need_ids_of_their_own():
    run = Run()
    run.do(cmd.RequestTurn())
    assert run.refusal(cmd.Reply(1, "", (call("c"), call("c")))) == "key"
    assert run.refusal(cmd.Reply(1, "", (call(""),))) == "key"
    assert run.refusal(cmd.Reply(2, "")) == "late"


def test_what_is_not_accepted_goes_back_until_the_corrections_are_used_up():
    run = Run(max_corrections=1)
    check = ({"check": "file", "accepted": False, "reason": "missing", "evidence": {}},)
    for expected in ("running", "finishing"):
        run.turn(text="done")
        run.do(cmd.GiveCandidate("done"))
        run.do(cmd.Judge(check))
        assert run.view.state == expected
    assert run.view.aim == "failed"


def test_an_old_fence_claims_nothing():
    run = Run()
    assert run.refusal(cmd.Claim("other", 1)) == "late"
    run.do(cmd.Claim("other", 2))
    assert run.view.owner == "other"


@pytest.mark.parametrize("state", RUN_STATES)
def test_no_command_raises_in_any_state_of_the_run(state):
    """A refusal is an answer; an exception would kill the coordinator."""
    from msgspec.structs import replace

    from proctor.agent.core.decide import decide

    commands = [
        cmd.Claim("x", 9), cmd.Release(), cmd.Move("resume"), cmd.Move("suspend"),
        cmd.Move("block"), cmd.Receive("m", "t"), cmd.RequestTurn(), cmd.Reply(1),
        cmd.CloseTurn(1, "r"), cmd.GiveCandidate("r"), cmd.Judge(), cmd.OpenWait("input", "a1"),
        cmd.CloseWait("w1", "arrived"), cmd.CloseAction("a1", "denied", "r"),
        cmd.StartAttempt("a1", 1), cmd.EndAttempt("a1", 1, 1, "result"),
        cmd.Settle("a1", "happened", "q"), cmd.RequestCancel("x"),
        cmd.AnswerStop("a1", 1, "refused"),
        cmd.Close("failed"), cmd.End(), cmd.ChangeEpoch(3), cmd.ChangeConfig("d"),
        cmd.Revise("r"), cmd.Diverge("f"), cmd.NoteProcess("a1", 1, 2, 3, "b"),
        cmd.Compensate("a1", call()), cmd.CreateRun("r", {}, "d"),
    ]  # fmt: skip
    for action_state in sorted(set(ACTION_STATES) - {"verifying"}):
        view = replace(in_state(action_state).view, state=state)
        for command in commands:
            decide(view, command, 2_000)


def test_a_log_of_version_1_reads_the_same():
    """There a verdict, a turn's request and an action's arguments were written of their own."""
    run = Run()
    run.turn(call(effect="pure", arguments={"x": 7}))
    run.start()
    run.end(text="seen")
    old = []
    for event in run.log:
        body = ev.encode(event)
        if event.kind == "action.accepted":
            body["arguments"] = {"x": 7}
        accepted = body.pop("accepted", False)
        old.append(ev.decode(event.kind, 1, body))
        if accepted:
            old.append(ev.decode("action.judged", 1, {"action": "a1", "verdict": "accepted"}))
    assert len(old) == len(run.log) + 1
    view = replayed(View(), [(event, run.now) for event in old])
    assert (view.action("a1"), view.turns) == (run.view.action("a1"), run.view.turns)
    assert (view.action("a1").state, view.action("a1").arguments) == ("done", {"x": 7})
