"""Plug-ins that break their contract while tasks run: one attempt's issue, the others go on."""

import asyncio
from dataclasses import replace
from decimal import Decimal

import pytest
from tests.scenarios.runtime.plugins import Agent, Answers, Ten, tasks
from tests.scenarios.runtime.runs import Outcome, request, run, within

import proctor
from proctor.environments.contract import EnvironmentSpec
from proctor.environments.local import LocalEnvironment
from proctor.evals.contracts import (
    Evaluation,
    PreparedTask,
    RunResult,
)
from proctor.kernel.errors import UsageError
from proctor.kernel.issues import Issue
from proctor.models.contract import Usage


class Odd:
    def __str__(self):
        raise RuntimeError("cannot be shown")

    __repr__ = __str__


CYCLE: list = []
CYCLE.append(CYCLE)


def ten_with_t4(**fields):
    """Ten tasks of which t4 has these fields."""
    given = [replace(task, **fields) if task.id == "t4" else task for task in Ten.given]
    return type("OneWrong", (Ten,), {"given": given})


def assert_only_t4_suffered(outcome: Outcome, code: str, *, fatal: bool) -> None:
    states = {f"t{n}": outcome.state(f"t{n}") for n in range(1, 11)}
    assert states.pop("t4") == ("fatal" if fatal else "error")
    assert set(states.values()) == {"normal"}
    assert code in outcome.codes("t4")
    series = outcome.report.metrics.primary_series
    assert (series.evaluated, series.total, series.reference_value) == (9, 10, 1.0)
    assert (series.invalidated, series.unavailable) == ((1, 0) if fatal else (0, 1))
    assert series.value == (None if fatal else 1.0)
    assert series.partial is True
    assert outcome.report.counts.attempts == 10
    assert (outcome.report.status, outcome.report.exit_code) == ("completed", 1)


def answering(value):
    """A harness whose answer for t4 is this, or what this raises."""

    class Tested(Agent):
        async def act(self, session, task, context):
            if task.id != "t4":
                return "a"
            if isinstance(value, BaseException):
                raise value
            return value

    return Tested


def grading(value):
    class Graded(Ten):
        async def evaluate(self, prepared, result, session):
            if prepared.id != "t4":
                return Evaluation(metrics={"right": True})
            if isinstance(value, BaseException):
                raise value
            return value

    return Graded


WRONG_ISSUE = Issue("fatal", "run", "agent", "x", "y")


@pytest.mark.parametrize(
    "value",
    [
        RunResult(float("nan")),
        RunResult({"a": {1, 2}}),
        RunResult(CYCLE),
        RunResult("a", error=ValueError("x")),
        RunResult("a", exit_code="0"),
        RunResult("a", usage={"input_tokens": 3}),
        RunResult("a", usage=Usage(input_tokens=1.5)),
        RunResult("a", usage=Usage(cost_usd=Decimal("NaN"))),
        RunResult("a", telemetry=[1]),
        RunResult("a", issues=("it failed",)),
        RunResult("a", issues=(WRONG_ISSUE,)),
        RunResult("a", issues=None),
        RunResult("a", artifacts=("file.txt",)),
        RunResult("a", trajectory=3),
        RunResult(10**5000),
        object(),
        asyncio.CancelledError(),
        ValueError("\ud800 not UTF-8"),
        ExceptionGroup("two", [ValueError("x"), OSError("y")]),
    ],
    ids=lambda value: type(value).__name__ if type(value) is not RunResult else None,
)
@pytest.mark.parametrize("mode", ["none", "reuse"])
def test_a_wrong_result_is_the_agents_fault(tmp_path, value, mode):
    wanted = request(tmp_path, Ten, answering(value), evaluation_mode=mode)
    outcome = Outcome(within(60, lambda: proctor.arun(wanted)))
    code = "agent" if isinstance(value, RunResult) or type(value) is object else "run_failed"
    assert_only_t4_suffered(outcome, f"fatal run agent {code}", fatal=True)


def test_an_agent_may_leave_odd_telemetry(tmp_path):
    telemetry = {"nan": float("nan"), "self": CYCLE, "odd": Odd(), 3: b"bytes"}
    outcome = run(tmp_path, Ten, answering(RunResult("a", telemetry=telemetry)))
    assert outcome.report.exit_code == 0
    kept = outcome.record("t4")["meta"]["harness"]["telemetry"]
    assert (kept["nan"], kept["3"]) == ("nan", "b'bytes'")
    assert "cannot be shown" in kept["odd"]


@pytest.mark.parametrize(
    "value",
    [
        None,
        {"right": True},
        Evaluation(metrics={"right": True}, issues=("bad",)),
        Evaluation(metrics={"right": True}, issues=(WRONG_ISSUE,)),
        Evaluation(metrics={"right": True}, evidence=[1]),
        Evaluation(metrics={"right": True}, unavailable=["right"]),
        Evaluation(metrics={"right": True}, artifacts=[b""]),
        ZeroDivisionError("no tests"),
        asyncio.CancelledError(),
    ],
    ids=lambda value: repr(value)[:60],
)
def test_a_wrong_evaluation_is_the_evaluators_fault(tmp_path, value):
    wanted = request(tmp_path, grading(value))
    outcome = Outcome(within(60, lambda: proctor.arun(wanted)))
    code = "evaluator" if not isinstance(value, BaseException) else "evaluate_failed"
    assert_only_t4_suffered(outcome, f"error evaluate evaluator {code}", fatal=False)


