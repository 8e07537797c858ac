"""A worker process: drives one run, and at a fault point dies or freezes.

    python -m tests.scenarios.agent.child PLACE SOCKET RUN_ID [kill|stop POINT|any HIT]

A frozen worker is woken by SIGCONT; its lease lasts a second. Exit code 3: the run was lost.
"""

import asyncio
import json
import os
import signal
import sys
from dataclasses import replace

from tests.scenarios.agent.places import TIMING, Place, agents

from proctor.agent.driving.recorder import LostRun
from proctor.kernel import faults
from proctor.testing.faults import FaultPlan, Injector


class Freezer:
    """Stops this process at one hit of a point."""

    def __init__(self, point: str, hit: int) -> None:
        self._point, self._left = point, hit

    def __call__(self, name: str) -> None:
        if name == self._point:
            self._left -= 1
            if not self._left:
                os.kill(os.getpid(), signal.SIGSTOP)


async def drive(place: Place, socket: str, run_id: str, timing) -> None:
    async with agents(place, socket, timing=timing) as found:
        await found.drive(run_id)


def main() -> None:
    place, socket, run_id, *fault = sys.argv[1:]
    timing = TIMING
    if fault:
        deed, point, hit = fault
        if deed == "kill":
            at = None if point == "any" else point
            faults.install(Injector(FaultPlan("kill", at, int(hit))))
        else:
            timing = replace(TIMING, lease_ttl_s=1.0)
            faults.install(Freezer(point, int(hit)))
    try:
        asyncio.run(drive(Place(**json.loads(place)), socket, run_id, timing))
    except LostRun:
        sys.exit(3)


if __name__ == "__main__":
    main()
