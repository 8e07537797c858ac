"""Journals that outlive a process, named so that a child process can open them too."""

import json
import secrets
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass

from proctor.agent.api import Agents
from proctor.agent.context import messages
from proctor.agent.policy import Proposal, ScriptedPolicy
from proctor.agent.setup import Setup, Timing
from proctor.agent.tools import Toolbox
from proctor.models.contract import ToolCall
from proctor.testing.agenttools import all_tools
from proctor.testing.agenttools_at_once import at_once_tools

TIMING = Timing(
    grace_s=1.0,
    query_pause_s=0.02,
    query_deadline_s=5.0,
    cancel_s=5.0,
    late_s=0.5,
    poll_s=0.05,
    retry_s=0.02,
)


@dataclass(frozen=True)
class Place:
    """`sqlite`: a file; `postgresql`: a schema of a database."""

    kind: str
    where: str
    schema: str = ""

    def open(self, clock=None):
        if self.kind == "sqlite":
            from proctor.store.journal.sqlite import open_sqlite

            return open_sqlite(self.where, clock=clock)
        from proctor.store.journal.postgresql import open_postgresql

        return open_postgresql(self.where, schema=self.schema, clock=clock)

    def text(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def new(cls, kind, tmp_path, url):
        if kind == "sqlite":
            return cls(kind, str(tmp_path / "journal.sqlite"))
        return cls(kind, url, f"agent_{secrets.token_hex(6)}")


class Asked(ScriptedPolicy):
    """Is awaited like a model: its request is in the log before it is asked."""

    def at_once(self, messages, context):
        return None


def script_of(name: str, effect: str):
    """The policy of a scenario; the same in every process."""
    if name in ("one", "quick"):  # one call, then the end; its result is kept as a blob
        policy = Asked if name == "one" else ScriptedPolicy
        return policy([Proposal("", (ToolCall("c1", effect, {"padding": 20_000}),))])
    if name in ("one_now", "quick_now"):  # the same with a tool that waits for nothing
        policy = Asked if name == "one_now" else ScriptedPolicy
        return policy([Proposal("", (ToolCall("c1", f"{effect}_at_once", {"padding": 20_000}),))])
    if name == "ask":
        calls = (
            ToolCall("c1", effect, {"path": "x"}),
            ToolCall("c2", "ask", {"question": "which?"}),
            ToolCall("c3", "pure", {"path": "y"}),
        )
        return ScriptedPolicy([Proposal("", calls), said])
    if name == "process":
        return ScriptedPolicy(
            [Proposal("", (ToolCall("c1", "process", {"argv": effect.split("|")}),))]
        )
    if name == "mixed":
        calls = (
            ToolCall("c1", "idempotent", {"path": "a"}),
            ToolCall("c2", "queryable", {"path": "b"}),
            ToolCall("c3", "subtask", {"goal": f"one {effect}"}),
            ToolCall("c4", "pure", {"path": "c"}),
        )
        more = (ToolCall("c1", "non_repeatable", {"path": "a"}),)
        return ScriptedPolicy([Proposal("", calls), Proposal("", more), said])
    assert name == "subtask"
    return ScriptedPolicy([Proposal("", (ToolCall("c1", "subtask", {"goal": f"ask {effect}"}),))])


def said(conversation):
    return Proposal("|".join(m["content"] for m in conversation if m["role"] == "tool"))


def setup(journal, socket: str, **more) -> Setup:
    """A goal is `<script> <effect>`."""
    more.setdefault("timing", TIMING)
    tools = more.pop("tools", None) or [*all_tools(socket), *at_once_tools(socket)]
    policy = more.pop("policy", None) or (lambda task: script_of(*task["goal"].split()))
    return Setup(journal, policy, Toolbox(tools), **more)


@asynccontextmanager
async def agents(place: Place, socket: str, **more):
    """Agents on this place for the time of the block."""
    journal = place.open(more.get("clock"))
    try:
        yield Agents(setup(journal, socket, **more))
    finally:
        await journal.close()


async def appended(found: Agents, run_id: str):
    """Drive a run: its view, and the kinds of events of each append."""
    journal, appends = found.setup.journal, []
    append = journal.append

    async def kept(run, version, fence, events, *rest):
        appends.append([event.kind for event in events])
        return await append(run, version, fence, events, *rest)

    journal.append = kept
    await found.drive(run_id)
    return await consistent(found, run_id), appends


async def consistent(found: Agents, run_id: str):
    """The rows say what the log says, and every call has exactly one result; the view."""
    view = await found.view(run_id)
    journal = found.setup.journal
    row = await journal.run_row(run_id)
    assert (row.state, row.version) == (view.state, view.version)
    rows = {r.key["action_id"]: r.values for r in await journal.read_rows("action", run_id)}
    assert {a.id: a.state for a in view.actions} == {k: v["state"] for k, v in rows.items()}
    assert {a.op_key for a in view.actions} == {v["op_key"] for v in rows.values()}
    waits = {r.key["wait_id"]: r.values["state"] for r in await journal.read_rows("wait", run_id)}
    assert waits == {w.id: w.state for w in view.waits}
    conversation = messages(view)
    asked = [c["id"] for m in conversation for c in m.get("tool_calls", ())]
    assert [m["tool_call_id"] for m in conversation if m["role"] == "tool"] == asked
    return view
