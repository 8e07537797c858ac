"""A log that ends after any append, as after a loss of power, is opened and reconciled.

An append is there as a whole or not at all. What was lazy may be missing from the end. The intent
of an action that is not pure is on disk before it is executed, so in every log the effect can have
happened only if the start is there.
"""

import asyncio
from collections import Counter

import pytest
from tests.scenarios.agent.places import TIMING, said
from tests.scenarios.agent.test_answers import scripted, turn

from proctor.agent.api import Agents
from proctor.agent.core.view import View
from proctor.agent.driving.loading import replay
from proctor.agent.setup import Setup
from proctor.agent.tools import Answer, Effect, QueryAnswer, Tool, Toolbox, ToolResult
from proctor.store.journal.contract import Event, NewRun, Row
from proctor.store.journal.sqlite import open_sqlite


class Counting(Tool):
    """Its other side is a counter of this test."""

    name = "act"

    def __init__(self, effect, count):
        self.effect, self._count = effect, count

    async def execute(self, op_key, arguments, context):
        if not (self.effect is Effect.IDEMPOTENT and self._count[op_key]):
            self._count[op_key] += 1
        return ToolResult("did it")

    async def query(self, op_key, arguments):
        happened = self._count[op_key] > 0
        return QueryAnswer(Answer.HAPPENED if happened else Answer.DID_NOT_HAPPEN)


def found_in(journal, tool):
    policy = scripted(turn(("act", {})), said)
    return Agents(Setup(journal, policy, Toolbox([tool]), timing=TIMING))


async def whole_log(path, effect):
    journal = open_sqlite(path)
    ends, appended = [1], journal.append

    async def append(*given):
        answer = await appended(*given)
        ends.append(answer.version)
        return answer

    journal.append = append
    agents = found_in(journal, Counting(effect, Counter()))
    run_id = await agents.submit("g")
    view = await agents.drive(run_id)
    assert view.state == "done"
    events = await journal.read_events(run_id)
    await journal.close()
    assert ends == sorted(set(ends))
    assert ends[-1] == len(events)
    return run_id, events, ends


async def copy(journal, run_id, events):
    """A journal whose log ends after these events; the owner that wrote them is gone."""
    made = [Event(e.event_id, e.kind, e.version, e.body, e.at) for e in events]
    await journal.create_run(NewRun(run_id, events[0].at), made[:1])
    view = replay(View(), list(events))
    for _ in range(view.fence):  # the fence is where the log's last owner had it
        lease = await journal.claim(run_id, "dead", 30.0)
    if len(made) > 1:
        action = view.action("a1")
        at = events[0].at
        rows = [] if action is None else [_action_row(action)]
        for attempt in range(1, 1 + (action.attempts if action is not None else 0)):
            values = {"fence": 1, "state": "running", "started_seq": 1, "started_at": at}
            rows.append(Row("attempt", {"action_id": "a1", "number": attempt}, values))
        answer = await journal.append(run_id, 1, lease.fence, made[1:], rows)
        assert answer.version == len(made)
        await journal.release(lease)
    return view


def _action_row(action):
    values = {
        "op_key": action.op_key,
        "tool": "act",
        "effect": action.effect,
        "arguments_digest": "d",
        "state": action.state,
    }
    return Row("action", {"action_id": "a1"}, values)


@pytest.mark.parametrize("effect", list(Effect))
def test_a_log_cut_after_any_append_goes_on(tmp_path, effect):
    async def scenario():
        run_id, events, ends = await whole_log(tmp_path / "whole.sqlite", effect)
        outcomes = Counter()
        for length in ends:
            journal = open_sqlite(tmp_path / f"{length}.sqlite")
            view = await copy(journal, run_id, events[:length])
            action, count = view.action("a1"), Counter()
            started = action is not None and action.attempts > 0
            if started and effect is not Effect.PURE:
                count[action.op_key] = 1  # the worst case: it happened, and nothing was told
            view = await found_in(journal, Counting(effect, count)).drive(run_id)
            action = view.action("a1")
            interrupted = started and "attempt.ended" not in [e.kind for e in events[:length]]
            if effect is Effect.NON_REPEATABLE and interrupted:
                assert (view.state, action.state) == ("waiting", "stopped")
            else:
                assert (view.state, action.state) == ("done", "done")
            if effect is not Effect.PURE:
                assert set(count.values()) == {1}
            outcomes[action.state] += 1
            await journal.close()
        assert sum(outcomes.values()) == len(ends) > 6
        assert outcomes["stopped"] == (1 if effect is Effect.NON_REPEATABLE else 0)

    asyncio.run(scenario())
