"""Whose fault a failure is: told by where it was raised, never by the name of a class."""

import asyncio
import shutil
from pathlib import Path

import pytest
from tests.scenarios.runtime.plugins import Agent, Answers
from tests.scenarios.runtime.runs import run

from proctor.environments.local import LocalEnvironment
from proctor.evals.contracts import Evaluation, PreparedTask, RunResult
from proctor.kernel.errors import (
    AgentFault,
    BenchmarkFault,
    EnvironmentFault,
    EvaluatorFault,
    ModelFault,
)

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
