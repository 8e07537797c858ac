"""A worker process: drives one run, and dies at a fault point.

python child.py PLACE SOCKET RUN_ID [POINT HIT]
"""

import asyncio
import json
import sys
from contextlib import nullcontext

from tests.scenarios.agent.places import Place, agents

from proctor.testing.faults import FaultPlan, injected


async def drive(place: Place, socket: str, run_id: str) -> None:
    async with agents(place, socket) as found:
        await found.drive(run_id)


def main() -> None:
    place, socket, run_id, *fault = sys.argv[1:]
    plan = FaultPlan("kill", fault[0], int(fault[1])) if fault else None
    with nullcontext() if plan is None else injected(plan):
        asyncio.run(drive(Place(**json.loads(place)), socket, run_id))


if __name__ == "__main__":
    main()
