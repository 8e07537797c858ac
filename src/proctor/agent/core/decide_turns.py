"""The rules of turns: asking the policy, what it replies, and the actions that become of it."""

from proctor.agent.core import commands as cmd
from proctor.agent.core import events as ev
from proctor.agent.core.budgets import NOTHING, Cost, flaw
from proctor.agent.core.decide_actions import unresolved
from proctor.agent.core.deciding import Decision, op_key, refuse
from proctor.agent.core.view import View


def request_turn(view: View, command: cmd.RequestTurn, now_ms: int) -> Decision:
    """A request to the policy, for which its worst case is reserved."""
    if (refusal := _no_turn(view, command.reserve)) is not None:
        return refusal
    number = len(view.turns) + 1
    return (ev.TurnRequested(number, command.reserve.to_json(), command.assembled),)


def _no_turn(view: View, reserve: Cost) -> cmd.Refusal | None:
    """Why no turn can be asked for now, or None."""
    if view.state != "running":
        return refuse("state", f"the run is {view.state}")
    if view.cancel is not None:
        return refuse("cancelled", "the run was cancelled")
    if view.open_turn is not None:
        return refuse("blocked", f"turn {view.open_turn.number} is open")
    if blockers := unresolved(view):
        return refuse("blocked", "open: " + ", ".join(blockers))
    problem = flaw(reserve) or view.budgets.problem(reserve)
    if problem or (left := view.budgets.exhausted):
        return refuse("budget", problem or f"budget {left} is spent")
    return None


def reply(view: View, command: cmd.Reply, now_ms: int) -> Decision:
    """A reply to the open request, and the actions that become of its calls."""
    turn = view.open_turn
    if turn is None or turn.number != command.turn:
        return refuse("late", f"turn {command.turn} is not open")
    return _taken_up(view, command.turn, command)


def take_turn(view: View, command: cmd.TakeTurn, now_ms: int) -> Decision:
    """A turn that was known without asking: request and reply in one."""
    if (refusal := _no_turn(view, command.reserve)) is not None:
        return refusal
    return _taken_up(view, len(view.turns) + 1, command, command.assembled)


def _taken_up(
    view: View, number: int, said: cmd.Reply | cmd.TakeTurn, assembled: cmd.Json | None = None
) -> Decision:
    """A reply and what it asks for."""
    ids = [call.call_id for call in said.calls]
    if len(set(ids)) != len(ids) or not all(ids):
        return refuse("key", "every call of a turn needs an id of its own")
    calls = tuple(
        [{"call_id": c.call_id, "tool": c.tool, "arguments": c.arguments} for c in said.calls]
    )
    cost = said.cost
    if flaw(cost):  # it cannot be reckoned with: what was reserved counts as spent
        held = view.budgets.open.get(f"t{number}", NOTHING)
        cost = said.reserve if isinstance(said, cmd.TakeTurn) else held
    spent = cost.to_json()
    events: list[ev.AgentEvent] = [ev.TurnReplied(number, said.text, calls, spent, assembled or {})]
    closed = view.cancel is not None or view.state == "finishing"
    count = len(view.actions)
    for call in said.calls:
        problem = "the run was ended before it could be executed" if closed else call.problem
        if problem is not None:
            events.append(ev.CallRefused(number, call.call_id, call.tool, problem))
            continue
        count += 1
        events.append(_accepted(view, call, f"a{count}", number))
    return tuple(events)


def _accepted(
    view: View, call: cmd.ProposedCall, action: str, turn: int, compensates: str | None = None
) -> ev.ActionAccepted:
    return ev.ActionAccepted(
        action,
        turn,
        call.call_id,
        call.tool,
        call.tool_version,
        call.effect,
        op_key(view.run_id, action, call.tool, call.arguments),
        tuple([(str(access.mode), access.path) for access in call.resources]),
        call.max_attempts,
        compensates,
        None if compensates is None else call.arguments,
    )


def compensate(view: View, command: cmd.Compensate, now_ms: int) -> Decision:
    """An action that undoes a finished one, once."""
    action = view.action(command.action)
    if view.state != "finishing" or action is None or action.effects != "done":
        return refuse("state", f"{command.action} is nothing to compensate")
    if any(other.compensates == action.id for other in view.actions):
        return refuse("state", f"{action.id} is compensated already")
    if command.call.problem is not None:
        return refuse("state", command.call.problem)
    number = f"a{len(view.actions) + 1}"
    return (_accepted(view, command.call, number, 0, action.id),)


def close_turn(view: View, command: cmd.CloseTurn, now_ms: int) -> Decision:
    """No reply will come."""
    turn = view.open_turn
    if turn is None or turn.number != command.turn:
        return refuse("late", f"turn {command.turn} is not open")
    return (ev.TurnClosed(command.turn, command.reason, command.estimated, command.abandoned),)
