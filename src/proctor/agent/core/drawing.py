"""What a subtask may spend: it draws from its parent, never beside it."""

from collections.abc import Mapping
from typing import Any

from proctor.agent.core.budgets import DIMENSIONS, Budgets, Cost, Limits, flaw
from proctor.agent.core.commands import Refusal
from proctor.agent.core.view import View


def drawn(budgets: Budgets, spec: Mapping[str, Any]) -> dict[str, Any] | Refusal:
    """The wait for a subtask with what it may spend: what was asked for, and where nothing was,
    all that its parent has left. That much is reserved in the parent until the subtask has ended.

    Refused as `budget` when it does not fit or nothing is left, as `invalid` when the limits are
    no amounts.
    """
    try:
        asked = Limits.from_json(spec.get("limits") or {})
    except (TypeError, ValueError, ArithmeticError, AttributeError):
        return Refusal("invalid", "the limits of the subtask are not amounts")
    if problem := flaw(asked):
        return Refusal("invalid", f"the limits of the subtask: {problem}")
    left, given = budgets.left, {}
    for name in DIMENSIONS:
        rest, wish = getattr(left, name), getattr(asked, name)
        if name != "tool_ms" and rest is not None and rest <= 0:
            return Refusal("budget", f"budget {name}: nothing is left for a subtask")
        given[name] = (rest and max(rest, 0)) if wish is None else wish
    reserve = Cost(**{name: value or 0 for name, value in given.items() if name != "usd"},
                   usd=given["usd"] or Cost().usd)  # fmt: skip
    if problem := budgets.problem(reserve):
        return Refusal("budget", problem)
    return {**spec, "limits": Limits(**given).to_json(), "reserve": reserve.to_json()}


def comes_back(view: View) -> bool:
    """Whether something reserved may be given back without a person: then what does not fit now is
    not denied for good. An action that is stopped keeps its reservation."""
    kept = {action.source for action in view.unfinished("stopped")}
    return any(source not in kept for source in view.budgets.open)
