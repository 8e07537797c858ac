"""Whose fault a failure is: told by where it was raised, never by the name of a class."""

import asyncio
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from tests.scenarios.runtime.plugins import Agent, Answers, tasks
from tests.scenarios.runtime.runs import run

from proctor.environments.local import LocalEnvironment, LocalSession
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
    if (phase, cause) == ("collect", "environment"):  # the agent has worked in it
        assert outcome.codes() == ["error collect agent environment_spoiled"]
        return
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


@pytest.mark.parametrize("fault_code", ["environment", "refused_path", "cannot_start", "no_answer"])
def test_an_environment_that_fails_after_its_agent_is_spoiled_and_voids_nothing(
    tmp_path, fault_code
):
    tried = []

    class Graded(Answers):
        given = tasks("a", "a")

        async def evaluate(self, prepared, result, session):
            if prepared.id == "t1":
                tried.append(prepared.id)
                raise EnvironmentFault("rm does nothing", code=fault_code)
            return Evaluation(metrics={"right": True})

    outcome = run(
        tmp_path, Graded, Agent, evaluation_mode="reuse", max_retries=2, retry_backoff_s=0
    )
    assert outcome.codes() == [
        "error evaluate agent environment_spoiled",
        "warning evaluate agent not_retried",
    ]
    assert tried == ["t1"]  # no other try for the agent that did it
    record = outcome.record()
    assert (record["status"], record["metrics"]) == ("eval_error", {})
    assert f"({fault_code}): rm does nothing" in record["issues"][0]["message"]
    series = outcome.report.metrics.primary_series
    assert (series.evaluated, series.unavailable, series.invalidated) == (1, 1, 0)
    assert series.value == 1.0


@pytest.mark.parametrize("fault_code", ["environment_gone", "engine_unreachable", "unkillable"])
def test_what_no_agent_does_to_its_environment_stays_fatal(tmp_path, fault_code):
    class Graded(Answers):
        async def evaluate(self, prepared, result, session):
            raise EnvironmentFault("away", code=fault_code)

    outcome = run(tmp_path, Graded, Agent, evaluation_mode="reuse")
    assert outcome.codes() == [f"fatal evaluate environment {fault_code}"]


def test_an_environment_that_is_not_there_any_more_was_not_spoiled(tmp_path):
    class Graded(Answers):
        async def evaluate(self, prepared, result, session):
            await session.write("begun", b"")
            shutil.rmtree(Path(session.paths.workspace).parent)
            raise EnvironmentFault("cannot write")

    outcome = run(tmp_path, Graded, Agent, evaluation_mode="reuse")
    assert outcome.codes() == ["fatal evaluate environment environment"]


@pytest.mark.parametrize("mode", ["none", "fresh"])
def test_no_agent_worked_in_an_environment_that_only_grades(tmp_path, mode):
    class Graded(Answers):
        async def evaluate(self, prepared, result, session):
            raise EnvironmentFault("cannot write")

    outcome = run(tmp_path, Graded, Agent, evaluation_mode=mode)
    assert outcome.codes() == ["fatal evaluate environment environment"]


@pytest.mark.parametrize(
    ("where", "error", "codes"),
    [
        ("prepare", EnvironmentFault("x"), ["error prepare agent environment_spoiled"]),
        ("prepare", BenchmarkFault("x"), ["error prepare benchmark benchmark"]),
        ("prepare", ValueError("x"), ["error prepare benchmark prepare_failed"]),
        ("prepare", ModelFault("x"), ["fatal prepare model_provider model"]),
        ("start", EnvironmentFault("x"), ["error run agent environment_spoiled"]),
        ("start", ModelFault("x"), ["fatal run model_provider model"]),
    ],
)
def test_a_further_step_that_cannot_begin(tmp_path, where, error, codes):
    class Stepped(Answers):
        async def prepare_step(self, prepared, session):
            if where == "prepare":
                raise error
            return prepared

        async def evaluate(self, prepared, result, session):
            return Evaluation(next_step=replace(prepared, step="two"))

    class Tested(Agent):
        async def start(self, session, task, context):
            if task.step == "two":
                raise error
            return await super().start(session, task, context)

    outcome = run(tmp_path, Stepped, Tested, evaluation_mode="reuse")
    assert outcome.codes() == codes
    assert outcome.record()["metrics"] == {}


def test_a_provider_that_fails_everywhere_is_not_the_agents_doing(tmp_path):
    """It says nothing against the agent that its place fails where a new one fails too."""
    opened = []

    class Ill(LocalEnvironment):
        async def open_session(self, spec, labels):
            opened.append(len(opened))
            if len(opened) == 2:
                raise EnvironmentFault("no room on the disk")
            return await super().open_session(spec, labels)

    class Graded(Answers):
        async def evaluate(self, prepared, result, session):
            if len(opened) == 1:
                raise EnvironmentFault("no room on the disk")
            return Evaluation(metrics={"right": True})

    outcome = run(
        tmp_path, Graded, Agent, Ill, evaluation_mode="reuse", max_retries=1, retry_backoff_s=0
    )
    assert outcome.codes() == []
    (dropped,) = outcome.dropped()
    issue = dropped["issue"]
    assert (issue["severity"], issue["cause"], issue["code"]) == (
        "fatal", "environment", "environment",
    )  # fmt: skip
    assert opened == [0, 1, 2]  # the agent's, the trial, the next try's


@pytest.mark.parametrize("phase", ["run", "collect", "evaluate"])
@pytest.mark.parametrize("inside", [True, False])
def test_a_place_that_was_ended_from_inside_is_spoiled(tmp_path, phase, inside):
    class Session(LocalSession):
        async def ended_inside(self):
            return inside

    class Place(LocalEnvironment):
        async def open_session(self, spec, labels):
            return Session(spec, labels, self._settings)

    def away(where):
        if where == phase:
            raise EnvironmentFault("away", code="environment_gone")

    class Graded(Answers):
        async def collect_artifacts(self, prepared, result, session, context):
            away("collect")
            return result

        async def evaluate(self, prepared, result, session):
            away("evaluate")
            return Evaluation(metrics={"right": True})

    class Tested(Agent):
        async def act(self, session, task, context):
            away("run")
            return "a"

    outcome = run(tmp_path, Graded, Tested, Place, evaluation_mode="reuse")
    spoiled, gone = "agent environment_spoiled", "environment environment_gone"
    assert outcome.codes() == [f"error {phase} {spoiled}" if inside else f"fatal {phase} {gone}"]


def test_a_place_that_ends_while_it_is_set_up_is_not_the_agents_doing(tmp_path):
    class Session(LocalSession):
        async def ended_inside(self):
            return True

    class Place(LocalEnvironment):
        async def open_session(self, spec, labels):
            return Session(spec, labels, self._settings)

    class Tested(Agent):
        async def start(self, session, task, context):
            raise EnvironmentFault("away", code="environment_gone")

    outcome = run(tmp_path, Answers, Tested, Place, evaluation_mode="reuse")
    assert outcome.codes() == ["fatal run environment environment_gone"]
