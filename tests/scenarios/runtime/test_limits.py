"""Limits of every phase: what is cut off, what is kept, whose time counts."""

import asyncio
import threading
import time
from pathlib import Path

import pytest
from tests.scenarios.runtime.plugins import Agent, Answers, recording, tasks
from tests.scenarios.runtime.runs import Outcome, request, resume, run, within

import proctor
from proctor.evals.contracts import Evaluation, HarnessSession, RunResult
from proctor.kernel.errors import (
    AgentFault,
)
from proctor.testing.clock import FakeClock


def test_an_open_that_never_returns_ends_at_its_limit_and_frees_its_slot(tmp_path):
    base = recording()

    class Hangs(base):
        async def open_session(self, spec, labels):
            if labels["task"] == "t1":
                await asyncio.Event().wait()
            return await super().open_session(spec, labels)

    class Two(Answers):
        given = tasks("a", "b")

    wanted = request(
        tmp_path, Two, Agent, Hangs,
        concurrency=1, open_timeout_s=0.1, max_retries=1, retry_backoff_s=0,
    )  # fmt: skip
    outcome = Outcome(within(30, lambda: proctor.arun(wanted)))
    assert outcome.codes("t1") == ["fatal open environment open_timeout"]
    assert outcome.record("t1")["retry_count"] == 1
    assert outcome.state("t2") == "normal"
    assert outcome.record("t1")["usage"]["phases_s"]["open"] >= 0.1


def test_an_environment_that_cannot_end_the_agents_processes_is_blamed_and_nothing_is_graded(
    tmp_path,
):
    base = recording()
    graded = []

    class Hangs(base):
        async def open_session(self, spec, labels):
            session = await super().open_session(spec, labels)
            if labels["task"] == "t1":
                session.kill_processes = asyncio.Event().wait
            return session

    class Two(Answers):
        given = tasks("a", "b")

        async def evaluate(self, prepared, result, session):
            graded.append(prepared.task.id)
            return await super().evaluate(prepared, result, session)

    wanted = request(
        tmp_path, Two, Agent, Hangs, concurrency=1, open_timeout_s=0.5, evaluation_mode="reuse"
    )
    outcome = Outcome(within(30, lambda: proctor.arun(wanted)))
    assert outcome.codes("t1") == ["fatal evaluate environment unkillable"]
    assert outcome.state("t2") == "normal"
    assert graded == ["t2"]


class Slow(HarnessSession):
    def __init__(self, answer):
        self.answer = answer

    async def run(self):
        await asyncio.Event().wait()

    def partial(self):
        return RunResult(final_answer=self.answer)


def test_an_agent_is_cut_off_at_its_limit_and_what_is_known_is_graded(tmp_path):
    told = []

    class Tested(Agent):
        async def start(self, session, task, context):
            told.append(context.deadline_s)
            return Slow(task.task.target)

    wanted = request(tmp_path, Answers, Tested, attempt_timeout_s=0.1)
    outcome = Outcome(within(30, lambda: proctor.arun(wanted)))
    record = outcome.record()
    assert told == [0.1]
    assert outcome.codes() == ["error run agent agent_timeout"]
    assert (record["status"], record["metrics"]) == ("run_error", {"right": True})
    assert record["error"] == "the agent reached its time limit"
    assert outcome.state() == "error"
    assert outcome.report.exit_code == 0  # measured, although it was slow


def test_the_command_agent_keeps_its_output_at_the_limit(tmp_path):
    wanted = request(tmp_path, Answers, "command", attempt_timeout_s=0.3)
    wanted["harness"] = {"id": "command", "command": "printf a; sleep 60"}
    outcome = Outcome(within(60, lambda: proctor.arun(wanted)))
    assert outcome.codes() == ["error run agent agent_timeout"]
    assert outcome.record()["metrics"] == {"right": True}


def test_a_task_may_have_limits_of_its_own_and_the_request_goes_before(tmp_path):
    seen = []

    class Own(Answers):
        given = tasks("a", agent_timeout_s=7.0)

    class Tested(Agent):
        async def act(self, session, task, context):
            seen.append(context.deadline_s)
            return "a"

    run(tmp_path / "own", Own, Tested)
    run(tmp_path / "request", Own, Tested, attempt_timeout_s=9.0)
    run(tmp_path / "off", Own, Tested, attempt_timeout_s=0)
    assert seen == [7.0, 9.0, None]


def test_queue_time_is_no_working_time(tmp_path):
    """Five tasks through one worker, each well within a limit that their sum exceeds."""

    class Five(Answers):
        given = tasks(*"abcde")

    class Tested(Agent):
        async def act(self, session, task, context):
            await session.exec("sleep 0.25")
            return task.task.target

    outcome = run(tmp_path, Five, Tested, concurrency=1, attempt_timeout_s=1.0)
    assert outcome.report.counts.normal == 5
    assert outcome.report.metrics.primary.value == 1.0


