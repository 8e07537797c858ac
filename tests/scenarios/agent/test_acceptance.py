"""The acceptance contract, the files, the budgets: what is checked and what is counted."""

import asyncio
import hashlib
import json
from dataclasses import replace
from decimal import Decimal

import pytest
from tests.scenarios.agent.places import TIMING, agents, consistent, said
from tests.scenarios.agent.test_answers import effects, scripted, turn
from tests.scenarios.agent.test_endings import Door, bodies, gate, kinds

from proctor.agent.context import messages
from proctor.agent.core.budgets import Cost, Limits
from proctor.agent.core.locks import Access, Mode
from proctor.agent.policy import Policy, Proposal
from proctor.agent.tools import Cancel, Effect, Tool, ToolResult
from proctor.agent.workspace import FolderWorkspace
from proctor.testing.agenttools import all_tools


class Write(Tool):
    """Writes a file; declares it, or another one."""

    name = "write"
    effect = Effect.IDEMPOTENT

    def __init__(self, root):
        self._root = root

    def resources(self, arguments):
        return (Access(Mode.WRITE, f"ws/{arguments.get('declared', arguments['path'])}"),)

    async def execute(self, op_key, arguments, context):
        (self._root / arguments["path"]).write_text(arguments["text"])
        return ToolResult("written")


class Read(Tool):
    """Runs the tests, so to speak: reads a file and says whether it is good."""

    name = "test"
    effect = Effect.PURE

    def __init__(self, root):
        self._root = root

    def resources(self, arguments):
        return (Access(Mode.READ, "ws"),)

    async def execute(self, op_key, arguments, context):
        good = (self._root / "out").read_text() == "good"
        return ToolResult("tested", {"exit_code": 0 if good else 1})


@pytest.fixture
def root(tmp_path):
    folder = tmp_path / "workspace"
    folder.mkdir()
    return folder


def write(text, path="out", **more):
    return ("write", {"path": path, "text": text, **more})


def here(root, *steps):
    return {
        "policy": scripted(*steps),
        "tools": [Write(root), Read(root)],
        "workspace": FolderWorkspace(root),
    }


GOOD = hashlib.sha256(b"good").hexdigest()


@pytest.mark.parametrize(
    "check",
    [
        {"kind": "file", "path": "out", "sha256": GOOD},
        {"kind": "command", "argv": ["grep", "-q", "good", "out"]},
        {"kind": "action", "tool": "test", "evidence": {"exit_code": 0}},
    ],
)
def test_the_contract_decides_and_not_the_closing_words(place, socket, root, check):
    """The first candidate is wrong; what is not accepted goes back with the reasons."""
    steps = (
        turn(write("bad"), ("test", {})), Proposal("done!"),
        turn(write("good"), ("test", {})), Proposal("really done"),
    )  # fmt: skip

    async def scenario():
        async with agents(place, socket, **here(root, *steps)) as found:
            run_id = await found.submit("g", acceptance=[check])
            view = await found.drive(run_id)
            assert (view.state, view.candidate) == ("done", "really done")
            first, second = await bodies(found, run_id, "run.judged")
            assert (first["accepted"], second["accepted"]) == (False, True)
            conversation = messages(view)
            assert any("not accepted" in m["content"] for m in conversation)

    asyncio.run(scenario())


