"""The journal's rows of what was reserved and what it came to. Only limited dimensions have them:
the log knows the others."""

from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal

from proctor.agent.core import events as ev
from proctor.agent.core.budgets import DIMENSIONS, NOTHING, UNLIMITED, Cost
from proctor.agent.core.evolve_actions import child_drew
from proctor.agent.core.view import View
from proctor.store.journal.values import Row, Value


def budget_rows(before: View, view: View, events: Sequence[ev.AgentEvent]) -> list[Row]:
    """The rows that these events, from `before` to `view`, change: one for each source and limited
    dimension, `reserved` until it is `settled`."""
    if view.budgets.limits is UNLIMITED:
        return []
    held = dict(before.budgets.open)
    found: list[Row] = []
    for event in events:
        reserved = _reserved(event)
        if reserved is not None:
            source, amount = reserved
            held[source] = amount
            found += _rows(view, source, amount, None)
            continue
        settled = _settled(view, event, held)
        if settled is not None:
            source, amount = settled
            found += _rows(view, source, held.pop(source, NOTHING), amount)
    return found


def _reserved(event: ev.AgentEvent) -> tuple[str, Cost] | None:
    if isinstance(event, ev.TurnRequested):
        return f"t{event.turn}", Cost.from_json(event.reserve)
    if isinstance(event, ev.AttemptStarted):
        return f"{event.action}.{event.attempt}", Cost.from_json(event.reserve)
    if isinstance(event, ev.WaitOpened) and event.wait_kind == "child":
        return event.wait, Cost.from_json(event.spec.get("reserve", {}))
    return None


def _settled(view: View, event: ev.AgentEvent, held: Mapping[str, Cost]) -> tuple[str, Cost] | None:
    """Whose reservation ends, and what it came to: all of it where nobody knows."""
    if isinstance(event, ev.TurnReplied):
        return f"t{event.turn}", Cost.from_json(event.cost)
    if isinstance(event, ev.TurnClosed):
        source = f"t{event.turn}"
        return source, held.get(source, NOTHING) if event.estimated else NOTHING
    if isinstance(event, ev.AttemptEnded) and event.outcome != "lost":
        return f"{event.action}.{event.attempt}", Cost.from_json(event.cost)
    if isinstance(event, ev.ActionSettled) and event.how != "cannot_be_settled":
        open_ = [name for name in held if name.startswith(f"{event.action}.")]
        return (open_[0], held[open_[0]]) if open_ else None
    if isinstance(event, ev.WaitClosed):
        wait = view.wait(event.wait)
        if wait is not None and wait.kind == "child":
            reserved = held.get(wait.id, NOTHING)
            cost = child_drew(event.value, reserved)
            return wait.id, reserved if cost is None else cost
    return None


def _rows(view: View, source: str, held: Cost, settled: Cost | None) -> Iterator[Row]:
    for name in DIMENSIONS:
        reserved = getattr(held, name)
        spent = None if settled is None else getattr(settled, name)
        if getattr(view.budgets.limits, name) is None or not (reserved or spent):
            continue
        values: dict[str, Value] = {"state": "reserved", "reserved": Decimal(reserved)}
        if spent is not None:
            values = {"state": "settled", "reserved": Decimal(0), "settled": Decimal(spent)}
        yield Row("budget_entry", {"source_id": source, "kind": name}, values)
