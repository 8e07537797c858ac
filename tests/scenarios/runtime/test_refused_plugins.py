"""Plug-ins that break their contract before anything runs: refused, and nothing is left."""

import json

import pytest
from tests.scenarios.runtime.plugins import Agent, Answers, tasks
from tests.scenarios.runtime.runs import run

from proctor.environments.local import LocalEnvironment
from proctor.evals.contracts import (
    Kind,
    MetricContract,
    MetricSpec,
    Reference,
    TaskSpec,
)
from proctor.kernel.errors import BrokenComponent, DataError, UsageError


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
