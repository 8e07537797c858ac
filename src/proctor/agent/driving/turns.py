"""Asking the policy, and taking up what it proposes."""

from proctor.agent.context import Told, assembled
from proctor.agent.core import commands as cmd
from proctor.agent.core.budgets import ONE_STEP, Cost
from proctor.agent.core.commands import Refusal
from proctor.agent.core.view import View
from proctor.agent.driving.desk import Desk
from proctor.agent.driving.proposals import checked, cost_problem, proposed_calls
from proctor.agent.driving.seam import awaited, call, is_given, said
from proctor.agent.policy import Policy, Proposal, TurnContext
from proctor.kernel.faults import fault_point


def final_text(view: View) -> str | None:
    """The candidate that the last turn gave and nobody has taken up yet, or None."""
    last = view.turns.last
    if last is None:
        return None
    said_last = view.items.last == ("turn", last.number)
    return last.text if said_last and last.state == "replied" and not last.calls else None


def failed_turns(view: View) -> int:
    """How many of the last turns, without a break, had no reply. That a worker was lost, or left,
    while it asked says nothing about the policy."""
    count = 0
    for index in range(len(view.turns) - 1, -1, -1):
        turn = view.turns[index]
        if turn.state != "closed":
            break
        count += not turn.abandoned
    return count


async def next_turn(desk: Desk) -> bool:
    """Take up the candidate, or ask for another turn; whether anything was done."""
    view = desk.view
    text = view.candidate if view.candidate is not None else final_text(view)
    if text is not None:
        return not isinstance(desk.recorder.apply(cmd.GiveCandidate(text)), Refusal)
    if failed_turns(view) >= desk.setup.max_failed_turns:
        reason = view.turns[len(view.turns) - 1].reason
        desk.recorder.must(cmd.Close("failed", f"no reply: {reason}"))
        return True
    given = desk.conversation.of(view)
    try:
        reserve = _worst_case(desk.policy, given)
        if problem := cost_problem(reserve):
            raise ValueError(f"its worst case: {problem}")
    except Exception as error:  # noqa: BLE001 - somebody else's code: the run ends, saying so
        desk.recorder.must(cmd.Close("failed", f"the policy failed: {said(error)}"))
        return True
    reserve = _at_least_a_step(reserve)
    left = view.budgets.left.steps
    left = None if left is None else left - reserve.steps
    context = TurnContext(view.run_id, len(view.turns) + 1, left, given.replies)
    known = _at_once(desk, given, context)
    if isinstance(known, Proposal):
        return _take(desk, reserve, given, known)
    if not _asked_for(desk, cmd.RequestTurn(reserve, assembled(view, given))):
        return desk.view is not view
    if known is not None:
        take_up(desk, context.turn, known)
        return True
    await desk.recorder.flush()
    fault_point("agent.turn.requested")
    desk.turn = desk.spawn(_ask(desk, given, context))
    return True


def _asked_for(desk: Desk, command: cmd.RequestTurn) -> bool:
    """Whether the turn is recorded; a run without the budget for it ends."""
    answer = desk.recorder.apply(command)
    if not isinstance(answer, Refusal):
        return True
    if answer.code == "budget":
        desk.recorder.must(cmd.Close("failed", answer.reason))
    return False


def _take(desk: Desk, reserve: Cost, given: Told, known: Proposal) -> bool:
    """Record a turn that is known at once; whether anything was done."""
    view = desk.view
    fault_point("agent.turn.replied")
    calls = proposed_calls(desk.setup.tools, known.calls)
    cost = _at_least_a_step(reserve if known.cost is None else known.cost)
    record = assembled(view, given)
    answer = desk.recorder.apply(cmd.TakeTurn(reserve, record, known.text, calls, cost))
    if isinstance(answer, Refusal) and answer.code == "key":
        if _asked_for(desk, cmd.RequestTurn(reserve, record)):
            desk.recorder.must(cmd.CloseTurn(len(desk.view.turns), answer.reason))
    elif isinstance(answer, Refusal) and answer.code == "budget":
        desk.recorder.must(cmd.Close("failed", answer.reason))
    return desk.view is not view


def _at_least_a_step(cost: Cost) -> Cost:
    return cost if cost.steps else cost + ONE_STEP


def _worst_case(policy: Policy, given: Told) -> Cost:
    """What a turn costs at most, by the policy's word."""
    worst_case = policy.worst_case
    return call(worst_case, given.messages) if is_given(worst_case, Policy.worst_case) else ONE_STEP


def _at_once(desk: Desk, given: Told, context: TurnContext) -> Proposal | BaseException | None:
    try:
        at_once = desk.policy.at_once
        made = call(at_once, given, context) if is_given(at_once, Policy.at_once) else None
    except Exception as error:  # noqa: BLE001 - recorded as the turn's end
        return error
    return None if made is None else checked(made)


async def _ask(desk: Desk, given: Told, context: TurnContext) -> None:
    found: Proposal | BaseException
    try:
        found = checked(await awaited(desk.policy.propose, given.messages, context))
    except Exception as error:  # noqa: BLE001 - recorded as the turn's end
        found = error
    desk.replies.append((context.turn, found))
    desk.wake()


def take_up(desk: Desk, number: int, found: Proposal | BaseException) -> None:
    """Record a reply and what it asks for."""
    desk.turn = None
    if isinstance(found, BaseException):
        desk.recorder.apply(cmd.CloseTurn(number, said(found)))
        return
    fault_point("agent.turn.replied")
    calls = proposed_calls(desk.setup.tools, found.calls)
    cost = found.cost
    if cost is None:
        cost = desk.view.budgets.open.get(f"t{number}", ONE_STEP)
    answer = desk.recorder.apply(cmd.Reply(number, found.text, calls, _at_least_a_step(cost)))
    if isinstance(answer, Refusal) and answer.code == "key":
        desk.recorder.apply(cmd.CloseTurn(number, answer.reason))
