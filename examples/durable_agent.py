"""An agent that is killed in the middle of an effect: start it again, and it does not repeat it.

python examples/durable_agent.py [JOURNAL]
"""

import asyncio
import os
import signal
import sys
from pathlib import Path

from proctor.agent.api import Agents
from proctor.agent.policy import Proposal, ScriptedPolicy
from proctor.agent.setup import Setup
from proctor.agent.tools import Effect, Tool, Toolbox, ToolResult
from proctor.models.contract import ToolCall
from proctor.store.journal.sqlite import open_sqlite

LETTER = ToolCall("c1", "send", {"text": "Dear Ada, ..."})


class Send(Tool):
    """Sends a letter. Nobody can take it back, or be asked whether it was sent."""

    name, effect = "send", Effect.NON_REPEATABLE

    def __init__(self, outbox: Path) -> None:
        self.outbox = outbox

    async def execute(self, op_key, arguments, context):
        with self.outbox.open("a") as stream:
            stream.write(arguments["text"] + "\n")
        os.kill(os.getpid(), signal.SIGKILL)  # the result never gets into the journal
        return ToolResult("sent")

    def sent(self):
        return self.outbox.read_text().splitlines()


async def main(path: str = "letters.sqlite") -> None:
    journal, send = open_sqlite(path), Send(Path(f"{path}.outbox"))
    script = [Proposal("", (LETTER,)), lambda messages: Proposal(messages[-1]["content"])]
    agents = Agents(Setup(journal, lambda task: ScriptedPolicy(script), Toolbox([send])))
    run_id = await agents.submit("Write to Ada.", run_id="letter")  # there already: the same run
    view = await agents.drive(run_id)
    for wait in view.waiting("statement"):
        print(wait.prompt, "| outbox:", send.sent())
        await agents.state(run_id, wait.id, happened=True, text="It is in the outbox.")
        view = await agents.drive(run_id)
    print(view.state, "|", view.candidate, "| letters:", len(send.sent()))
    await journal.close()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
