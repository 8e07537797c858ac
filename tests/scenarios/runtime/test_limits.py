"""Limits of every phase, and whose fault a failure is: told by where it was raised."""

import asyncio
import shutil
import threading
import time
from pathlib import Path

import pytest
from tests.scenarios.runtime.plugins import Agent, Answers, recording, tasks
from tests.scenarios.runtime.runs import Outcome, request, resume, run, within

import proctor
from proctor.environments.local import LocalEnvironment
from proctor.evals.contracts import Evaluation, HarnessSession, PreparedTask, RunResult
from proctor.kernel.errors import (
    AgentFault,
    BenchmarkFault,
    EnvironmentFault,
    EvaluatorFault,
    ModelFault,
)
from proctor.testing.clock import FakeClock

# --- limits


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


# --- whose fault


PHASES = {
    "open": ("fatal", "environment"),
    "prepare": ("fatal", "benchmark"),
    "start": ("fatal", "agent"),
    "run": ("fatal", "agent"),
    "collect": ("fatal", "benchmark"),
    "evaluate": ("error", "evaluator"),
}
"""Severity and cause of an exception that says nothing about its origin."""


def raising(phase: str, error: BaseException):
    def at(name):
        if name == phase:
            raise error

    class Place(LocalEnvironment):
        async def open_session(self, spec, labels):
            at("open")
            return await super().open_session(spec, labels)

    class Graded(Answers):
        async def prepare_task(self, task, session, plan):
            at("prepare")
            return PreparedTask(task, task.input)

        async def collect_artifacts(self, prepared, result, session, context):
            at("collect")
            return result

        async def evaluate(self, prepared, result, session):
            at("evaluate")
            return Evaluation(metrics={"right": True})

    class Tested(Agent):
        async def start(self, session, task, context):
            at("start")
            return await super().start(session, task, context)

        async def act(self, session, task, context):
            at("run")
            return "a"

    return Graded, Tested, Place


@pytest.mark.parametrize("phase", PHASES)
@pytest.mark.parametrize("error", [ValueError("x"), TimeoutError("x"), OSError(28, "x")], ids=repr)
def test_an_exception_is_blamed_on_who_ran(tmp_path, phase, error):
    """A TimeoutError raised by the called code is not our deadline passing."""
    outcome = run(
        tmp_path, *raising(phase, error),
        open_timeout_s=60, attempt_timeout_s=60, evaluation_timeout_s=60,
    )  # fmt: skip
    severity, cause = PHASES[phase]
    where = "run" if phase == "start" else phase
    assert outcome.codes() == [f"{severity} {where} {cause} {where}_failed"]
    assert type(error).__name__ in outcome.record()["issues"][0]["message"]
    assert outcome.state() == severity


FAULTS = {
    "environment": EnvironmentFault("the sandbox vanished"),
    "model_provider": ModelFault("the endpoint is down"),
    "agent": AgentFault("the agent gave up"),
    "benchmark": BenchmarkFault("bad data"),
    "evaluator": EvaluatorFault("no verdict"),
}


@pytest.mark.parametrize("phase", ["open", "prepare", "run", "collect", "evaluate"])
@pytest.mark.parametrize("cause", FAULTS)
def test_a_fault_keeps_the_cause_of_where_it_was_raised(tmp_path, phase, cause):
    outcome = run(tmp_path, *raising(phase, FAULTS[cause]))
    (issue,) = outcome.record()["issues"]
    assert (issue["phase"], issue["cause"]) == (phase, cause)
    lost = phase != "evaluate" or cause == "environment"
    assert issue["severity"] == ("fatal" if lost else "error")


def test_timeouts_of_the_agents_own_code_are_its_own(tmp_path):
    class Tested(Agent):
        async def act(self, session, task, context):
            async with asyncio.timeout(0.01):
                await asyncio.Event().wait()

    outcome = run(tmp_path, Answers, Tested, attempt_timeout_s=60)
    assert outcome.codes() == ["fatal run agent run_failed"]


def test_a_sandbox_that_vanishes_is_no_answer_and_is_tried_again_elsewhere(tmp_path):
    """B16: for real, the folder of the session is removed under the running agent."""
    roots, answers = [], []

    class Tested(Agent):
        async def act(self, session, task, context):
            await session.write("started", b"")
            root = Path(session.paths.workspace).parent
            roots.append(root)
            if len(roots) == 1:
                shutil.rmtree(root)
            answers.append((await session.exec("echo a")).stdout.strip())
            return answers[-1]

    outcome = run(tmp_path, Answers, Tested, max_retries=1, retry_backoff_s=0)
    assert answers == ["a"]  # nothing was done in a place that is gone
    assert len(set(roots)) == 2
    (dropped,) = outcome.dropped()
    assert dropped["issue"]["cause"] == "environment"
    assert dropped["issue"]["code"] == "environment_gone"
    assert outcome.report.metrics.primary.value == 1.0


def test_without_retries_a_vanished_sandbox_is_fatal_and_never_0(tmp_path):
    class Tested(Agent):
        async def act(self, session, task, context):
            await session.write("started", b"")
            shutil.rmtree(Path(session.paths.workspace).parent)
            return (await session.exec("echo b")).stdout

    outcome = run(tmp_path, Answers, Tested)
    assert outcome.codes() == ["fatal run environment environment_gone"]
    assert outcome.record()["metrics"] == {}
    series = outcome.report.metrics.primary_series
    assert (series.invalidated, series.evaluated, series.value) == (1, 0, None)


# --- an agent that ends badly is still graded


@pytest.mark.parametrize(
    ("result", "codes", "status"),
    [
        (RunResult("a", exit_code=3), ["warning run agent agent_exit"], "completed"),
        (RunResult("a", error="budget spent"), ["error run agent agent_error"], "run_error"),
        (RunResult("a", timed_out=True), ["error run agent agent_timeout"], "run_error"),
        (RunResult(""), [], "completed"),
    ],
)
def test_an_agent_that_ends_badly_is_still_graded(tmp_path, result, codes, status):
    class Tested(Agent):
        async def act(self, session, task, context):
            return result

    outcome = run(tmp_path, Answers, Tested, retry_pattern_list=())
    record = outcome.record()
    assert outcome.codes() == codes
    assert (record["status"], record["metrics"]) == (status, {"right": result.final_answer == "a"})
