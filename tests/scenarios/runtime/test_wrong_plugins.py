"""Plug-ins that break their contract: refused before anything runs, or one attempt's issue."""

import asyncio
import json
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pytest
from tests.scenarios.runtime.plugins import Agent, Answers, register, tasks
from tests.scenarios.runtime.runs import Outcome, request, resume, run, within

import proctor
from proctor.environments.contract import EnvironmentSpec
from proctor.environments.local import LocalEnvironment
from proctor.evals.contracts import (
    Evaluation,
    Kind,
    MetricContract,
    MetricSpec,
    PreparedTask,
    Reference,
    RunResult,
    TaskSpec,
)
from proctor.evals.strategy import CompleteAll
from proctor.kernel.errors import BrokenComponent, DataError, UsageError
from proctor.kernel.issues import Issue
from proctor.models.contract import Usage

# --- refused before anything runs


class Odd:
    def __str__(self):
        raise RuntimeError("cannot be shown")

    __repr__ = __str__


def benchmark(**members):
    """A benchmark class with these methods or attributes."""
    return type("Wrong", (Answers,), members)


def loading(value):
    def load_tasks(self):
        if isinstance(value, Exception):
            raise value
        return value

    return benchmark(load_tasks=load_tasks)


CYCLE: list = []
CYCLE.append(CYCLE)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (KeyError("question"), "load_tasks failed: KeyError: 'question'"),
        (None, "load_tasks failed: TypeError"),
        ([{"id": "t1"}], "load_tasks gave dict as task 1, expected TaskSpec"),
        ([TaskSpec("a", "q"), TaskSpec("a", "q")], "task 2: duplicate id 'a' (first: task 1)"),
        ([TaskSpec("", "q")], "task 1: an id must not be empty"),
        ([TaskSpec(7, "q")], "task 1: an id must be text, found int"),
        ([TaskSpec("a\0b", "q")], "task 1: an id must not contain NUL"),
        ([TaskSpec(" a", "q")], "blanks around it"),
        ([], "0 tasks selected: the data holds no task"),
        (tasks(float("nan")), "task 't1': its target cannot be stored as JSON"),
        (tasks(object()), "its target cannot be stored as JSON"),
        (tasks(CYCLE), "its target cannot be stored as JSON"),
        ([TaskSpec("a", {"q": {1, 2}})], "task 'a': its input cannot be stored as JSON"),
        (tasks("a", category=3), "its category is of type int"),
        (tasks("a", agent_timeout_s=-1), "its agent_timeout_s is -1, not a number of seconds"),
        (tasks("a", evaluation_timeout_s="9"), "its evaluation_timeout_s is '9'"),
        (tasks("a", evaluation_timeout_s=float("nan")), "its evaluation_timeout_s is nan"),
        (tasks("a", evaluation_mode="later"), "its evaluation mode 'later' is none of none, reuse"),
        (tasks("a", environment={"image": "x"}), "its environment is of type dict"),
        (tasks("a", reference="the answer"), "its reference is of type str"),
        (tasks("a", reference=Reference(object())), "its reference answer cannot be stored"),
        (tasks("a", invalid=["broken"]), "its invalid is of type list"),
    ],
)
def test_wrong_tasks_are_refused(tmp_path, given, message):
    with pytest.raises(UsageError) as caught:
        run(tmp_path, loading(given))
    assert message in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_every_wrong_task_is_named_at_once(tmp_path):
    given = tasks(*[object()] * 25)
    with pytest.raises(DataError) as caught:
        run(tmp_path, loading(given))
    lines = str(caught.value).splitlines()
    assert len(lines) == 1 + 20 + 1
    assert lines[-1] == "… and 5 more"


@pytest.mark.parametrize(
    ("contract", "message"),
    [
        (MetricContract((), "right"), "no metric is declared"),
        (MetricContract((MetricSpec("a"), MetricSpec("a")), "a"), "'a' is declared twice"),
        (MetricContract((MetricSpec("a"),), "b"), "primary metric 'b' is not declared"),
        (MetricContract((MetricSpec("a", Kind.SCALAR, 1, 1),), "a"), "range 1 to 1 is empty"),
        ({"right": "binary"}, "the metric contract of"),
        (ValueError("not decided yet"), "not decided yet"),
    ],
)
def test_a_wrong_metric_contract_is_refused(tmp_path, contract, message):
    def metrics(self):
        if isinstance(contract, Exception):
            raise contract
        return contract

    with pytest.raises(BrokenComponent, match=message):
        run(tmp_path, benchmark(metrics=metrics))
    assert list(tmp_path.iterdir()) == []


def broken(self, *_):
    raise ZeroDivisionError("defect")


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"select_tasks": broken}, "select_tasks failed: ZeroDivisionError: defect"),
        ({"select_tasks": lambda s, t, x: [t[0], t[0]]}, "must choose loaded tasks, each once"),
        ({"select_tasks": lambda s, t, x: [TaskSpec("b", "q")]}, "must choose loaded tasks"),
        ({"select_tasks": lambda s, t, x: []}, "0 tasks selected of 1"),
        ({"requirements": broken}, "ZeroDivisionError: defect"),
        ({"requirements": lambda s: ["a compiler"]}, "answers: a compiler"),
        ({"grading_settings": broken}, "ZeroDivisionError: defect"),
        ({"grading_settings": lambda s: {"x": object()}}, "not JSON serializable"),
        ({"evaluation_modes": ()}, r"declares evaluation modes \(\)"),
        ({"evaluation_modes": "none"}, "declares evaluation modes"),
        ({"metrics": None}, "'NoneType' object is not callable"),
        ({"__init__": broken}, "ZeroDivisionError: defect"),
    ],
)
def test_a_wrong_benchmark_is_refused(tmp_path, wrong, message):
    with pytest.raises(UsageError, match=message):
        run(tmp_path, benchmark(**wrong))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("method", ["requirements", "problems", "facts"])
