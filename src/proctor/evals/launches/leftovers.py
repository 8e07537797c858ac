"""What dead drivers left on this machine goes before a launch opens environments of its own."""

import asyncio
from collections.abc import Iterable

from proctor.environments.contract import Environment

LIMIT_S = 20.0
"""The longest that a launch waits for it. What is left then goes with the next one."""


async def clear_leftovers(environments: Iterable[Environment]) -> list[str]:
    """Remove what belongs to dead drivers; returns notes about what could not be removed.

    Costs a look at one folder where nothing is left. A provider whose things lie elsewhere is
    asked when the launch uses it.
    """
    from proctor.environments.reaping.reaper import reap, something_is_left

    by_kind = {environment.id: environment for environment in environments}
    sources = [s for environment in by_kind.values() if (s := environment.owned()) is not None]
    if not sources and not something_is_left():
        return []
    try:
        async with asyncio.timeout(LIMIT_S):
            outcome = await reap(sources)
    except TimeoutError:
        return [f"leftovers of dead runs were not all removed within {LIMIT_S:g} s"]
    return [f"a leftover of a dead run stays: {problem}" for problem in outcome.problems]
