"""DBOS: see bench/durable/work.py. VARIANT for `effect`: `keyed` passes a key of its own to the
other side, as its guide advises for steps with effects; `plain` does not.

Its default settings; each workflow is started by `DBOS.start_workflow`.
"""

# mypy: disable-error-code="import-not-found, misc, untyped-decorator"

import os
from typing import Any

os.environ["DBOS_TELEMETRY_DISABLED"] = "1"

from dbos import DBOS, SetWorkflowID

from bench.durable import work

SOCKET = "BENCH_SOCKET"


@DBOS.step()
def act(number: int) -> str:
    """A step."""
    return work.result(number)


@DBOS.workflow()
def loop(count: int) -> int:
    """As many steps, one after the other."""
    return len([act(number) for number in range(count)])


@DBOS.step()
def pay(variant: str) -> int:
    """A step with an effect outside."""
    count = work.effect(os.environ[SOCKET], f"dbos-{variant}", once=variant == "keyed")
    work.die_once()
    return count


@DBOS.workflow()
def paying(variant: str) -> int:
    """One step."""
    count: int = pay(variant)
    return count


def launch(place: str) -> None:
    """Recovers what an earlier process of this application left."""
    url = "sqlite:///dbos.sqlite" if place == "sqlite" else place
    DBOS(config={"name": "bench", "system_database_url": url, "log_level": "ERROR"})
    DBOS.launch()


def steps(place: str, variant: str, runs: int, count: int) -> dict[str, Any]:
    """All workflows at once."""
    launch(place)
    measured = work.Measured(runs, count)
    handles = [DBOS.start_workflow(loop, count) for _ in range(runs)]
    done = [handle.get_result() for handle in handles]
    costs = measured.end()
    DBOS.destroy()
    if done != [count] * runs:
        raise SystemExit(f"the workflows did {done} steps")
    return costs


def one_effect(place: str, variant: str, socket: str) -> str:
    """The second time `launch` recovers the workflow."""
    os.environ[SOCKET] = socket
    recovering = work.recovering()
    launch(place)
    if recovering:
        handle = DBOS.retrieve_workflow(f"pay-{variant}")
    else:
        with SetWorkflowID(f"pay-{variant}"):
            handle = DBOS.start_workflow(paying, variant)
    handle.get_result()
    DBOS.destroy()
    return "done"


if __name__ == "__main__":
    work.main(steps, one_effect)