@pytest.mark.parametrize(
    "value",
    [2, -1, "1", None, float("nan"), float("inf"), [1], Odd(), 10**400, 0.5, 1j],
    ids=["2", "-1", "text", "null", "nan", "inf", "list", "odd", "huge", "half", "complex"],
)
def test_a_wrong_observation_is_unavailable_with_a_reason(tmp_path, value):
    outcome = run(tmp_path, grading(Evaluation(metrics={"right": value})))
    assert_only_t4_suffered(outcome, "error evaluate evaluator invalid_observation", fatal=False)
    record = outcome.record("t4")
    assert record["metrics"] == {}
    assert record["unavailable"]["right"]
    assert record["status"] == "completed"


def test_an_observation_that_was_not_declared_is_left_out_and_told(tmp_path):
    given = Evaluation(metrics={"right": True, "speed": 3.0})
    outcome = run(tmp_path, grading(given))
    record = outcome.record("t4")
    assert record["metrics"] == {"right": True}
    assert "not declared" in record["unavailable"]["speed"]
    assert outcome.codes("t4") == ["error evaluate evaluator invalid_observation"]
    assert outcome.report.metrics.primary.value == 1.0  # the declared one stays valid
    assert outcome.report.exit_code == 0


@pytest.mark.parametrize("name", ["../out.txt", "/etc/x", "", "a\0b", "x" * 300, "taken/file.txt"])
def test_an_artifact_with_a_wrong_name_is_the_benchmarks_fault(tmp_path, name):
    """Before, a name that is too long passed for a disk that cannot be written: the run ended."""
    artifacts = {"taken": b"a file", name: b"data"}
    outcome = run(tmp_path, grading(Evaluation(metrics={"right": 1}, artifacts=artifacts)))
    assert_only_t4_suffered(outcome, "error evaluate benchmark benchmark", fatal=False)
    assert not (tmp_path / "out.txt").exists()


@pytest.mark.parametrize("value", [None, PreparedTask(Ten.given[3], object()), "prepared"])
def test_a_wrong_prepared_task_is_the_benchmarks_fault(tmp_path, value):
    class Prepared(Ten):
        async def prepare_task(self, task, session, plan):
            return value if task.id == "t4" else PreparedTask(task, task.input)

    outcome = run(tmp_path, Prepared)
    assert_only_t4_suffered(outcome, "fatal prepare benchmark benchmark", fatal=True)


def test_prepared_state_that_cannot_be_stored_is_the_benchmarks_fault(tmp_path):
    class Prepared(Ten):
        async def prepare_task(self, task, session, plan):
            return PreparedTask(task, task.input, {"x": object() if task.id == "t4" else 1})

    outcome = run(tmp_path, Prepared)
    assert_only_t4_suffered(outcome, "fatal prepare benchmark benchmark", fatal=True)


def test_an_invalid_task_is_unavailable(tmp_path):
    opened = []

    class Place(LocalEnvironment):
        async def open_session(self, spec, labels):
            opened.append(labels["task"])
            return await super().open_session(spec, labels)

    outcome = run(tmp_path, ten_with_t4(invalid="tests/ is missing"), Agent, Place)
    assert_only_t4_suffered(outcome, "error prepare benchmark invalid_task", fatal=False)
    assert "t4" not in opened
    assert outcome.record("t4")["issues"][0]["message"] == "tests/ is missing"


def test_a_task_that_does_not_suit_the_environment_is_fatal_and_the_others_run(tmp_path):
    outcome = run(tmp_path, ten_with_t4(environment=EnvironmentSpec(absolute_paths=True)))
    assert_only_t4_suffered(outcome, "fatal plan environment task_unsuitable", fatal=True)
    assert "needs bubblewrap or docker" in outcome.record("t4")["issues"][0]["message"]


def test_when_no_task_suits_the_request_is_refused(tmp_path):
    class Unsuited(Answers):
        given = tasks("a", "b", environment=EnvironmentSpec(absolute_paths=True))

    with pytest.raises(UsageError, match="none of the 2 selected tasks can run"):
        run(tmp_path, Unsuited)
    assert list(tmp_path.iterdir()) == []


RECIPE = """
class Recipe:
    id = "picky"
    def matches(self, request, task):
        return task.id == "t4"
    def apply(self, plan):
        raise LookupError("no such flavour")
"""


def test_a_task_that_cannot_be_planned_is_fatal_and_the_others_run(tmp_path):
    recipes = tmp_path / "recipes"
    recipes.mkdir()
    (recipes / "picky.py").write_text(RECIPE)
    wanted = request(tmp_path, Ten)
    wanted["runtime"]["recipe_dirs"] = [str(recipes)]
    outcome = Outcome(asyncio.run(proctor.arun(wanted)))
    assert_only_t4_suffered(outcome, "fatal plan runtime plan_failed", fatal=True)
    assert "no such flavour" in outcome.record("t4")["error"]


def test_notices_that_cannot_be_given_are_that_tasks_fault(tmp_path):
    class Place(LocalEnvironment):
        def notices(self, spec):
            if spec.env:
                raise ZeroDivisionError("defect")
            return []

    outcome = run(tmp_path, ten_with_t4(environment=EnvironmentSpec(env={"A": "1"})), Agent, Place)
    assert_only_t4_suffered(outcome, "fatal plan runtime plan_failed", fatal=True)


def test_a_defect_of_ours_stays_with_its_attempt(tmp_path, monkeypatch):
    from proctor.evals.attempt import lifecycle

    original = lifecycle.Try._evaluate_detached

    async def defective(self, plan, prepared, result):
        if prepared.id == "t4":
            raise AssertionError("impossible")
        return await original(self, plan, prepared, result)

    monkeypatch.setattr(lifecycle.Try, "_evaluate_detached", defective)
    outcome = run(tmp_path, Ten, max_retries=3)
    assert_only_t4_suffered(outcome, "fatal collect runtime internal_error", fatal=True)
    assert "impossible" in outcome.record("t4")["error"]
