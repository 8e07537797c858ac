"""What closes a wait: each kind by its own word, in its time, with values that can be read."""

import pytest
from tests.unit.agent.steps import Run, call

from proctor.agent.core import commands as cmd
from proctor.agent.core.answers import expiry
from proctor.agent.core.events import WaitClosed, decode, encode
from proctor.agent.core.evolve import evolve

ONCE = {"scope": "once", "expires_ms": None}
STATED = {"happened": False, "text": ""}
SAID = {
    "answer": "no, never",
    "yes": None,
    "approval": ONCE,
    "statement": STATED,
    "child": {"state": "failed", "spent": {}},
    "clock": None,
}
TAKEN = {
    "approval": {"approval"},
    "input": {"answer", "yes"},
    "workspace": {"yes", "approval"},
    "review": {"yes", "approval"},
    "timer": {"clock"},
    "child": {"child"},
    "statement": {"statement"},
}


def waiting(kind) -> Run:
    run = Run()
    run.turn(call(effect="queryable"))
    if kind == "workspace":
        run.do(cmd.Diverge("sha256:other"))
    elif kind == "review":
        run.do(cmd.OpenWait("review", None, "s"))
    elif kind == "statement":
        run.start()
        run.end("lost")
        run.do(cmd.Settle("a1", "cannot_be_settled", "query"))
    else:
        spec = {"child": "sub-1"} if kind == "child" else {}
        run.do(cmd.OpenWait(kind, "a1", "s", spec=spec))
    return run


def closing(said):
    source = said if said in ("clock", "child") else "person"
    meant = {"yes": "answer", "clock": "", "child": ""}.get(said, said)
    return cmd.CloseWait("w1", "arrived", "ann", SAID[said], source=source, meant=meant)


@pytest.mark.parametrize("said", SAID)
@pytest.mark.parametrize("kind", TAKEN)
def test_every_kind_of_wait_is_closed_by_its_own_word_only(kind, said):
    run = waiting(kind)
    if said in TAKEN[kind]:
        run.do(closing(said))
        assert run.view.wait("w1").state == "arrived"
        return
    assert run.refusal(closing(said)) == "state"


@pytest.mark.parametrize("kind", TAKEN)
def test_no_is_said_to_what_asks_for_leave_and_to_nothing_else(kind):
    run = waiting(kind)
    denial = cmd.CloseWait("w1", "denied", "ann", reason="no", meant="denial")
    if kind in ("approval", "input", "review"):
        run.do(denial)
        assert run.view.wait("w1").state == "denied"
    else:
        assert run.refusal(denial) == "state"


BAD = ["yes", {}, {"scope": "all"}, {"scope": "run", "expires_ms": "soon"}, True, [1],
       {"scope": "once", "expires_ms": 1.5}, {"scope": "run", "expires_ms": -1},
       {"scope": "run", "expires_ms": 10**30}, {"scope": "run", "expires_ms": True}]  # fmt: skip


@pytest.mark.parametrize("value", BAD)
def test_an_approval_that_cannot_be_read_approves_nothing(value):
    run = waiting("approval")
    assert run.refusal(cmd.CloseWait("w1", "arrived", "ann", value)) == "state"
    assert not run.view.grants


@pytest.mark.parametrize("kind", ["review", "workspace"])
@pytest.mark.parametrize("value", [{"scope": "run"}, {"scope": "once", "expires_ms": 9_000}])
def test_a_scope_and_an_end_are_for_actions(kind, value):
    run = waiting(kind)
    assert run.refusal(cmd.CloseWait("w1", "arrived", "ann", value, meant="approval")) == "state"


def test_a_decision_that_has_run_out_is_none_before_and_after_it_is_taken_up():
    run = waiting("approval")
    late = cmd.CloseWait("w1", "arrived", "ann", {"scope": "once", "expires_ms": 1_000})
    assert run.refusal(late) == "expired"
    run.do(cmd.CloseWait("w1", "arrived", "ann", {"scope": "once", "expires_ms": 5_000}))
    run.now = 5_000
    assert run.refusal(cmd.StartAttempt("a1", 1, approval="s")) == "approval"
    run.now = 4_999
    run.start(approval="s")