def test_evidence_that_is_older_than_the_last_write_is_stale(place, socket, root):
    steps = (turn(write("good"), ("test", {})), turn(write("good")), Proposal("done"))

    async def scenario():
        async with agents(place, socket, **here(root, *steps)) as found:
            check = {"kind": "action", "tool": "test"}
            run_id = await found.submit("g", acceptance=[check], max_corrections=0)
            view = await found.drive(run_id)
            assert view.state == "failed"
            assert "stale" in view.aim_reason

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("check", "reason"),
    [
        ({"kind": "file", "path": "../secret"}, "outside"),
        ({"kind": "file", "path": "link"}, "outside"),
        ({"kind": "file", "path": "missing"}, "not a file"),
        ({"kind": "file"}, "cannot be checked"),
        ({"kind": "report", "path": "report.json"}, "failures"),
        ({"kind": "command", "argv": ["false"]}, "exit code 1"),
        ({"kind": "command", "argv": ["echo", "x"], "output_sha256": "0" * 64}, "other output"),
        ({"kind": "command", "argv": ["sleep", "60"], "timeout_s": 0.05}, "timed out"),
        ({"kind": "action", "tool": "never"}, "never executed"),
        ({"kind": "magic"}, "no check"),
    ],
)
def test_a_check_that_does_not_hold_says_why(place, socket, root, check, reason):
    (root.parent / "secret").write_text("x")
    (root / "link").symlink_to(root.parent / "secret")
    (root / "report.json").write_text(json.dumps({"tests": 3, "failures": 1}))

    async def scenario():
        async with agents(place, socket, **here(root, Proposal("done"))) as found:
            run_id = await found.submit("g", acceptance=[check], max_corrections=0)
            view = await found.drive(run_id)
            assert view.state == "failed"
            assert reason in view.aim_reason

    asyncio.run(scenario())


def test_a_reviewer_decides_about_this_candidate(place, socket, root):
    steps = (Proposal("first"), Proposal("second"))

    async def scenario():
        async with agents(place, socket, **here(root, *steps)) as found:
            run_id = await found.submit("g", acceptance=[{"kind": "reviewer", "who": "ann"}])
            view = await found.drive(run_id)
            (wait,) = view.waiting("review")
            assert "first" in wait.prompt
            await found.deny(run_id, wait.id, by="ann", reason="too short")
            view = await found.drive(run_id)
            (wait,) = view.waiting("review")
            assert "second" in wait.prompt
            assert any("reviewer ann: too short" in m["content"] for m in messages(view))
            await found.answer(run_id, wait.id, None, by="ann")
            view = await found.drive(run_id)
            assert (view.state, view.candidate) == ("done", "second")
            assert view.checks[0]["evidence"] == {"by": "ann"}

    asyncio.run(scenario())


def test_files_that_changed_while_nobody_worked_are_a_wait(place, socket, root):
    steps = (turn(write("good")), turn(("ask", {"question": "?"})), turn(write("more", "x")))

    async def scenario():
        setup = here(root, *steps)
        setup["tools"] += [t for t in all_tools(socket) if t.name == "ask"]
        async with agents(place, socket, **setup) as found:
            run_id = await found.submit("g")
            await found.drive(run_id)
        (root / "out").write_text("changed by somebody")
        async with agents(place, socket, **(setup | {"workspace": FolderWorkspace(root)})) as found:
            await found.answer(run_id, "w1", "go")
            view = await found.drive(run_id)
            assert view.state == "waiting"
            assert [m["facts"]["kind"] for m in (await found.show(run_id)).next_moves
                    if m["who"] == "person"] == ["workspace"]  # fmt: skip
            assert "workspace.diverged" in await kinds(found, run_id)
            assert not (root / "x").exists()
            (wait,) = view.waiting("workspace")
            await found.answer(run_id, wait.id, None, by="ann")
            view = await found.drive(run_id)
            assert view.state == "done"
            assert (root / "x").exists()

    asyncio.run(scenario())


def test_a_workspace_that_is_gone_is_a_wait(place, socket, root):
    steps = (turn(("ask", {"question": "?"})), turn(write("good")), Proposal("done"))

    async def scenario():
        setup = here(root, *steps)
        setup["tools"] += [t for t in all_tools(socket) if t.name == "ask"]
        async with agents(place, socket, **setup) as found:
            run_id = await found.submit("g")
            await found.drive(run_id)
            root.rename(root.parent / "elsewhere")
            await found.answer(run_id, "w1", "go")
            view = await found.drive(run_id)
            (wait,) = view.waiting("workspace")
            assert "cannot be read" in wait.spec["found"]
            (root.parent / "elsewhere").rename(root)
            await found.answer(run_id, wait.id, None, by="ann")
            assert (await found.drive(run_id)).state == "done"
            assert (root / "out").read_text() == "good"
            assert (await found.view(run_id)).revision.startswith("sha256:")

    asyncio.run(scenario())


