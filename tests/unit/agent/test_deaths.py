"""How deaths of workers are counted: by the log, until something new is in it."""

import pytest
from tests.unit.agent.steps import Run, call

from proctor.agent.core import commands as cmd
from proctor.agent.core.deaths import MOST_RETRIES
from proctor.agent.core.showing import next_moves
from proctor.agent.driving.probation import Probation, is_suspect
from proctor.agent.driving.turns import failed_turns
from proctor.store.journal.contract import RunRow
from proctor.testing.clock import FakeClock


def die(run, times=1):
    """The owner vanishes and another claims the run."""
    for _ in range(times):
        run.do(cmd.Claim(f"w{run.view.fence}", run.view.fence + 1))


def asked(run):
    run.do(cmd.OpenWait("input", prompt="which?"))


def test_a_claim_after_a_release_is_no_death():
    run = Run()
    assert run.view.deaths == 0
    for _ in range(10):
        run.do(cmd.Release("waiting"))
        run.do(cmd.Claim("me", run.view.fence + 1))
    assert run.view.deaths == 0


def test_each_claim_of_an_owned_run_counts_and_what_a_dying_worker_may_do_changes_nothing():
    run = Run()
    run.turn(call(effect="pure", max_attempts=9))
    for number in range(1, 4):
        run.start()
        die(run)
        run.end("lost")
        assert (run.view.deaths, run.state()) == (number, "ready")
    run.do(cmd.ChangeConfig("another"))
    run.do(cmd.Release("handed over"))
    assert run.view.deaths == 3
    run.do(cmd.Claim("me", run.view.fence + 1))
    run.do(cmd.GiveUp("me", "it failed"))
    assert run.view.deaths == 3


def result(run):
    run.start()
    run.end()


STEPS = {
    "a turn": lambda run: run.turn(call("c2")),
    "a message": lambda run: run.do(cmd.Receive("m1", "hello")),
    "a result": result,
    "an answer": lambda run: run.do(cmd.CloseWait("w1", "arrived", value="x", meant="answer")),
    "a cancel": lambda run: run.do(cmd.RequestCancel("ann")),
    "a person's suspension": lambda run: run.do(cmd.Move("suspend", by="ann")),
    "rest": lambda run: run.do(cmd.Release("waiting")),
}


@pytest.mark.parametrize("step", STEPS)
def test_progress_starts_the_count_anew_and_too_many_stay(step):
    run, held = Run(), Run()
    for each, times in ((run, MOST_RETRIES), (held, MOST_RETRIES + 1)):
        if step not in ("a turn", "a cancel"):
            each.turn(call("c1", effect="pure"))
        if step == "an answer":
            asked(each)
        die(each, times)
    assert (run.view.held, held.view.held) == (False, True)
    STEPS[step](run)
    STEPS[step](held)
    assert (run.view.deaths, held.view.deaths) == (0, MOST_RETRIES + 1)


def test_turns_that_a_worker_left_say_nothing_about_the_policy():
    run = Run()
    for abandoned in (False, True, False, True):
        run.do(cmd.RequestTurn())
        run.do(cmd.CloseTurn(len(run.view.turns), "the same words", abandoned=abandoned))
    assert failed_turns(run.view) == 2


def test_holding_back_suspends_and_only_a_person_resumes():
    run = Run()
    assert run.refusal(cmd.HoldBack()) == "state"
    die(run, MOST_RETRIES)
    assert run.refusal(cmd.HoldBack()) == "state"
    die(run)
    assert run.do(cmd.HoldBack()) == ["RunGivenUp", "RunMoved"]
    assert run.view.state == "suspended"
    assert run.refusal(cmd.HoldBack()) == "state"
    run.do(cmd.Release("suspended"))
    run.do(cmd.Claim("me", run.view.fence + 1))
    (move,) = next_moves(run.view)
    assert move["who"] == "person"
    assert "4 workers in a row" in move["facts"]["reason"]
    run.do(cmd.Move("resume", by="ann"))
    assert (run.view.deaths, run.view.held, run.view.state) == (0, False, "ready")


def test_a_run_that_is_being_ended_is_not_suspended():
    run = Run()
    run.do(cmd.Close("failed", "enough"))
    die(run, MOST_RETRIES + 1)
    assert run.do(cmd.HoldBack()) == ["RunGivenUp"]
    assert run.view.state == "finishing"


def row(run_id, deaths=0, owner=None):
    body = {"deaths": deaths} if deaths else {}
    moment = FakeClock().now()
    return RunRow(run_id, None, None, None, "running", 1, 1, owner, moment, "", 0, None, moment,
                  body)  # fmt: skip


def test_who_is_suspected():
    assert [is_suspect(row("r", n)) for n in range(6)] == [False, False, True, True, False, False]
    assert [is_suspect(row("r", n, "w")) for n in range(5)] == [False, True, True, True, False]
    assert not is_suspect(RunRow(*[*(getattr(row("r"), n) for n in RunRow.__slots__[:-1]),
                                   {"deaths": "many"}]))  # fmt: skip


def test_one_suspect_at_a_time_until_it_goes_on_ends_or_its_time_is_over():
    clock = FakeClock()
    probation = Probation(clock, 30.0)
    first, second = row("a", 2), row("b", 3)
    assert probation.admits(first)
    assert not probation.admits(second)
    assert probation.admits(row("c", 1))
    assert probation.admits(row("d", 4))  # is only held back
    probation.look({"a"}, None)
    probation.look({"a"}, 3)
    assert not probation.admits(second)
    probation.look({"a"}, 0)
    assert probation.admits(second)
    assert not probation.admits(first)
    probation.look(set(), None)
    assert probation.admits(first)
    clock.advance(30.0)
    assert probation.admits(second)
