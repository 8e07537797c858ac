"""Lists what drivers own and removes what dead ones left. Nothing of a living one is touched."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from proctor.environments import proctable
from proctor.environments.owner import owner_in_name
from proctor.environments.reaping.host import Folders, Groups, Processes, folder_names
from proctor.environments.reaping.leftovers import Leftover, Source, State
from proctor.kernel.errors import EnvironmentFault

_MOST_PASSES = 20


@dataclass(slots=True)
class Reaped:
    """What was removed (or would be), and what could not be listed or removed, and why."""

    removed: list[Leftover] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


async def list_owned(sources: Iterable[Source] = ()) -> tuple[list[Leftover], list[str]]:
    """Everything that drivers own, living and dead; and which sources did not answer."""
    found: list[Leftover] = []
    problems: list[str] = []
    for source in _ordered(sources):
        found += await _listed(source, problems)
    return found, problems


async def reap(
    sources: Iterable[Source] = (), *, kept: bool = False, dry_run: bool = False
) -> Reaped:
    """Remove what belongs to dead drivers. `kept`: also what is labelled `kept` or `resumable`.

    `sources` are those of providers, besides this host's processes, groups and folders. What one
    thing raises never stops the rest.
    """
    outcome = Reaped()
    for source in _ordered(sources):
        passes = 1 if dry_run else _MOST_PASSES
        while passes and await _reap_once(source, outcome, kept=kept, dry_run=dry_run):
            passes -= 1
    return outcome


async def _reap_once(source: Source, outcome: Reaped, *, kept: bool, dry_run: bool) -> bool:
    """Whether something was removed: then there may be more by now, such as what a process that
    is gone had just started."""
    progress = False
    for item in await _listed(source, outcome.problems):
        if item.state is not State.DEAD or (item.spared and not kept):
            continue
        try:
            if not dry_run:
                await source.remove(item)
        except (EnvironmentFault, OSError) as error:
            problem = f"{item.kind} {item.name}: {error}"
            if problem not in outcome.problems:
                outcome.problems.append(problem)
        else:
            outcome.removed.append(item)
            progress = True
    return progress


def something_is_left() -> bool:
    """Whether a driver that seems dead left a folder: a quick look, for the start of a run."""
    owners = {owner_in_name(name) for name in folder_names()}
    return any(o is not None and proctable.start_ticks(o[0]) != o[1] for o in owners)


def _ordered(sources: Iterable[Source]) -> list[Source]:
    return sorted([Processes(), Groups(), Folders(), *sources], key=lambda source: source.rank)


async def _listed(source: Source, problems: list[str]) -> list[Leftover]:
    try:
        return await source.list_owned()
    except (EnvironmentFault, OSError) as error:
        if str(error) not in problems:
            problems.append(str(error))
        return []