def test_a_write_that_was_not_declared_is_reported(place, socket, root):
    steps = (turn(write("x", "secret", declared="out")), turn(write("y")), said)

    async def scenario():
        async with agents(place, socket, **here(root, *steps)) as found:
            run_id = await found.submit("g")
            await found.drive(run_id)
            (report,) = await bodies(found, run_id, "workspace.undeclared_write")
            assert (report["action"], report["paths"]) == ("a1", ["secret"])
            rows = await found.setup.journal.read_rows("workspace", run_id)
            assert rows[0].values["revision"] == (await found.view(run_id)).revision

    asyncio.run(scenario())


def test_b40_each_call_has_one_truthful_result_and_internal_events_are_not_told(place, socket):
    """c1 has a result, nobody knows about c2, c3 was not started when the run was cancelled."""
    calls = turn(
        ("idempotent", {"path": "a"}),
        ("non_repeatable", {"path": "b", "answer": "lose"}),
        ("ask", {"question": "?"}),
    )

    async def scenario():
        async with agents(place, socket, policy=scripted(calls, said)) as found:
            run_id = await found.submit("g", on_unknown="tell_model")
            await found.drive(run_id)
            await found.suspend(run_id)
            await found.drive(run_id)
            await found.resume(run_id)
            await found.tell(run_id, "and hurry")
            await found.drive(run_id)
            await found.cancel(run_id)
            await found.drive(run_id)
            view = await consistent(found, run_id)
            told = messages(view)
            assert [m["role"] for m in told] == [
                "user",
                "assistant",
                "tool",
                "tool",
                "tool",
                "user",
            ]
            assert [m.get("tool_call_id") for m in told[2:5]] == ["c1", "c2", "c3"]
            assert told[2]["content"] == "effect 1"
            assert "outcome is not known" in told[3]["content"]
            assert told[4]["content"].startswith("Not executed: cancelled")
            assert told[5]["content"] == "and hurry"

    asyncio.run(scenario())


class Paying(Policy):
    """Each turn may cost 0.05 and costs what the list says; then it is done."""

    def __init__(self, costs):
        self._costs = [Decimal(cost) for cost in costs]
        self.asked = 0

    def worst_case(self, messages):
        return Cost(usd=Decimal("0.05"))

    async def propose(self, messages, context):
        self.asked += 1
        done = context.turn == len(self._costs)
        cost = Cost(usd=self._costs[context.turn - 1])
        if cost.usd < 0:
            raise ConnectionError("the reply was lost")
        asked = turn(("pure", {}))
        return Proposal("done", (), cost) if done else Proposal(asked.text, asked.calls, cost)


