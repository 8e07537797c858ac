"""Stopping process groups, gently first, and knowing whether they are gone."""

import os
import signal
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from proctor.environments import proctable, tracking
from proctor.kernel.clock import Clock

LADDER = (signal.SIGINT, signal.SIGTERM, signal.SIGKILL)
GRACE_S = 2.0
"""Seconds for each step of the ladder."""
_LOOK_S = 0.02


async def stop_groups(
    groups: Iterable[int],
    clock: Clock,
    grace_s: float = GRACE_S,
    ladder: Sequence[signal.Signals] = LADDER,
    control_group: str = "",
) -> tuple[bool, tuple[str, ...]]:
    """Signal the groups up the ladder until nobody is left: (confirmed, means). The last step is
    their control group, if there is one: what has left the process groups is killed (`cgroup`).
    """
    left = {group for group in groups if group > 1}
    means: list[str] = []
    for number in ladder:
        left = {group for group in left if proctable.live_members(group)}
        if not left:
            break
        means.append(number.name)
        for group in left:
            _signal(group, number)
        deadline = clock.monotonic() + grace_s
        while any(proctable.live_members(group) for group in left):
            if clock.monotonic() >= deadline:
                break
            await clock.sleep(_LOOK_S)
    confirmed = not any(proctable.live_members(group) for group in left)
    if control_group:
        means += ["cgroup"] * bool(tracking.members(control_group))
        gone = await tracking.end(control_group, grace_s)
        confirmed = gone and (confirmed or not any(map(proctable.live_members, left)))
    return confirmed, tuple(means)


def _signal(group: int, number: signal.Signals) -> None:
    try:
        os.killpg(group, number)
    except (ProcessLookupError, PermissionError):  # gone, or another user's by now
        return


def still_ours(process: Mapping[str, Any]) -> bool:
    """Whether a recorded group is the one that was started, not a later one of the same number."""
    if process["boot_id"] != proctable.boot_id():
        return False
    pgid = int(process["pgid"])
    ticks = proctable.start_ticks(pgid)
    # A leader that is gone leaves its group number taken as long as a member lives.
    return ticks == process["start_ticks"] or (ticks is None and bool(proctable.live_members(pgid)))


def control_groups(processes: Iterable[Mapping[str, Any]]) -> set[str]:
    """The control groups that a log names, if they are of this boot and of this program."""
    named = [p.get("control_group") for p in processes if p["boot_id"] == proctable.boot_id()]
    return {str(folder) for folder in named if tracking.is_group(folder)}
