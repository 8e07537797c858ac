"""A view as JSON and back, so that opening a long run does not read its whole log.

A snapshot saves a position; the log stays the truth. `SHAPE` names the classes as they are now: a
snapshot of another shape is not used.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from operator import attrgetter
from typing import Any

from proctor.agent.core.budgets import Budgets, Cost, Limits
from proctor.agent.core.locks import MODES, Access
from proctor.agent.core.sequence import Sequence32
from proctor.agent.core.view import ActionView, CancelView, TurnView, View, WaitView
from proctor.agent.driving.packing import packed, unpacked
from proctor.kernel.digest import of_json
from proctor.store.journal.contract import Journal, Snapshot


def is_due(version: int, last: int, *, leaving: bool) -> bool:
    """Whether a snapshot is worth its cost: they come in steps that grow with the log, so that all
    of them together cost no more than the log itself; more often when the run is left."""
    least, part = (200, 32) if leaving else (1000, 4)
    return version - last >= max(least, version // part)


_PLAIN = (
    "run_id", "version", "state", "task", "config_digest", "epoch", "on_unknown", "parent",
    "owner", "fence", "last_ms", "candidate", "corrections", "max_corrections", "aim",
    "aim_reason", "closing_ms", "trouble", "grants",
    "revision", "deaths",
)  # fmt: skip
_TUPLES = ("checks", "unsettled", "open_actions", "open_waits")


_ACTION, _WAIT, _TURN, _CANCEL = (
    c.__struct_fields__ for c in (ActionView, WaitView, TurnView, CancelView)
)
_RESOURCES, _MET, _PROCESSES = (_ACTION.index(n) for n in ("resources", "met", "processes"))
_CALLS, _OUTCOMES = _TURN.index("calls"), _TURN.index("outcomes")
SHAPE = of_json(
    [3, View.__struct_fields__, Budgets.__struct_fields__, _ACTION, _WAIT, _TURN, _CANCEL]
)


def to_json(view: View) -> dict[str, Any]:
    """The whole view."""
    body: dict[str, Any] = {name: getattr(view, name) for name in (*_PLAIN, *_TUPLES)}
    body["actions"] = packed(view.actions, _action)
    body["waits"] = [_values(wait, _WAIT) for wait in view.waits]
    body["turns"] = packed(view.turns, partial(_turn, view))
    body["items"] = list(view.items)
    body["cancel"] = None if view.cancel is None else _values(view.cancel, _CANCEL)
    budgets = view.budgets
    body["budgets"] = {
        "limits": budgets.limits.to_json(),
        "spent": budgets.spent.to_json(),
        "open": {name: cost.to_json() for name, cost in budgets.open.items()},
    }
    return body


def from_json(body: Mapping[str, Any]) -> View:
    """The view of `to_json`. Raises LookupError, TypeError or ValueError for anything else."""
    given: dict[str, Any] = {name: body[name] for name in _PLAIN}
    given |= {name: tuple(body[name]) for name in _TUPLES}
    actions = given["actions"] = unpacked(body["actions"], _to_action)
    given["waits"] = Sequence32.of([WaitView(*values) for values in body["waits"]])
    given["turns"] = unpacked(body["turns"], partial(_to_turn, actions))
    given["items"] = Sequence32.of([_to_item(kind, value) for kind, value in body["items"]])
    given["cancel"] = None if body["cancel"] is None else CancelView(*body["cancel"])
    budgets = body["budgets"]
    held = {name: Cost.from_json(cost) for name, cost in budgets["open"].items()}
    given["budgets"] = Budgets(
        Limits.from_json(budgets["limits"]),
        Cost.from_json(budgets["spent"]),
        sum(held.values(), Cost()),
        held,
    )
    return View(**given)


def _values(value: Any, names: Sequence[str]) -> list[Any]:
    return list(attrgetter(*names)(value))


def _action(action: ActionView) -> list[Any]:
    values = _values(action, _ACTION)
    values[_RESOURCES] = [[str(access.mode), access.path] for access in action.resources]
    return values


def _to_action(values: list[Any]) -> ActionView:
    values[_RESOURCES] = tuple([_access(mode, path) for mode, path in values[_RESOURCES]])
    values[_MET] = tuple(values[_MET])
    values[_PROCESSES] = tuple(values[_PROCESSES])
    return ActionView(*values)


def _access(mode: str, path: str) -> Access:
    return Access(MODES[mode], path)


def _turn(view: View, turn: TurnView) -> list[Any]:
    """A turn; the arguments of a call that became an action are those of the action."""
    values = _values(turn, _TURN)
    values[_CALLS] = [_call(view, turn, call) for call in turn.calls]
    return values


def _call(view: View, turn: TurnView, call: Mapping[str, Any]) -> Any:
    kind, name = turn.outcomes.get(call["call_id"], ("", ""))
    action = view.action(name) if kind == "action" else None
    if action is None or call["tool"] != action.tool or call["arguments"] != action.arguments:
        return call
    return int(name[1:]) - 1


def _to_turn(actions: Sequence32[ActionView], values: list[Any]) -> TurnView:
    values[_CALLS] = tuple(
        [_to_call(actions[c]) if isinstance(c, int) else c for c in values[_CALLS]]
    )
    values[_OUTCOMES] = {name: tuple(pair) for name, pair in values[_OUTCOMES].items()}
    return TurnView(*values)


def _to_call(action: ActionView) -> dict[str, Any]:
    return {"call_id": action.call_id, "tool": action.tool, "arguments": action.arguments}


def _to_item(kind: str, value: Any) -> tuple[str, Any]:
    return kind, tuple(value) if isinstance(value, list) else value


async def load_snapshot(journal: Journal, run_id: str) -> View | None:
    """The newest usable snapshot's view, or None: then the log is read from its beginning."""
    try:
        found = await journal.load_snapshot(run_id, version=SHAPE)
        if found is None:
            return None
        view = from_json(found.body)
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError):
        return None  # a damaged text too: the log is the truth
    return view if (view.version, view.run_id) == (found.seq, run_id) else None


async def keep_snapshot(journal: Journal, view: View, fence: int) -> bool:
    """Keep the view; whether the journal took it."""
    return await journal.save_snapshot(
        view.run_id, fence, Snapshot(view.version, SHAPE, to_json(view))
    )
