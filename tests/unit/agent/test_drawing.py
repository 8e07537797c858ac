"""Money and time: subtasks draw from their parent, and amounts are amounts."""

from decimal import Decimal

import pytest
from tests.unit.agent.steps import Run, call

from proctor.agent.core import commands as cmd
from proctor.agent.core.budget_rows import budget_rows
from proctor.agent.core.budgets import Cost, Limits, flaw
from proctor.agent.core.drawing import comes_back
from proctor.agent.core.evolve import fold
from proctor.agent.core.projection import rows

DOLLAR = Limits(usd=Decimal(1))


def parent(limits=DOLLAR, calls=1) -> Run:
    run = Run(limits=limits)
    run.turn(*(call(f"c{n}", effect="idempotent", resources=()) for n in range(calls)))
    return run


def spawn(action="a1", **limits):
    return cmd.OpenWait("child", action, spec={"child": f"sub-{action}", "limits": limits})


@pytest.mark.parametrize(
    ("asked", "given"),
    [({}, {"usd": "1"}), ({"usd": "0.25"}, {"usd": "0.25"}),
     ({"steps": 3}, {"usd": "1", "steps": 3})],
)  # fmt: skip
def test_a_subtask_has_what_it_asked_for_and_else_what_is_left(asked, given):
    run = parent()
    run.do(spawn(**asked))
    assert run.view.wait("w1").spec["limits"] == given
    assert run.view.budgets.reserved.usd == Decimal(given["usd"])
    value = {"state": "done", "result": "", "spent": {"usd": "0.10"}}
    run.do(cmd.CloseWait("w1", "arrived", "m", value, source="child"))
    assert run.view.budgets.spent.usd == Decimal("0.10")
    assert run.view.budgets.reserved.usd == 0


def test_a_parent_never_promises_more_than_it_has():
    run = parent(calls=2)
    assert run.refusal(spawn(usd="1.01")) == "budget"
    run.do(spawn(usd="0.75"))
    assert run.refusal(spawn("a2", usd="0.50")) == "budget"
    assert comes_back(run.view)  # so it is not denied for good
    run.do(spawn("a2"))
    assert run.view.wait("w2").spec["limits"] == {"usd": "0.25"}
    assert run.view.budgets.left.usd == 0


def test_nothing_is_left_for_a_subtask_of_a_run_that_has_spent_it():
    run = Run(limits=Limits(steps=1))
    run.turn(call(effect="idempotent"))
    assert run.refusal(spawn()) == "budget"
    assert not comes_back(run.view)


@pytest.mark.parametrize("usd", ["-100", "NaN", "Infinity", "abc", "1e999999", "1e-999999", [1]])
def test_limits_that_are_no_amounts_make_no_subtask(usd):
    run = parent()
    assert run.refusal(spawn(usd=usd)) == "invalid"
    assert run.refusal(spawn(steps=-1)) == "invalid"
    assert run.view.budgets.left.usd == 1


@pytest.mark.parametrize("usd", [Decimal(-100), Decimal("NaN"), Decimal("Infinity"), 0.5, "1",
                                 Decimal("1e400"), Decimal("1e-400")])  # fmt: skip
def test_what_a_policy_says_it_cost_is_an_amount_or_its_whole_reservation(usd):
    assert flaw(Cost(usd=usd)) is not None
    run = Run(limits=DOLLAR)
    assert run.refusal(cmd.RequestTurn(Cost(usd=usd, steps=1))) == "budget"
    run.do(cmd.RequestTurn(Cost(usd=Decimal("0.30"), steps=1)))
    run.do(cmd.Reply(1, "hello", (), Cost(usd=usd)))
    assert run.view.budgets.spent.usd == Decimal("0.30")


def test_no_attempt_starts_when_the_run_has_used_its_time():
    run = Run(limits=Limits(wall_ms=5_000, steps=1))  # the last step is asked for, too
    run.turn(call())
    run.now += 4_999
    run.do(cmd.Receive("m", "hello"))
    assert not run.view.budgets.time_is_over
    run.now += 1
    run.do(cmd.Receive("m", "hello"))
    assert run.view.budgets.time_is_over
    assert run.refusal(cmd.StartAttempt("a1", 1)) == "budget"


def test_time_between_two_owners_is_nobodys_whichever_way_a_clock_was_set():
    for jump in (3_600_000, -500):
        run = Run(limits=Limits(wall_ms=5_000))
        run.now += jump
        run.do(cmd.Claim("next", 2))
        assert run.view.budgets.spent.wall_ms == 0
        run.now += 10
        run.do(cmd.Receive("m", "hello"))
        assert run.view.budgets.spent.wall_ms == 10


# --- rows


def step(run, command):
    before = run.view
    place = len(run.log)
    run.do(command)
    found = budget_rows(before, run.view, run.log[place:])
    return [(r.key["source_id"], r.key["kind"], r.values["state"], r.values["reserved"],
             r.values.get("settled")) for r in found]  # fmt: skip


def test_every_reservation_has_a_row_that_says_how_it_ended():
    run = Run(limits=DOLLAR)
    ask = cmd.RequestTurn(Cost(usd=Decimal("0.1"), steps=1))
    assert step(run, ask) == [("t1", "usd", "reserved", Decimal("0.1"), None)]
    closed = step(run, cmd.CloseTurn(1, "lost"))
    assert closed == [("t1", "usd", "settled", 0, Decimal("0.1"))]
    step(run, ask)
    assert step(run, cmd.CloseTurn(2, "not sent", False)) == [("t2", "usd", "settled", 0, 0)]
    step(run, ask)
    reply = cmd.Reply(3, "", (call(effect="idempotent"),), Cost(steps=1))
    assert step(run, reply) == [("t3", "usd", "settled", 0, 0)]
    assert step(run, spawn(usd="0.5")) == [("w1", "usd", "reserved", Decimal("0.5"), None)]
    value = {"state": "done", "spent": {"usd": "0.2"}}
    ended = step(run, cmd.CloseWait("w1", "arrived", "m", value, source="child"))
    assert ended == [("w1", "usd", "settled", 0, Decimal("0.2"))]


def test_an_unknown_attempt_keeps_its_row_until_it_is_settled():
    run = Run(limits=Limits(tool_ms=1_000))
    run.turn(call())
    start = cmd.StartAttempt("a1", 1, Cost(tool_ms=700))
    assert step(run, start) == [("a1.1", "tool_ms", "reserved", 700, None)]
    assert step(run, cmd.EndAttempt("a1", 1, 1, "lost")) == []
    stated = cmd.CloseWait("w1", "arrived", "ann", {"happened": True})
    assert step(run, stated) == [("a1.1", "tool_ms", "settled", 0, 700)]


@pytest.mark.parametrize(("outcome", "state"), [("result", "ended"), ("lost", "unknown")])
def test_a_process_is_not_called_started_for_ever(outcome, state):
    run = Run()
    run.turn(call())
    run.start()
    run.do(cmd.NoteProcess("a1", 1, 77, 1, "boot"))
    before, place = run.view, len(run.log)
    run.end(outcome)
    found = rows(before, run.view, run.log[place:], run.now)
    (row,) = [r for r in found if r.table == "process"]
    assert (row.key["process_id"], row.values["state"]) == ("a1.1.77", state)
    assert fold(run.view, (), 1) is run.view