@pytest.mark.parametrize(
    ("limit", "costs", "state", "asked", "spent"),
    [
        ("0.10", ["0.04", "0.04", "0.04"], "failed", 2, "0.08"),
        ("0.14", ["0.04", "0.04", "0.04"], "done", 3, "0.12"),
        ("0.13", ["0.04", "0.04", "0.04"], "done", 3, "0.12"),
        ("0.12", ["0.07", "0.04", "0.04"], "done", 2, "0.11"),
        ("0.10", ["-1", "0.04"], "done", 2, "0.09"),
    ],
)
def test_b41_money_is_reserved_before_and_settled_after(
    place, socket, limit, costs, state, asked, spent
):
    """Exact decimals; a lost reply has cost its whole reservation; one overshoot by its own
    excess."""
    if limit == "0.12":
        costs = costs[:2]
    policy = Paying(costs)

    async def scenario():
        async with agents(place, socket, policy=lambda task: policy) as found:
            run_id = await found.submit("g", limits=Limits(usd=Decimal(limit)))
            await found.drive(run_id)
            view = await consistent(found, run_id)
            assert (view.state, policy.asked) == (state, asked)
            assert view.budgets.spent.usd == Decimal(spent)
            assert view.budgets.reserved.usd == 0
            if state == "failed":
                assert "does not fit" in view.aim_reason
            rows = await found.setup.journal.read_rows("budget_entry", run_id)
            settled = [r.values["settled"] for r in rows if r.values["settled"] is not None]
            assert sum(settled) == Decimal(spent)
            assert {r.values["state"] for r in rows} == {"settled"}

    asyncio.run(scenario())


def test_b41_a_turn_that_a_crash_cut_off_has_cost_its_reservation(place, worker, socket):
    async def submit():
        async with agents(place, socket) as found:
            return await found.submit("one idempotent", limits=Limits(steps=3))

    async def after(run_id, steps):
        async with agents(place, socket) as found:
            view = await found.drive(run_id)
            assert (view.state, view.budgets.spent.steps) == steps

    run_id = asyncio.run(submit())
    assert worker(place, run_id, "agent.turn.replied", 1) == -9
    asyncio.run(after(run_id, ("done", 3)))
    run_id = asyncio.run(submit())
    assert worker(place, run_id, "agent.turn.replied", 1) == -9
    assert worker(place, run_id, "agent.turn.replied", 1) == -9
    asyncio.run(after(run_id, ("failed", 3)))


def test_tool_time_limits_attempts_and_is_given_back(place, socket):
    async def scenario():
        door = Door()
        tools = [gate(door, cancel=Cancel.NONE, effect=Effect.PURE, timeout_s=60.0)]
        policy = scripted(turn(("gate", {})), turn(("gate", {})), said)
        async with agents(
            place, socket, policy=policy, tools=tools, timing=replace(TIMING, grace_s=0.1)
        ) as found:
            run_id = await found.submit("g", limits=Limits(tool_ms=100))
            view = await found.drive(run_id)
            first, second = view.actions
            assert first.timed_out
            assert (second.state, second.attempts) == ("failed", 0)
            assert view.budgets.spent.tool_ms >= 100

    asyncio.run(scenario())


def test_two_actions_run_together_only_if_their_resources_allow_it(place, socket):
    async def scenario():
        inside, most = 0, []

        async def enter(context):
            nonlocal inside
            inside += 1
            most.append(inside)
            await asyncio.sleep(0)
            inside -= 1

        def resources(self, arguments):
            return [Access(Mode(mode), path) for mode, path in arguments["uses"]]

        tools = [gate(enter, resources=resources, effect=Effect.PURE)]
        for uses, expected in (
            ([["write", "ws/a"], ["write", "ws/b"]], 2),
            ([["read", "ws"], ["read", "ws"]], 2),
            ([["read", "ws"], ["write", "ws/b"]], 1),
            ([["write", ""], ["read", "net"]], 1),
        ):
            most.clear()
            policy = scripted(turn(*(("gate", {"uses": [use]}) for use in uses)), said)
            async with agents(place, socket, policy=policy, tools=tools) as found:
                await found.drive(await found.submit("g"))
                assert max(most) == expected, uses

    asyncio.run(scenario())


def test_effects_of_all_classes_are_counted_by_the_other_side(place, socket):
    names = ("idempotent", "queryable", "non_repeatable")
    policy = scripted(turn(*((name, {}) for name in names)), said)

    async def scenario():
        async with agents(place, socket, policy=policy) as found:
            view = await found.drive(await found.submit("g"))
            assert await effects(socket, view) == {"a1": 1, "a2": 1, "a3": 1}

    asyncio.run(scenario())
