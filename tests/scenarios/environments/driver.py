"""A driver with sandboxes open, for tests that kill it: `driver.py PROVIDER busy|living`.

`busy` opens, uses, switches and closes sandboxes for ever and says each step on standard output;
`living` holds some, and runs a command in each for every line of standard input.
"""

import asyncio
import itertools
import sys

from tests.scenarios.environments.providers import NOTHING, PUBLIC, Provider

from proctor.environments.contract import Resources

LABELS = {"run": "killed", "attempt": "1"}
WISHES = Resources(memory_mb=500, pids=100)
LINGER = "setsid sleep 86399 > /dev/null 2>&1 & sleep 86399 & echo up"


async def busy(provider: Provider, number: int) -> None:
    environment = provider.environment()
    spec = provider.spec(PUBLIC, NOTHING, PUBLIC, resources=WISHES)
    for turn in itertools.count(1):
        say(f"open {number}.{turn}")
        session = await environment.open(spec, LABELS)
        say("write")
        await session.write("file", b"x" * 100_000)
        waiting = asyncio.create_task(session.exec("sleep 86399; true"))
        say("exec")
        await session.exec(LINGER, timeout_s=60)
        if provider.name != "local":
            say("switch")
            await session.set_network(NOTHING)
            await session.set_network(PUBLIC)
        say("close")
        await session.close()
        await asyncio.gather(waiting, return_exceptions=True)


async def living(provider: Provider) -> None:
    environment = provider.environment()
    spec = provider.spec(PUBLIC, NOTHING, PUBLIC, resources=WISHES)
    sessions = [await environment.open(spec, LABELS) for _ in range(2)]
    try:
        running = [asyncio.create_task(s.exec("touch up; sleep 86398; true")) for s in sessions]
        for session in sessions:
            await session.exec("until [ -e up ]; do :; done", timeout_s=60)
        say("ready")
        while await asyncio.to_thread(sys.stdin.readline):
            results = [await session.exec("cat up && echo fine") for session in sessions]
            idle = not any(task.done() for task in running)
            say("fine" if idle and all(r.stdout == "fine\n" for r in results) else f"{results}")
        for session in sessions:
            await session.kill_processes()
        await asyncio.gather(*running, return_exceptions=True)
    finally:
        for session in sessions:
            await session.close()


def say(line: str) -> None:
    print(line, flush=True)


async def main(name: str, kind: str) -> None:
    provider = Provider(name)
    if kind == "living":
        await living(provider)
    else:
        await asyncio.gather(*(busy(provider, number) for number in range(3)))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
