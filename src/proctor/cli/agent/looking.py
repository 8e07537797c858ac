"""`proctor agent list` and `proctor agent show`."""

import asyncio
import os
import shlex
from collections.abc import AsyncIterator, Iterator, Mapping
from datetime import datetime
from typing import Any

from proctor.agent.control import Control
from proctor.agent.core.showing import next_moves
from proctor.agent.core.view import View
from proctor.cli.agent.place import one, opened
from proctor.cli.output import emit, one_line, say
from proctor.cli.text import counted
from proctor.kernel import jsontext
from proctor.kernel.agent_states import RUN, RUN_STATES
from proctor.store.journal.contract import Access, RunFilter, RunRow, StoredEvent
from proctor.store.leases import is_dead

_LIST = "{:28}  {:10}  {:8}  {:12}  {}"
_LINE = 110

_WAYS = {
    "approval": ("approve", "deny"),
    "review": ("approve", "deny"),
    "workspace": ("approve",),
    "input": ("answer VALUE",),
    "statement": ("answer --happened", "answer --did-not-happen"),
}
"""How a person meets a wait: a command, and what follows the names of the run and the wait."""


def list_runs(where: str | None, every: bool, limit: int, as_json: bool) -> int:
    """The newest `limit` runs, oldest first; those that have ended only with `every`."""
    found = asyncio.run(_listed(where, every, limit))
    if as_json:
        emit({"runs": [document(view, row) for view, row in found]})
        return 0
    if not found:
        say("no agent runs" if every else "no agent run is open (--all lists those that ended)")
        return 0
    say(_LIST.format("RUN", "STATE", "EVENTS", "NEXT", "GOAL"))
    for view, row in found:
        movers = sorted({str(move["who"]) for move in next_moves(view)})
        shown = (one_line(row.run_id), view.state, str(view.version), ",".join(movers) or "-")
        say(_cut(_LIST.format(*shown, one_line(_goal(view)))))
    return 0


async def _listed(where: str | None, every: bool, limit: int) -> list[tuple[View, RunRow]]:
    states = None if every else tuple(s for s in RUN_STATES if not RUN.is_final(s))
    async with opened(where, Access.READ) as control:
        rows: list[RunRow] = []
        after: str | None = None
        while page := await control.journal.runs(RunFilter(states), after=after):
            after = page[-1].run_id
            rows += page
        rows.sort(key=lambda row: (row.created_at, row.run_id))
        return [(await control.view(row.run_id), row) for row in rows[-limit:]]


def show(run: str, where: str | None, log: bool, follow: bool, as_json: bool) -> int:
    """A run; its events too with `log`; with `follow` as they come, until it has ended."""
    return asyncio.run(_show(run, where, log, follow, as_json))


async def _show(run: str, where: str | None, log: bool, follow: bool, as_json: bool) -> int:
    async with opened(where, Access.READ) as control:
        if follow:
            await one(control, run)
            async for event in control.watch(run):
                say(_cut(event_line(event)))
        view, row = await one(control, run)
        events = [event async for event in _log(control, run, view.version)] if log else []
        if as_json:
            shown = document(view, row)
            emit(shown | {"events": [_event(event) for event in events]} if log else shown)
            return 0
        for event in events if not follow else ():
            say(_cut(event_line(event)))
        for line in lines(view, row, control.clock.now(), where):
            say(line)
    return 0


async def _log(control: Control, run: str, last: int) -> AsyncIterator[StoredEvent]:
    """The events up to `last`: more may come while we read."""
    after = 0
    while after < last:
        page = await control.journal.read_events(run, after, min(500, last - after))
        if not page:
            return
        for event in page:
            after = event.seq
            yield event


def document(view: View, row: RunRow) -> dict[str, Any]:
    """A run as JSON."""
    return {
        "run_id": row.run_id,
        "state": view.state,
        "reason": view.aim_reason,
        "task": dict(view.task),
        "version": view.version,
        "owner": row.owner,
        "lease_until": None if row.lease_until is None else row.lease_until.isoformat(),
        "created_at": row.created_at.isoformat(),
        "parent_run_id": row.parent_run_id,
        "candidate": view.candidate,
        "checks": [dict(check) for check in view.checks],
        "actions": _counts(view),
        "budgets": {
            "limits": view.budgets.limits.to_json(),
            "spent": view.budgets.spent.to_json(),
            "reserved": view.budgets.reserved.to_json(),
        },
        "unsettled": [dict(item) for item in view.unsettled],
        "next_moves": [dict(move) for move in next_moves(view)],
    }


