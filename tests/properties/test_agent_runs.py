"""Random commands against the pure core: whatever is asked, in whatever order."""

import random
from collections import Counter
from decimal import Decimal

import pytest

from proctor.agent.context import messages
from proctor.agent.core import commands as cmd
from proctor.agent.core import events as ev
from proctor.agent.core.budgets import Cost, Limits
from proctor.agent.core.decide import decide
from proctor.agent.core.decide_actions import holders
from proctor.agent.core.evolve import fold, replayed
from proctor.agent.core.locks import Access, LockTable, Mode
from proctor.agent.core.projection import rows
from proctor.agent.core.sequence import Sequence32
from proctor.agent.core.showing import next_moves
from proctor.agent.core.view import View
from proctor.agent.driving.snapshots import from_json, to_json
from proctor.kernel import jsontext
from proctor.kernel.agent_states import ACTION_STATES, RUN_STATES

EFFECTS = ("pure", "idempotent", "queryable", "non_repeatable")
OUTCOMES = ("result", "result", "lost", "lost", "rejected", "refused", "stopped_without_effect")
ACCESSES = (
    (),
    (Access(Mode.WRITE, ""),),
    (Access(Mode.READ, "ws"),),
    (Access(Mode.WRITE, "ws/a"),),
)
WAITS = ("approval", "input", "timer", "child", "review", "workspace")
VALUES = (
    {"happened": True}, {"happened": False}, {"scope": "run"}, None, {"scope": "once"}, "yes",
    {"state": "done", "result": "r", "spent": {"steps": 1, "usd": "0.5"}},
    {"state": "cancelled", "spent": {"usd": "-5"}},
)  # fmt: skip
SOURCES = ("person", "person", "child", "clock", "runtime")


def pick(items, n):
    return items[n % len(items)]