@pytest.mark.parametrize("spent", [{"usd": "abc"}, {"usd": "NaN"}, {"usd": "-100"}, {"steps": -1},
                                   {"usd": "Infinity"}, {"tokens": "many"}, 7])  # fmt: skip
def test_a_subtask_cannot_give_its_parent_money(spent):
    run = waiting("child")
    value = {"state": "done", "result": "r", "spent": spent}
    assert run.refusal(cmd.CloseWait("w1", "arrived", "m", value, source="child")) == "state"


def test_a_log_that_holds_such_a_value_is_read_all_the_same():
    run = waiting("child")
    value = {"state": "done", "spent": {"usd": "abc"}}
    assert evolve(run.view, WaitClosed("w1", "arrived", "m", value), 2).budgets.spent.usd == 0
    assert expiry({"expires_ms": "soon"}) == 0
    assert expiry({"expires_ms": None}) is None


def test_what_was_acknowledged_in_time_counts_in_time():
    run = Run()
    run.turn(call())
    run.do(cmd.OpenWait("input", "a1", due_ms=2_000))
    run.now = 9_000
    late = cmd.CloseWait("w1", "arrived", "ann", "x", at_ms=2_000)
    assert run.refusal(late) == "expired"
    ahead = cmd.CloseWait("w1", "arrived", "ann", "x", at_ms=99_000)
    assert run.refusal(ahead) == "expired"
    run.do(cmd.CloseWait("w1", "arrived", "ann", "x", at_ms=1_999))
    assert run.state() == "ready"


def test_files_are_approved_as_they_were_found():
    run = waiting("workspace")
    assert run.do(cmd.Diverge("sha256:other")) == []
    names = run.do(cmd.Diverge("sha256:third"))
    assert names == ["WorkspaceDiverged", "WaitClosed", "WaitOpened"]
    assert run.refusal(cmd.CloseWait("w1", "arrived", "ann", True)) == "closed"
    run.do(cmd.CloseWait("w2", "arrived", "ann", True))
    assert run.view.revision == "sha256:third"


def test_an_answer_is_the_same_value_live_and_from_the_log():
    event = WaitClosed("w1", "arrived", "ann", [1, [2]])
    assert decode("wait.closed", 1, encode(event)) == event


# --- the candidate


def proposed(state) -> Run:
    run = Run()
    run.turn(text="done")
    run.do(cmd.GiveCandidate("done"))
    if state in ("waiting", "suspended"):
        run.do(cmd.OpenWait("review", None, "s"))
        run.do(cmd.Move("block"))
    if state == "suspended":
        run.do(cmd.Move("suspend"))
    assert run.view.state == state
    return run


@pytest.mark.parametrize("state", ["verifying", "waiting", "suspended"])
def test_a_message_voids_the_candidate_and_its_reviews(state):
    run = proposed(state)
    run.do(cmd.Receive("m1", "also do the other thing"))
    assert run.view.candidate is None
    assert not run.view.waiting("review")
    assert run.view.state == ("suspended" if state == "suspended" else "running")
    assert run.refusal(cmd.Judge()) == "state"


def test_a_message_of_an_old_log_voided_nothing():
    run = proposed("verifying")
    old = decode("message.received", 1, {"message_id": "m", "text": "t"})
    assert evolve(run.view, old, 2).candidate == "done"


def test_nothing_is_accepted_while_the_files_are_not_as_they_were_left():
    run = proposed("verifying")
    run.do(cmd.Diverge("sha256:other"))
    assert run.refusal(cmd.Judge()) == "blocked"


def test_reviews_do_not_stay_open_when_the_candidate_is_judged():
    for accepted in (True, False):
        run = proposed("verifying")
        run.do(cmd.OpenWait("review", None, "older files"))
        run.do(cmd.Judge(({"accepted": accepted, "reason": "r"},)))
        assert not run.view.waiting("review")