def _event(event: StoredEvent) -> dict[str, Any]:
    return {"seq": event.seq, "at": event.at.isoformat(), "kind": event.kind,
            "fence": event.fence, "body": event.body}  # fmt: skip


def _counts(view: View) -> dict[str, int]:
    counts: dict[str, int] = {}
    for action in view.actions:
        counts[action.state] = counts.get(action.state, 0) + 1
    return counts


def lines(view: View, row: RunRow, now: datetime, where: str | None) -> Iterator[str]:
    """A run for people. `where`: the journal as it was named, for the commands that are shown."""
    again = "" if where in (None, os.environ.get("PROCTOR_JOURNAL")) else _again(where or "")
    reason = f" ({one_line(view.aim_reason)})" if view.aim_reason else ""
    yield f"{one_line(row.run_id)}: {view.state}{reason}, {counted(view.version, 'event')}"
    yield _cut(f"  goal    {one_line(_goal(view))}")
    yield f"  driven  {_driver(row, now)}"
    counts = ", ".join(f"{number} {state}" for state, number in _counts(view).items())
    yield f"  actions {counts or 'none yet'}"
    spent = view.budgets.spent.to_json()
    if spent:
        yield f"  spent   {one_line(jsontext.dumps(spent))}"
    if view.candidate is not None:
        yield _cut(f"  result  {one_line(view.candidate)}")
    for check in view.checks:
        said = "accepted" if check.get("accepted") else f"not accepted: {check.get('reason', '')}"
        yield _cut(f"  check   {one_line(jsontext.dumps(check.get('check')))}: {one_line(said)}")
    for item in view.unsettled:
        yield _cut(f"  unsettled {one_line(jsontext.dumps(item))}")
    moves = next_moves(view)
    if moves:
        yield "who moves next:"
    for move in moves:
        yield from _move(row.run_id, move, again)


def _again(where: str) -> str:
    """The option that names the journal again; an address may hold a password."""
    return " --journal " + ("…" if "://" in where else shlex.quote(where))


def _goal(view: View) -> str:
    return str(view.task.get("goal", ""))


def _driver(row: RunRow, now: datetime) -> str:
    if row.owner is None:
        return "by nobody"
    left = 0.0 if row.lease_until is None else (row.lease_until - now).total_seconds()
    if is_dead(row.owner):
        return f"by {one_line(row.owner)}, which is dead: any worker may take it over"
    if left <= 0:
        return f"by {one_line(row.owner)}, silent: any worker may take it over"
    return f"by {one_line(row.owner)}"


def _move(run_id: str, move: Mapping[str, Any], again: str) -> Iterator[str]:
    facts = move["facts"]
    yield f"  {one_line(str(move['what'])):6} {move['who']} {one_line(str(move['does']))}"
    if facts.get("reason"):
        yield _cut(f"         {one_line(str(facts['reason']))}")
    if facts.get("prompt"):
        yield _cut(f"         {one_line(str(facts['prompt']))}")
    if facts.get("tool"):
        call = f"{facts['tool']} {jsontext.dumps(facts.get('arguments'))}"
        yield _cut(f"         {one_line(call)}: {facts['state']}, {facts['effect']}, "
                   f"{counted(facts['attempts'], 'attempt')}")  # fmt: skip
    if facts.get("known"):
        yield _cut(f"         known: {one_line(jsontext.dumps(facts['known']))}")
    if move["what"] == "run" and str(move["does"]).endswith("resumes the run"):
        yield f"         {one_line(f'proctor agent resume {shlex.quote(run_id)}{again}')}"
    for way in _WAYS.get(facts.get("kind", ""), ()):
        verb, _, rest = way.partition(" ")
        words = ("proctor agent", verb, shlex.quote(run_id), str(move["what"]), rest + again)
        yield f"         {one_line(' '.join(words))}".rstrip()


def event_line(event: StoredEvent) -> str:
    """One event in one line."""
    at = event.at.strftime("%Y-%m-%d %H:%M:%S")
    return f"{event.seq:6}  {at}  {event.kind:22}  {one_line(jsontext.dumps(event.body))}"


def _cut(line: str) -> str:
    return line if len(line) <= _LINE else line[: _LINE - 1] + "…"
