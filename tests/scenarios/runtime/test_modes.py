"""Which session the evaluator gets, and in which order things are opened, closed and graded."""

import pytest
from tests.scenarios.runtime.plugins import Agent, Answers, name_of, recording, tasks
from tests.scenarios.runtime.runs import run

from proctor.environments.contract import EnvironmentSpec
from proctor.environments.network import NetworkMode, NetworkPhases, NetworkPolicy
from proctor.evals.contracts import Evaluation, PreparedTask

ANY = EnvironmentSpec()
SWITCHING = EnvironmentSpec(
    network=NetworkPhases(
        baseline=NetworkPolicy(NetworkMode.PUBLIC),
        run=NetworkPolicy(NetworkMode.NO_NETWORK),
        evaluation=NetworkPolicy(NetworkMode.PUBLIC),
    )
)


def stepping(journal: list[str], spec: EnvironmentSpec = ANY):
    """A benchmark and a harness that note every step with the session they got."""

    class Steps(Answers):
        given = tasks("a", environment=spec)

        async def prepare_task(self, task, session, plan):
            journal.append(f"prepare {name_of(session)}")
            return PreparedTask(task, task.input)

        async def collect_artifacts(self, prepared, result, session, context):
            journal.append(f"collect {name_of(session)}")
            return result

        async def evaluate(self, prepared, result, session):
            journal.append(f"evaluate {name_of(session)}")
            return Evaluation(metrics={"right": True})

    class Walks(Agent):
        async def start(self, session, task, context):
            journal.append(f"start {name_of(session)}")
            return await super().start(session, task, context)

        async def act(self, session, task, context):
            journal.append(f"run {name_of(session)}")
            return "a"

        async def leave(self):
            journal.append("leave")

    return Steps, Walks


BEFORE = ["open s1", "prepare s1", "start s1", "run s1", "leave", "collect s1"]


@pytest.mark.parametrize(
    ("mode", "after"),
    [
        ("reuse", ["evaluate s1", "close s1"]),
        ("none", ["close s1", "evaluate none"]),
        ("fresh", ["close s1", "open s2", "evaluate s2", "close s2"]),
    ],
)
def test_order_of_an_attempt(tmp_path, mode, after):
    environment = recording()
    benchmark, harness = stepping(environment.journal)
    outcome = run(tmp_path, benchmark, harness, environment, evaluation_mode=mode)
    assert environment.journal == BEFORE + after
    assert outcome.report.exit_code == 0
    assert outcome.codes() == []


@pytest.mark.parametrize(
    ("mode", "after"),
    [
        ("reuse", ["evaluate s1"]),
        ("none", ["evaluate none"]),
        ("fresh", ["open s2", "evaluate s2"]),
    ],
)
def test_keeping_the_environment_skips_only_the_closing(tmp_path, mode, after):
    environment = recording()
    benchmark, harness = stepping(environment.journal)
    run(tmp_path, benchmark, harness, environment, evaluation_mode=mode, keep_environment=True)
    assert environment.journal == BEFORE + after


@pytest.mark.parametrize("keep", [False, True])
@pytest.mark.parametrize(
    ("mode", "after"),
    [
        ("reuse", ["network s1 public", "evaluate s1", "network s1 public", "close s1"]),
        ("none", ["network s1 public", "close s1", "evaluate none"]),
        (
            "fresh",
            ["network s1 public", "close s1", "open s2", "network s2 public", "evaluate s2",
             "network s2 public", "close s2"],
        ),
    ],
)  # fmt: skip
def test_each_phase_has_its_network_and_baseline_comes_back(tmp_path, mode, after, keep):
    environment = recording()
    benchmark, harness = stepping(environment.journal, SWITCHING)
    run(tmp_path, benchmark, harness, environment, evaluation_mode=mode, keep_environment=keep)
    before = [*BEFORE[:3], "network s1 no-network", *BEFORE[3:]]
    expected = [step for step in before + after if not (keep and step.startswith("close"))]
    assert environment.journal == expected


@pytest.mark.parametrize(("mode", "kept"), [("reuse", False), ("none", True), ("fresh", True)])
def test_the_run_record_is_kept_before_the_evaluation_in_detached_modes(tmp_path, mode, kept):
    seen = []

    class Looks(Answers):
        async def evaluate(self, prepared, result, session):
            seen.extend(tmp_path.rglob("attempt-1/run.json"))
            return await super().evaluate(prepared, result, session)

    run(tmp_path, Looks, evaluation_mode=mode)
    assert bool(seen) is kept


def test_a_task_may_have_a_mode_of_its_own(tmp_path):
    environment = recording()
    benchmark, harness = stepping(environment.journal)
    benchmark.given = tasks("a", evaluation_mode="fresh")
    run(tmp_path, benchmark, harness, environment)
    assert "evaluate s2" in environment.journal


def test_a_mode_that_the_benchmark_does_not_allow_is_refused(tmp_path):
    class OnlyReuse(Answers):
        evaluation_modes = ("reuse",)

    with pytest.raises(Exception, match="does not allow evaluation mode 'none'") as caught:
        run(tmp_path, OnlyReuse, evaluation_mode="none")
    assert caught.value.hint == "allowed: reuse"
    assert not (tmp_path / "results").exists()


def test_every_attempt_is_planned_before_its_environment_opens(tmp_path):
    plans_at_open = []
    environment = recording()

    class Looks(environment):
        async def open_session(self, spec, labels):
            lines = next(tmp_path.rglob("plans.jsonl")).read_text("utf-8").count("\n")
            plans_at_open.append((labels["attempt"], lines))
            return await super().open_session(spec, labels)

    run(tmp_path, Answers, Agent, Looks, k=3)
    assert plans_at_open == [("1", 1), ("2", 2), ("3", 3)]