@pytest.mark.parametrize("plain", [False, True])
def test_an_evaluation_that_hangs_ends_at_its_limit(tmp_path, plain):
    release = threading.Event()

    class Waits(Answers):
        async def evaluate(self, prepared, result, session):
            await asyncio.Event().wait()

    class Blocks(Answers):
        def evaluate(self, prepared, result, session):
            release.wait(60)
            return Evaluation(metrics={"right": True})

    wanted = request(tmp_path, Blocks if plain else Waits, evaluation_timeout_s=0.2)
    outcome = Outcome(within(30, lambda: proctor.arun(wanted)))
    release.set()
    assert outcome.codes() == ["error evaluate evaluator evaluate_timeout"]
    record = outcome.record()
    assert (record["status"], record["metrics"]) == ("eval_error", {})
    assert outcome.report.metrics.primary_series.unavailable == 1
    assert outcome.report.exit_code == 1


def test_hung_synchronous_evaluations_free_their_slots_and_their_late_effects_are_ignored(tmp_path):
    """B19: ten hung evaluations and two normal tasks, two at a time."""
    release, late = threading.Event(), threading.Barrier(11)
    threads_before = threading.active_count()

    class Hangs(Answers):
        given = tasks(*["a"] * 12)

        def evaluate(self, prepared, result, session):
            if int(prepared.id[1:]) <= 10:
                directory = next(tmp_path.glob(f"results/*/*/*/*/details/running/{prepared.id}--*"))
                release.wait(120)
                self.write_late(directory)
                late.wait(120)
            return Evaluation(metrics={"right": True})

        @staticmethod
        def write_late(directory: Path):
            try:
                (directory / "late").write_text("late")
            except FileNotFoundError:
                pass  # the task has moved on

    wanted = request(tmp_path, Hangs, concurrency=2, evaluation_timeout_s=0.2)
    began = time.monotonic()
    outcome = Outcome(within(60, lambda: proctor.arun(wanted)))
    assert time.monotonic() - began < 60
    states = {f"t{n}": outcome.state(f"t{n}") for n in range(1, 13)}
    assert set(list(states.values())[:10]) == {"error"}
    assert (states["t11"], states["t12"]) == ("normal", "normal")
    assert outcome.report.abandoned_threads == 10
    assert "10 blocking calls overran" in (outcome.run_dir / "summary.md").read_text("utf-8")
    before = {path: path.read_bytes() for path in outcome.run_dir.rglob("*") if path.is_file()}
    release.set()
    late.wait(30)
    after = {path: path.read_bytes() for path in outcome.run_dir.rglob("*") if path.is_file()}
    assert after == before
    for thread in threading.enumerate():
        if thread.name.startswith("proctor-the evaluation"):
            thread.join(30)
    assert threading.active_count() <= threads_before + 1
    Hangs.evaluate = Answers.evaluate
    assert resume(outcome.run_dir).report.metrics.primary.value == 1.0


def test_an_agent_cannot_leave_artifacts_after_its_time(tmp_path):
    """Code that outlives its limit in a thread must not write into the next try."""
    release, refused = threading.Event(), threading.Event()
    tries, messages = [], []

    class Tested(Agent):
        async def act(self, session, task, context):
            tries.append(1)
            if len(tries) == 1:
                threading.Thread(target=self.late, args=(context,)).start()
                raise AgentFault("once")
            release.set()
            await asyncio.to_thread(refused.wait, 60)
            return "a"

        def late(self, context):
            release.wait(60)
            try:
                context.artifact_path("late.txt").write_text("late")
            except RuntimeError as error:
                messages.append(str(error))
            refused.set()

    outcome = run(tmp_path, Answers, Tested, max_retries=1, retry_backoff_s=0)
    assert messages == ["too late for artifact 'late.txt': this attempt is over"]
    assert outcome.record()["artifacts"] == []
    assert list(tmp_path.rglob("late.txt")) == []


def test_the_limit_of_the_run_ends_it_as_timed_out(tmp_path):
    clock = FakeClock()

    class Two(Answers):
        given = tasks("a", "b")

    class Tested(Agent):
        async def act(self, session, task, context):
            if task.id == "t2":
                await asyncio.Event().wait()
            return "a"

    wanted = request(tmp_path, Two, Tested, timeout_s=1.0, grace_s=5.0)
    outcome = Outcome(within(60, lambda: proctor.arun(wanted, clock=clock)))
    report = outcome.report
    assert (report.status, report.exit_code) == ("timed_out", 3)
    assert report.error == "the run reached its limit of 1 s"
    assert (report.counts.normal, report.counts.interrupted) == (1, 1)
    assert set(outcome.records) == {("t1", 1)}
    series = report.metrics.primary_series
    assert (series.evaluated, series.unavailable, series.total) == (1, 1, 2)
    assert proctor.load(outcome.run_dir).status == "timed_out"
