"""What a policy proposes, checked before anything is recorded of it. A reply that is none closes
the turn; a call that cannot become an action is refused with a reason that the model is told."""

from collections.abc import Mapping
from typing import Any

from proctor.agent.core import commands as cmd
from proctor.agent.core.budgets import Cost, flaw
from proctor.agent.core.locks import Access
from proctor.agent.driving.seam import (
    accesses,
    call,
    is_given,
    name_problem,
    objection,
    said,
    shown,
)
from proctor.agent.policy import Proposal
from proctor.agent.tools import Tool, Toolbox
from proctor.kernel import jsontext
from proctor.models.contract import ToolCall

CALLS_LIMIT = 10_000
"""Calls of one turn."""


def checked(made: object) -> Proposal | TypeError:
    """The proposal, or why it is none."""
    if not isinstance(made, Proposal):
        return TypeError(f"the policy proposed {type(made).__name__}, not Proposal")
    if type(made.text) is not str:
        return TypeError(f"the proposal's text is {type(made.text).__name__}, not str")
    if type(made.calls) is not tuple:
        return TypeError(f"the proposal's calls are {type(made.calls).__name__}, not a tuple")
    if len(made.calls) > CALLS_LIMIT:
        return TypeError(f"the proposal has {len(made.calls)} calls, more than {CALLS_LIMIT}")
    given: tuple[object, ...] = made.calls
    for one in given:
        if not isinstance(one, ToolCall):
            return TypeError(f"a call of the proposal is {type(one).__name__}, not ToolCall")
    if made.cost is None:
        return made
    problem = cost_problem(made.cost)
    return made if problem is None else TypeError(f"the proposal's cost: {problem}")


def cost_problem(cost: object) -> str | None:
    """Why this is not a cost, or None."""
    return flaw(cost) if isinstance(cost, Cost) else f"{type(cost).__name__} is not Cost"


def proposed_calls(tools: Toolbox, calls: tuple[ToolCall, ...]) -> tuple[cmd.ProposedCall, ...]:
    """The calls of a turn as the rules see them. One whose id is unusable gets another."""
    found = []
    for place, one in enumerate(calls):
        problem = name_problem(one.id)
        if problem is None:
            found.append(proposed(tools, one))
            continue
        name, arguments = shown(one.name, 200), _arguments(one.arguments)
        found.append(cmd.ProposedCall(f"invalid-{place}", name, arguments or {}, problem))
    return tuple(found)


def proposed(tools: Toolbox, one: ToolCall) -> cmd.ProposedCall:
    """A call as the rules see it, with the reason why it cannot become an action, if any."""
    tool = tools.get(one.name) if type(one.name) is str else None
    arguments = _arguments(one.arguments)
    if tool is None:
        name = shown(one.name, 200)
        return cmd.ProposedCall(one.id, name, arguments or {}, f"there is no tool {name!r}")
    if arguments is None:
        return cmd.ProposedCall(one.id, tool.name, {}, "the arguments are not a JSON object")
    problem, resources = _examined(tools, tool, arguments)
    return cmd.ProposedCall(
        one.id,
        tool.name,
        arguments,
        problem,
        tool.version,
        tool.effect.value,
        resources,
        tool.max_attempts,
    )


def _arguments(given: object) -> dict[str, Any] | None:
    """Arguments that are JSON, or None."""
    if not isinstance(given, Mapping):
        return None
    try:
        plain = dict(given)
        if jsontext.is_flat(plain):
            return plain
        arguments: dict[str, Any] = jsontext.sanitized(plain)
        return arguments if arguments == plain else None
    except Exception:  # noqa: BLE001 - somebody else's mapping, which is no JSON object then
        return None


def _examined(
    tools: Toolbox, tool: Tool, arguments: dict[str, Any]
) -> tuple[str | None, tuple[Access, ...]]:
    try:
        problem = tools.misfit(tool, arguments)
        if problem is None and is_given(tool.problem, Tool.problem):
            problem = objection(call(tool.problem, jsontext.copied(arguments)))
        if problem is not None:
            return problem, ()
        return None, accesses(call(tool.resources, jsontext.copied(arguments)))
    except Exception as error:  # noqa: BLE001 - a tool's own check on an agent's arguments
        return f"the arguments cannot be checked: {said(error, 500)}", ()
