"""`proctor env list` and `proctor env reap`."""

import asyncio
from collections import Counter
from typing import Any

from proctor.cli.output import emit, one_line, say
from proctor.cli.text import counted
from proctor.environments.reaping import reaper
from proctor.environments.reaping.leftovers import Leftover, Source, State
from proctor.evals import registry

FAILED = 1
_ROW = "{:7}  {:13}  {:10}  {:>8}  {:24}  {}"


def list_owned(as_json: bool) -> int:
    """Everything that drivers own on this machine; exit 1 when somebody did not answer."""
    found, problems = asyncio.run(_found())
    if as_json:
        emit({"owned": [item.to_json() for item in found], "problems": problems})
    else:
        _table(found)
    _complain(problems)
    return FAILED if problems else 0


def reap(kept: bool, dry_run: bool, as_json: bool) -> int:
    """Remove what belongs to dead drivers; exit 1 when something could not be removed."""
    outcome = asyncio.run(_reaped(kept, dry_run))
    if as_json:
        removed = [item.to_json() for item in outcome.removed]
        emit({"dry_run": dry_run, "removed": removed, "problems": outcome.problems})
    else:
        _summary(outcome.removed, dry_run)
    _complain(outcome.problems)
    return FAILED if outcome.problems else 0


async def _found() -> tuple[list[Leftover], list[str]]:
    sources, problems = _sources()
    found, unanswered = await reaper.list_owned(sources)
    return found, problems + unanswered


async def _reaped(kept: bool, dry_run: bool) -> reaper.Reaped:
    sources, problems = _sources()
    outcome = await reaper.reap(sources, kept=kept, dry_run=dry_run)
    outcome.problems[:0] = problems
    return outcome


def _sources() -> tuple[list[Source], list[str]]:
    """What the registered providers know; a broken plug-in never hides the others."""
    sources: list[Source] = []
    problems = []
    for listing in registry.listings("environments"):
        if listing.status == "broken":
            problems.append(f"environment {listing.id} cannot be asked: {listing.reason}")
        if listing.status != "available":
            continue
        try:
            source = registry.load("environments", listing.id)().owned()
        except Exception as error:  # noqa: BLE001 - a plug-in may raise anything
            problems.append(f"environment {listing.id} cannot be asked: {error}")
            continue
        if source is not None:
            sources.append(source)
    return sources, problems


def _table(found: list[Leftover]) -> None:
    if not found:
        say("nothing of proctor is on this machine")
        return
    say(_ROW.format("OWNER", "KIND", "PROVIDER", "PID", "RUN", "NAME"))
    for item in sorted(found, key=lambda item: (item.state.value, item.name, item.kind)):
        state = "kept" if item.spared and item.state is not State.ALIVE else item.state.value
        run = one_line(str(item.labels.get("run", "")))
        pid = "" if item.owner is None else str(item.owner.pid)
        shown = (state, item.kind, one_line(item.provider), pid, run, one_line(item.name))
        say(_ROW.format(*shown).rstrip())


def _summary(removed: list[Leftover], dry_run: bool) -> None:
    counts = Counter(item.kind for item in removed)
    parts = [counted_kind(kind, number) for kind, number in sorted(counts.items())]
    what = ", ".join(parts) or "nothing"
    say(f"would remove {what}" if dry_run else f"removed {what}")
    for item in removed:
        say(f"  {item.kind} {one_line(item.name)}")


def counted_kind(kind: str, number: int) -> str:
    """`1 process`, `2 processes`."""
    if kind == "process" and number != 1:
        return f"{number} processes"
    return counted(number, kind)


def _complain(problems: list[Any]) -> None:
    for problem in problems:
        say(f"proctor: {one_line(str(problem))}", error=True)
