"""B16: what dies in the middle ends its attempt at once and stalls nobody."""

import asyncio
import shutil
import signal
import subprocess
import sys

import pytest
from tests.scenarios.launches.process import request_file, rooms_request, timed_end
from tests.scenarios.runtime.plugins import Agent, Answers
from tests.scenarios.runtime.runs import Outcome, request

import proctor
from proctor.evals.contracts import TaskSpec
from proctor.kernel.errors import AgentFault

FIVE = [TaskSpec(f"t{n}", "?", "yes") for n in range(1, 6)]


class Five(Answers):
    given = FIVE


def test_b16_a_sandbox_that_vanishes_is_an_environment_error_and_starts_anew(tmp_path):
    """The provider takes t2's sandbox away in the middle of its first try; t3's worker process
    is killed without a message."""
    calls: list[str] = []

    class Working(Agent):
        async def act(self, session, task, context):
            calls.append(f"{context.task_id} model")  # one turn of a model, say
            await session.exec(["true"])
            if context.task_id == "t2" and calls.count("t2 model") == 1:
                shutil.rmtree(session._root)
            if context.task_id == "t3":
                return await self.in_worker()
            done = await session.exec(["echo", "yes"])
            calls.append(f"{context.task_id} model")  # the next turn needs the answer
            return done.stdout.strip()

        async def in_worker(self):
            child = await asyncio.create_subprocess_exec(
                sys.executable, "-c", "import os; os.kill(os.getpid(), 9)",
                stdout=asyncio.subprocess.PIPE,
            )  # fmt: skip
            out, _ = await child.communicate()
            if child.returncode:
                raise AgentFault(f"the worker process ended by {child.returncode}")
            return out.decode()

    settings = request(
        tmp_path, Five, Working, concurrency=2, max_retries=1, retry_backoff_s=0.0,
        retry_pattern_list=["gone|vanished|no longer"],
    )  # fmt: skip
    outcome = Outcome(asyncio.run(asyncio.wait_for(proctor.arun(settings), 60)))
    report = outcome.report
    assert (report.counts.normal, report.counts.fatal) == (4, 1)
    assert outcome.record("t2")["retry_count"] == 1
    [dropped] = outcome.dropped("t2")
    assert (dropped["issue"]["cause"], dropped["scope"]) == ("environment", "attempt")
    assert dropped["issue"]["code"] == "environment_gone"
    assert calls.count("t2 model") == 3  # one before it was gone, two in the new sandbox
    assert outcome.record("t2")["metrics"] == {"right": True}
    assert outcome.record("t3")["metrics"] == {}
    assert "ended by -9" in outcome.record("t3")["error"]
    assert outcome.state("t3") == "fatal"
    assert all(outcome.record(f"t{n}")["metrics"] == {"right": True} for n in (1, 4, 5))


@pytest.mark.slow
def test_b16_one_signal_ends_children_that_ignore_sigterm(tmp_path, events, start):
    held = rooms_request(tmp_path, tasks=5, harness={"deaf": True})
    file = request_file(tmp_path, held, task_concurrency=2)
    process = start("run", file, "--json", events=events, hold="run")
    events.until("run")
    events.until("run")
    process.signal(signal.SIGINT)
    ended = timed_end(process, 3.0)
    assert ended.code == 130
    [run] = ended.document["runs"]
    assert run["counts"]["interrupted"] == 2  # no new task has started
    assert process.left_behind() == []


@pytest.mark.slow
def test_b16_a_second_signal_ends_a_blocked_driver_and_the_run_goes_on_later(
    tmp_path, events, start
):
    """One task is done; then a harness blocks the event loop in plain code and ignores all."""
    made = rooms_request(tmp_path, tasks=2, harness={"loop": True})
    file = request_file(tmp_path, made, task_concurrency=1)
    process = start("run", file, events=events, hold="run t2")
    events.until("run t2")
    process.signal(signal.SIGINT)
    with pytest.raises(subprocess.TimeoutExpired):
        process.end(3.0)  # the first one cannot be heeded: the loop is blocked
    process.signal(signal.SIGINT)
    ended = timed_end(process, 1.0)
    assert ended.code == 130
    [run_dir] = (tmp_path / "results").glob("*/*/*/*")
    assert proctor.load(run_dir).status == "dead"
    again = start("resume", str(run_dir), "--json").end()
    assert again.code == 0
    [run] = again.document["runs"]
    assert (run["counts"]["attempts"], run["counts"]["reused_attempts"]) == (2, 1)