def test_a_wrong_environment_is_refused(tmp_path, method):
    place = type("Place", (LocalEnvironment,), {method: broken})
    with pytest.raises(BrokenComponent, match="ZeroDivisionError: defect"):
        run(tmp_path, Answers, Agent, place)
    assert [p for p in tmp_path.rglob("*") if p.is_file()] == []


@pytest.mark.parametrize("method", ["requirements", "environment_problems", "settings"])
def test_a_wrong_harness_is_refused(tmp_path, method):
    with pytest.raises(BrokenComponent, match="ZeroDivisionError: defect"):
        run(tmp_path, Answers, type("Wrong", (Agent,), {method: broken}))
    assert list(tmp_path.iterdir()) == []


def test_facts_that_are_no_json_are_kept_as_text(tmp_path):
    facts = {"free": float("inf"), "odd": {1: Odd()}, "huge": 10**5000}
    place = type("Place", (LocalEnvironment,), {"facts": lambda self: facts})
    outcome = run(tmp_path, Answers, Agent, place)
    info = json.loads((outcome.run_dir / "run_info.json").read_text("utf-8"))
    kept = info["machine"]["environment"]
    assert kept["free"] == "inf"
    assert kept["odd"]["1"] == "a Odd that cannot be shown (RuntimeError)"
    assert int(kept["huge"], 16) == 10**5000


# --- one attempt's issue: the other tasks run


class Ten(Answers):
    """Ten tasks; t4 is the one that goes wrong."""

    given = tasks(*["a"] * 10)


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


# --- what stops the whole run says so


def confused(times: int):
    """A strategy that breaks this often."""

    class Confused(CompleteAll):
        id = "confused"
        left = times

        def is_complete(self, primaries, k):
            if primaries and self.left > 0:
                self.left -= 1
                raise ZeroDivisionError("how many was that?")
            return super().is_complete(primaries, k)

    return register(Confused)


def test_a_defect_that_stops_the_run_ends_it_as_failed_and_resumable(tmp_path):
    wanted = request(tmp_path, Ten, strategy=confused(times=1), concurrency=1)
    outcome = Outcome(within(60, lambda: proctor.arun(wanted)))
    assert (outcome.report.status, outcome.report.exit_code) == ("failed", 3)
    assert "ZeroDivisionError: how many was that?" in str(outcome.report.error)
    found = proctor.load(outcome.run_dir)
    assert (found.status, found.live_owner) == ("failed", None)
    (defect,) = (e for e in outcome.events if e["event"] == "run.defect")
    assert "is_complete" in defect["traceback"]


def test_a_run_that_cannot_even_be_summed_up_is_failed_on_disk(tmp_path):
    wanted = request(tmp_path, Ten, strategy=confused(times=1000))
    with pytest.raises(ZeroDivisionError):
        within(60, lambda: proctor.arun(wanted))
    found = proctor.load(next(tmp_path.glob("results/*/*/*/*")))
    assert (found.status, found.live_owner) == ("failed", None)


@pytest.mark.parametrize("plain", [False, True])
def test_an_exit_of_a_plug_in_propagates_and_leaves_a_truthful_state(tmp_path, plain):
    class Exits(Ten):
        async def evaluate(self, prepared, result, session):
            if prepared.id == "t4":
                raise SystemExit(0)
            return Evaluation(metrics={"right": True})

    class PlainExits(Ten):
        def evaluate(self, prepared, result, session):
            if prepared.id == "t4":
                raise SystemExit(0)
            return Evaluation(metrics={"right": True})

    with pytest.raises(SystemExit):
        proctor.run(request(tmp_path, PlainExits if plain else Exits, concurrency=1))
    run_dir = Path(next(tmp_path.glob("results/*/*/*/*")))
    found = proctor.load(run_dir)
    assert (found.status, found.live_owner) == ("interrupted", None)
    assert found.info["error"] == "stopped by SystemExit: 0"
    assert len(list(found.attempts())) == 3
    Exits.evaluate = PlainExits.evaluate = Ten.evaluate
    resumed = resume(run_dir)
    assert resumed.report.counts.reused_attempts == 3
    assert resumed.report.exit_code == 0


def test_components_that_cannot_be_closed_do_not_hide_the_report(tmp_path):
    class Sticky(Answers):
        async def close(self):
            raise OSError("worker does not end")

    outcome = run(tmp_path, Sticky)
    assert outcome.report.exit_code == 0
    noted = [e for e in outcome.events if e["event"] == "run.cleanup_failed"]
    assert [e["message"] for e in noted] == ["worker does not end"]
    assert proctor.load(outcome.run_dir).live_owner is None


def test_a_benchmark_is_closed_once_at_the_end(tmp_path):
    closed = []

    class Closing(Ten):
        async def close(self):
            closed.append(len(list(tmp_path.rglob("result.json"))))

    run(tmp_path, Closing)
    assert closed == [10]
