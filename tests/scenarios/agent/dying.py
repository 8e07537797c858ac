"""A worker process that its run kills.

    python -m tests.scenarios.agent.dying PLACE SOCKET FOLDER drive RUN_ID
    python -m tests.scenarios.agent.dying PLACE SOCKET FOLDER serve

The first word of a goal says what kills: `factory`, `policy`, `asked`, `tool`, `tool_at_once`,
`each_turn` (once at each turn; FOLDER remembers which), `late` (after a while),
`charge` (when it is undone), `none`.
`serve` ends when every run has ended or is suspended.
"""

import asyncio
import json
import os
import signal
import sys
from dataclasses import replace
from pathlib import Path

from tests.scenarios.agent.places import TIMING, Place, agents

from proctor.agent.policy import Policy, Proposal, ScriptedPolicy
from proctor.agent.tools import Effect, Tool, ToolResult
from proctor.models.contract import ToolCall

TURNS = 6
LATE_S, LONG_S = 0.1, 0.5  # an innocent step never ends before the one that kills


def die(how=signal.SIGKILL):
    os.kill(os.getpid(), how)


class Deadly(Tool):
    """Ends its process in the middle of an execution."""

    name, effect, max_attempts = "deadly", Effect.PURE, 100

    def resources(self, arguments):
        return ()

    def at_once(self, op_key, arguments, context):
        if arguments["at_once"]:
            os._exit(9)

    async def execute(self, op_key, arguments, context):
        os._exit(9)


class Harmless(Deadly):
    """The same tool, mended."""

    def at_once(self, op_key, arguments, context):
        return ToolResult("mended")


class Long(Tool):
    name, effect, max_attempts = "long", Effect.PURE, 100

    def resources(self, arguments):
        return ()

    async def execute(self, op_key, arguments, context):
        await asyncio.sleep(LONG_S)
        return ToolResult("long")


class Charge(Tool):
    """Kills whoever asks how it is undone."""

    name, effect = "charge", Effect.NON_REPEATABLE

    def at_once(self, op_key, arguments, context):
        return ToolResult("charged")

    async def execute(self, op_key, arguments, context):
        raise AssertionError

    def compensate(self, arguments, result):
        die()


class Killing(Policy):
    """Kills when it is asked for its turn."""

    def __init__(self, goal, folder):
        self._goal, self._folder = goal, folder

    def at_once(self, messages, context):
        if self._goal == "policy":
            die()
        if self._goal != "each_turn":
            return None
        done = sum(message["role"] == "assistant" for message in messages)
        seen = Path(self._folder, f"{context.run_id}.{done}")
        if not seen.exists():
            seen.touch()
            die()
        if done == TURNS:
            return Proposal("done")
        return Proposal("", (ToolCall(f"c{done}", "idempotent", {"n": done}),))

    async def propose(self, messages, context):
        await asyncio.sleep(LATE_S if self._goal == "late" else 0)
        os._exit(9)


def policy_of(folder):
    def policy(task):
        goal = task["goal"].split()[0]
        if goal == "factory":
            die()
        if goal in ("tool", "tool_at_once"):
            call = ToolCall("c1", "deadly", {"at_once": goal == "tool_at_once"})
            return ScriptedPolicy([Proposal("", (call,))])
        if goal == "charge":
            calls = (ToolCall("c1", "charge", {}), ToolCall("c2", "ask", {"question": "which?"}))
            return ScriptedPolicy([Proposal("", calls)])
        if goal == "none":
            return ScriptedPolicy([Proposal("", (ToolCall("c1", "long", {}),))])
        return Killing(goal, folder)

    return policy


async def serve(found):
    stop = asyncio.Event()
    worker = asyncio.create_task(found.serve(stop))
    while not worker.done():
        rows = await found.setup.journal.runs()
        if all(row.state in ("done", "suspended") and row.owner is None for row in rows):
            break
        await asyncio.sleep(0.05)
    stop.set()
    await worker


async def work(place, socket, folder, what, *run_id):
    from proctor.testing.agenttools import all_tools

    timing = replace(TIMING, lease_ttl_s=0.5)
    more = {"policy": policy_of(folder), "timing": timing}
    tools = [Deadly(), Long(), Charge(), *all_tools(socket)]
    async with agents(place, socket, tools=tools, **more) as found:
        await (serve(found) if what == "serve" else found.drive(*run_id))


def main():
    place, socket, folder, *what = sys.argv[1:]
    asyncio.run(work(Place(**json.loads(place)), socket, folder, *what))


if __name__ == "__main__":
    main()
