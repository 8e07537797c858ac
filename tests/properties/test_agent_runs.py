"""Random commands against the pure core: whatever is asked, in whatever order."""

from decimal import Decimal

from hypothesis import given, settings
from hypothesis import strategies as st

from proctor.agent import commands as cmd
from proctor.agent import events as ev
from proctor.agent.budgets import Cost, Limits
from proctor.agent.context import messages
from proctor.agent.decide import decide, fold
from proctor.agent.decide_actions import holders
from proctor.agent.locks import Access, LockTable, Mode
from proctor.agent.projection import rows
from proctor.agent.showing import next_moves
from proctor.agent.view import View
from proctor.kernel import jsontext

actions = st.sampled_from(["a1", "a2", "a3", "a4", "a99", "x"])
waits = st.sampled_from(["w1", "w2", "w3", "w9", ""])
numbers = st.integers(1, 3)
costs = st.builds(Cost, st.integers(0, 9).map(Decimal), st.integers(0, 9), st.just(1))
resources = st.lists(
    st.builds(Access, st.sampled_from(Mode), st.sampled_from(["", "ws", "ws/a", "net"])),
    max_size=2,
).map(tuple)
calls = st.builds(
    cmd.ProposedCall,
    st.sampled_from(["c1", "c2", "c3"]),
    st.just("tool"),
    st.just({"x": 1}),
    st.sampled_from([None, None, None, "no"]),
    st.just("1"),
    st.sampled_from(["pure", "idempotent", "queryable", "non_repeatable"]),
    resources,
    numbers,
)
outcomes = st.sampled_from(["result", "rejected", "refused", "stopped_without_effect", "lost"])
values = st.sampled_from([None, {"happened": True}, {"happened": False}, {"scope": "run"}, "x"])
commands = st.one_of(
    st.builds(cmd.Move, st.sampled_from(["block", "unblock", "suspend", "resume", "started"])),
    st.builds(cmd.RequestTurn, costs),
    st.builds(cmd.Reply, numbers, st.just("t"), st.lists(calls, max_size=3).map(tuple), costs),
    st.builds(cmd.CloseTurn, numbers, st.just("lost"), st.booleans()),
    st.builds(cmd.GiveCandidate, st.just("r")),
    st.builds(cmd.Judge, st.sampled_from([(), ({"accepted": False, "reason": "r"},)])),
    st.builds(
        cmd.OpenWait,
        st.sampled_from(["approval", "input", "timer", "child", "review", "workspace"]),
        st.none() | actions,
        st.just("s"),
        st.just("?"),
        st.none() | st.integers(0, 40),
    ),
    st.builds(
        cmd.CloseWait,
        waits,
        st.sampled_from(["arrived", "denied", "expired", "cancelled", "superseded"]),
        st.just("me"),
        values,
    ),
    st.builds(
        cmd.CloseAction,
        actions,
        st.sampled_from(["denied", "expired", "invalid", "cancelled"]),
        st.just("why"),
    ),
    st.builds(cmd.StartAttempt, actions, st.sampled_from([1, 1, 1, 2]), costs),
    st.builds(cmd.EndAttempt, actions, numbers, st.sampled_from([1, 1, 1, 2]), outcomes),
    st.builds(
        cmd.Settle,
        actions,
        st.sampled_from(["happened", "did_not_happen", "cannot_be_settled"]),
        st.just("q"),
    ),
    st.builds(cmd.RequestCancel, st.just("me"), st.just(""), st.booleans()),
    st.builds(cmd.AnswerStop, actions, numbers, st.sampled_from(["confirmed", "timed_out"])),
    st.builds(cmd.Close, st.sampled_from(["failed", "stopped"])),
    st.builds(cmd.End),
    st.builds(cmd.Claim, st.just("other"), st.integers(1, 2)),
    st.builds(cmd.Compensate, actions, calls),
    st.builds(cmd.Receive, st.just("m"), st.just("hello")),
)
limits = st.builds(
    Limits, st.none() | st.integers(0, 30).map(Decimal), st.none() | st.integers(0, 30)
)
# Longer runs come from a seed: a turn with calls first, so that there is something to act on.
OPENING = (
    cmd.RequestTurn(),
    cmd.Reply(
        1,
        "",
        tuple(
            cmd.ProposedCall(f"c{n}", "tool", {}, None, "1", effect, (), 2)
            for n, effect in enumerate(["pure", "idempotent", "queryable", "non_repeatable"])
        ),
    ),
)


def rights(view: View) -> None:
    """What holds in every view."""
    budgets = view.budgets
    assert budgets.reserved == sum(budgets.open.values(), Cost())
    open_ = [a.id for a in view.actions if a.open]
    assert list(view.open_actions) == open_
    assert list(view.open_waits) == [w.id for w in view.waits if w.state == "open"]
    for action in view.actions:
        assert action.attempts <= action.max_attempts or action.effect == "non_repeatable"
        if action.state == "waiting":
            assert view.wait(action.wait).state == "open"
    table = LockTable()
    for action in holders(view):
        if action.state == "running":
            assert table.fits(action.resources)
            table.hold(action.id, action.resources)
    asked = [c["id"] for m in messages(view) for c in m.get("tool_calls", ())]
    assert [m["tool_call_id"] for m in messages(view) if m["role"] == "tool"] == asked
    assert all(move["who"] for move in next_moves(view))
    if not (view.ended and not view.open_waits and not view.open_actions):
        assert next_moves(view) or view.state in ("done", "failed", "cancelled", "waiting")


@given(st.sampled_from(["wait", "tell_model", "stop_run"]), limits, st.lists(commands, max_size=40))
@settings(max_examples=300, deadline=None)
def test_replay_equals_the_view_and_every_promise_holds(on_unknown, limit, asked):
    view = fold(View(), decide(View(), cmd.CreateRun("r", {"goal": "g"}, "d", 0, limit,
                                                     on_unknown), 0), 0)  # fmt: skip
    log = [(ev.RunCreated("r", {"goal": "g"}, "d", 0, limit.to_json(), on_unknown), 0)]
    table: dict = {}
    now = 0
    for command in (cmd.Claim("me", 1), *OPENING, *asked):
        now += 1
        found = decide(view, command, now)
        assert decide(view, command, now) == found  # pure
        if isinstance(found, cmd.Refusal):
            assert found.reason
            continue
        before, view = view, fold(view, found, now)
        log += [(event, now) for event in found]
        for row in rows(before, view, found, now):
            known = table.setdefault((row.table, tuple(row.key.items())), {})
            known.update(row.values)
        rights(view)
    replayed = View()
    for event, at in log:
        body = jsontext.loads(jsontext.dumps(ev.encode(event)))
        replayed = fold(replayed, [ev.decode(event.kind, ev.VERSION, body)], at)
    assert as_json(replayed) == as_json(view)
    assert {k[1][0][1]: v["state"] for k, v in table.items() if k[0] == "action"} == {
        a.id: a.state for a in view.actions
    }
    assert view.version == len(log)


def as_json(view: View) -> str:
    """A view with lists for tuples: what was read from JSON compares equal to what was not."""
    return repr(jsontext.loads(jsontext.dumps(jsontext.sanitized(_plain(view)))))


def _plain(value):
    if hasattr(value, "__dataclass_fields__"):
        return {name: _plain(getattr(value, name)) for name in value.__dataclass_fields__}
    if isinstance(value, dict):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, str | int | float | None):
        return value
    if isinstance(value, Decimal):
        return format(value.normalize(), "f")
    return [_plain(item) for item in value]
