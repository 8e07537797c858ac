"""What a sandbox costs over the bare start of its program, and what a switch of its network costs.

    python -m bench.sandboxes [--repeats 40] [--json FILE]

CPU times (user + system, of this process and its children) are means over `--repeats` rounds in one
process, after a few that are not counted; a round opens a session, runs `true` in it and closes it.
The bare start is the same bwrap command line, made by `subprocess`. What the kernel does later in
threads of its own (taking a network namespace apart) is in nobody's figure. Rows that need what
this machine lacks are left out.
"""

import argparse
import asyncio
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from bench.figures import Limit, concluded
from bench.measured import circumstances
from proctor.environments.bubblewrap import BubblewrapEnvironment
from proctor.environments.bubblewrap.machine import CLEAN, Machine, machine
from proctor.environments.bubblewrap.system import FOLDERS, SHM, mounts
from proctor.environments.cgroups import available
from proctor.environments.contract import Environment, EnvironmentSpec, Resources
from proctor.environments.local import LocalEnvironment
from proctor.environments.netns.sandbox import problem
from proctor.environments.network import NetworkMode, NetworkPhases, NetworkPolicy

REPEATS = 40
WARM_UP = 5
TOGETHER = 64
SWITCHES = 4
PUBLIC = NetworkPolicy()
NOTHING = NetworkPolicy(NetworkMode.NO_NETWORK)
FIXED = EnvironmentSpec(absolute_paths=True, network=NetworkPhases(NOTHING, NOTHING, NOTHING))
SWITCHED = EnvironmentSpec(absolute_paths=True, network=NetworkPhases(NOTHING, PUBLIC, NOTHING))
BOUNDED = EnvironmentSpec(
    absolute_paths=True, network=FIXED.network, resources=Resources(memory_mb=500, pids=100)
)

Round = Callable[[], Awaitable[None]]


def cpu_s() -> float:
    """CPU seconds of this process and its ended children."""
    used = os.times()
    return used.user + used.system + used.children_user + used.children_system


async def mean_ms(work: Round, repeats: int, clock: Callable[[], float] = cpu_s) -> float:
    """Mean CPU milliseconds of a round; of this process alone with `time.process_time`."""
    for _ in range(WARM_UP):
        await work()
    began = clock()
    for _ in range(repeats):
        await work()
    return (clock() - began) / repeats * 1_000


def rounds(environment: Environment, spec: EnvironmentSpec, switches: int = 0) -> Round:
    """Open, run `true`, switch the network so many times, close."""

    async def work() -> None:
        async with await environment.open(spec, {"run": "bench"}) as session:
            result = await session.exec(["true"])
            assert result.ok, result
            for number in range(switches):
                await session.set_network(NOTHING if number % 2 else PUBLIC)

    return work


def bare(here: Machine, root: str) -> Round:
    """The start of bwrap alone, with the same arguments and a tree that is there."""
    tree = f"{root}/tree"
    for folder in ("", SHM, "tree", *(f"tree/{name}" for name in FOLDERS)):
        path = os.path.join(root, folder)
        os.makedirs(path, exist_ok=True)
        if here.ids is not None:
            os.chown(path, *here.ids)
    words = [*here.command, *here.namespaces, "--unshare-net", *mounts(root, tree, ())]
    argv = [*words, "--", "/bin/sh", "-c", 'exec "$@"', "sh", "true"]

    async def work() -> None:
        subprocess.run(argv, env=CLEAN, check=True)  # noqa: ASYNC221 - what is measured

    return work


async def together(environment: Environment) -> float:
    """Wall seconds until so many sandboxes, all open at the same time, have run and closed."""
    started = time.monotonic()
    sessions = [await environment.open(FIXED, {"run": "bench"}) for _ in range(TOGETHER)]
    results = await asyncio.gather(*(session.exec("echo up; sleep 1") for session in sessions))
    assert all(result.stdout == "up\n" for result in results)
    for session in sessions:
        await session.close()
    return time.monotonic() - started


async def figures(repeats: int) -> list[Limit]:
    """All figures with their limits."""
    plain = rounds(LocalEnvironment(), EnvironmentSpec())
    local = await mean_ms(plain, repeats)
    driver = await mean_ms(plain, repeats, time.process_time)
    found = [
        Limit("local: open, one command, close", local, None, "ms CPU"),
        Limit("… in the driver", driver, 3.0, "ms CPU"),
    ]
    here = machine()
    if isinstance(here, str):
        return found
    environment = BubblewrapEnvironment()
    with tempfile.TemporaryDirectory(prefix="bench-sandbox-") as root:
        start = await mean_ms(bare(here, root), repeats)
    fixed = await mean_ms(rounds(environment, FIXED), repeats)
    found += [
        Limit("bare start of bwrap", start, None, "ms CPU"),
        Limit("bubblewrap: open and close over it", fixed - start, 15.0, "ms CPU"),
    ]
    if not available().reasons:
        bounded = await mean_ms(rounds(environment, BOUNDED), repeats)
        found.append(Limit("… with control groups", bounded - start, 15.0, "ms CPU"))
    if not problem():
        own = await mean_ms(rounds(environment, SWITCHED), repeats)
        switched = await mean_ms(rounds(environment, SWITCHED, SWITCHES), repeats)
        found += [
            Limit("… with a network of its own", own - start, 15.0, "ms CPU"),
            Limit("one switch of the network", (switched - own) / SWITCHES, 6.0, "ms CPU"),
        ]
    found.append(Limit(f"{TOGETHER} open at once, each 1 s of work", await together(environment),
                       None, "s"))  # fmt: skip
    return found


def main() -> int:
    """Print the table; 1 when a limit is not kept."""
    parser = argparse.ArgumentParser(prog="sandboxes", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--repeats", type=int, default=REPEATS)
    parser.add_argument("--json", type=Path, help="also write every figure here")
    args = parser.parse_args()
    found = asyncio.run(figures(args.repeats))
    return concluded(found, circumstances(), args.json)


if __name__ == "__main__":
    sys.exit(main())