def proposed(n, m):
    return cmd.ProposedCall(
        f"c{n % 5}", "tool", {"x": 1}, "no" if m == 9 else None, "1", pick(EFFECTS, n + m // 2),
        pick(ACCESSES, m), 1 + m % 3,
    )  # fmt: skip


def attempt(view, n, m):
    """Mostly an attempt that runs, rarely one that is over or never was."""
    found = list(view.unfinished("running", "unknown")) or list(view.actions)
    action = pick(found, n) if found else None
    if action is None or m == 9:
        return "a99", 1, 1
    return action.id, action.attempts - (m == 8), action.fence + (m == 7)


def one_of(view, n, *states):
    found = list(view.unfinished(*states)) or list(view.actions)
    return pick(found, n).id if found else "a99"


def wait(view, n):
    found = list(view.waiting()) or list(view.waits)
    return pick(found, n).id if found else "w99"


def cost(n, m):
    return Cost(Decimal(n % 4), m, 1, n % 3)


def answered(view, n, m):
    """Mostly what the wait asks for, by whom it asks; else anything by anybody."""
    name = wait(view, n)
    found = view.wait(name)
    value, source = pick(VALUES, m), pick(SOURCES, n + m)
    if found is not None and m < 7:
        source = {"timer": "clock", "child": "child"}.get(found.kind, "person")
        value = {
            "approval": VALUES[2 + 2 * (m % 2)], "child": VALUES[6], "statement": VALUES[m % 2],
        }.get(found.kind)  # fmt: skip
    return cmd.CloseWait(name, "arrived", "me", value, source=source)


MAKE = {
    "move": lambda v, n, m: cmd.Move(pick(("block", "unblock", "suspend", "resume"), n)),
    "ask": lambda v, n, m: cmd.RequestTurn(cost(n, m)),
    "take": lambda v, n, m: cmd.TakeTurn(
        cost(n, m),
        {"messages": n},
        "t",
        tuple(proposed(n + k, m) for k in range(n % 3)),
        cost(m, n),
    ),
    "reply": lambda v, n, m: cmd.Reply(
        len(v.turns), "t", tuple(proposed(n + k, (m + k) % 10) for k in range(n % 4)), cost(n, m)
    ),
    "lose": lambda v, n, m: cmd.CloseTurn(len(v.turns), "lost", m < 5),
    "candidate": lambda v, n, m: cmd.GiveCandidate("r"),
    "judge": lambda v, n, m: cmd.Judge(() if m < 5 else ({"accepted": False, "reason": "r"},)),
    "open": lambda v, n, m: cmd.OpenWait(
        pick(WAITS, m), one_of(v, n, "ready") if m < 4 else None, "s", "?", None if n % 2 else n
    ),
    "answer": answered,
    "overdue": lambda v, n, m: cmd.Overdue(wait(v, n)),
    "refuse": lambda v, n, m: cmd.CloseWait(
        wait(v, n),
        pick(("denied", "expired", "cancelled", "superseded"), m),
        "me",
        source=pick(SOURCES, n),
    ),
    "drop": lambda v, n, m: cmd.CloseAction(
        one_of(v, n, "ready"), pick(("denied", "expired", "invalid", "cancelled"), m), "why"
    ),
    "start": lambda v, n, m: cmd.StartAttempt(
        one_of(v, n, "ready"), v.fence + (m == 9), Cost(tool_ms=m), "s" if m == 8 else None
    ),
    "end": lambda v, n, m: cmd.EndAttempt(
        *attempt(v, n, m), pick(OUTCOMES, n + m), objection="bad" if n % 7 == 6 else None
    ),
    "settle": lambda v, n, m: cmd.Settle(
        one_of(v, n, "unknown"),
        pick(("happened", "did_not_happen", "cannot_be_settled"), m),
        "query",
    ),
    "cancel": lambda v, n, m: cmd.RequestCancel("me", "", m < 5),
    "stop": lambda v, n, m: cmd.AnswerStop(
        *attempt(v, n, m)[:2], pick(("confirmed", "refused", "timed_out"), m)
    ),
    "close": lambda v, n, m: cmd.Close(pick(("failed", "stopped"), n)),
    "end run": lambda v, n, m: cmd.End(),
    "claim": lambda v, n, m: cmd.Claim("other", v.fence + m % 2),
    "undo": lambda v, n, m: cmd.Compensate(one_of(v, n, "nothing"), proposed(n, m)),
    "tell": lambda v, n, m: cmd.Receive("m", "hello"),
}
# What ends a run comes seldom, so that runs become long.
OFTEN = ["ask", "reply", "start", "start", "end", "settle", "answer", "candidate", "judge"]
SELDOM = ["close", "cancel", "drop", "refuse", "tell", "move", "claim", "overdue"]
KINDS = [k for k in MAKE if k not in SELDOM] * 2 + OFTEN * 12 + SELDOM
SEEDS = range(150)


def rights(view: View) -> None:
    """What holds in every view."""
    budgets = view.budgets
    assert budgets.reserved == sum(budgets.open.values(), Cost())
    open_ = [a.id for a in view.actions if a.open]
    assert list(view.open_actions) == open_
    assert list(view.open_waits) == [w.id for w in view.waits if w.state == "open"]
    for action in view.actions:
        assert action.attempts <= action.max_attempts or action.effect == "non_repeatable"
        # What may have had an effect is not said to have had none.
        assert action.past != "unknown" or action.state not in ("failed", "cancelled")
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


def commands(rng):
    """A beginning that gives something to act on, then anything."""
    yield from [("claim", 0, 1), ("ask", 0, 0), ("reply", 3, 0)]
    for _ in range(250):
        kind = rng.choice(KINDS)
        if kind not in ("close", "cancel") or rng.random() < 0.1:
            yield kind, rng.randrange(30), rng.randrange(10)


def play(seed: int) -> Counter:
    """One run of random commands; the states it went through."""
    rng, seen = random.Random(seed), Counter()
    on_unknown = rng.choice(["wait", "tell_model", "stop_run"])
    limit = Limits(rng.choice([None, Decimal(20)]), rng.choice([None, 30, 300]))
    view = fold(View(), decide(View(), cmd.CreateRun("r", {"goal": "g"}, "d", 0, limit,
                                                     on_unknown), 0), 0)  # fmt: skip
    log = [(ev.RunCreated("r", {"goal": "g"}, "d", 0, limit.to_json(), on_unknown), 0)]
    table: dict = {}
    now = 0
    for kind, n, m in commands(rng):
        now += 1
        command = MAKE[kind](view, n, m)
        found = decide(view, command, now)
        assert decide(view, command, now) == found  # pure
        if isinstance(found, cmd.Refusal):
            assert found.reason
            continue
        before, was = view, repr(view)
        view = fold(view, found, now)
        assert repr(before) == was  # a view is a value: nobody's changes
        log += [(event, now) for event in found]
        for row in rows(before, view, found, now):
            known = table.setdefault((row.table, tuple(row.key.items())), {})
            known.update(row.values)
        rights(view)
        seen.update({view.state: 1, **{f"action {a.state}": 1 for a in view.actions}})
    step_by_step = View()
    for event, at in log:
        body = jsontext.loads(jsontext.dumps(ev.encode(event)))
        step_by_step = fold(step_by_step, [ev.decode(event.kind, ev.VERSION, body)], at)
    assert as_json(step_by_step) == as_json(view) == as_json(replayed(View(), log))
    kept = jsontext.loads(jsontext.dumps(to_json(view)))
    assert as_json(from_json(kept)) == as_json(view)
    assert {k[1][0][1]: v["state"] for k, v in table.items() if k[0] == "action"} == {
        a.id: a.state for a in view.actions
    }
    for row in rows(View(), view, [event for event, _ in log], now):
        if row.table in ("run", "action", "wait"):  # the log can rebuild them
            assert table[row.table, tuple(row.key.items())] == row.values
    assert view.version == len(log)
    entries = {k[1][0][1:] + k[1][1][1:]: v for k, v in table.items() if k[0] == "budget_entry"}
    for name in ("usd", "tokens"):
        if getattr(view.budgets.limits, name) is None:
            continue
        mine = {source: row for (source, kind), row in entries.items() if kind == name}
        held = {s: getattr(c, name) for s, c in view.budgets.open.items() if getattr(c, name)}
        assert {s: r["reserved"] for s, r in mine.items() if r["state"] == "reserved"} == held
        spent = sum(r.get("settled", 0) for r in mine.values())
        assert spent == getattr(view.budgets.spent, name)
    return seen


@pytest.mark.slow
def test_replay_equals_the_view_and_every_promise_holds():
    seen = sum((play(seed) for seed in SEEDS), Counter())
    wanted = set(RUN_STATES) | {f"action {s}" for s in ACTION_STATES if s != "verifying"}
    assert wanted <= set(seen), seen  # else the runs above prove little


def as_json(view: View) -> str:
    """A view with lists for tuples: what was read from JSON compares equal to what was not."""
    return repr(jsontext.loads(jsontext.dumps(jsontext.sanitized(_plain(view)))))


def _plain(value):
    if isinstance(value, Sequence32):
        return [_plain(item) for item in value]
    if hasattr(value, "__struct_fields__"):
        return {name: _plain(getattr(value, name)) for name in value.__struct_fields__}
    if isinstance(value, dict):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, str | int | float | None):
        return value
    if isinstance(value, Decimal):
        return format(value.normalize(), "f")
    return [_plain(item) for item in value]
