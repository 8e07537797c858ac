"""From attempts to counts: errors, missing observations and zeros are different things."""

import asyncio
import json

import pytest
from tests.scenarios.runtime.plugins import Agent, Answers, tasks
from tests.scenarios.runtime.runs import Outcome, request, run, within

import proctor
from proctor.evals.contracts import Evaluation, Kind, MetricContract, MetricSpec, RunResult
from proctor.evals.stopping import Stop
from proctor.kernel.errors import EnvironmentFault, UsageError


def counts(outcome: Outcome, metric: str = "right", reducer: str | None = None) -> dict:
    """The printed numbers of a series; by default of the primary one."""
    report = outcome.report.metrics
    return report.to_json()[metric][reducer or report.primary.reducer]


# --- B07


def four(last):
    """Right, right, wrong, and what `last` does."""

    class Four(Answers):
        given = tasks("a", "a", "x", "a")

        async def evaluate(self, prepared, result, session):
            if prepared.id == "t4":
                return last()
            return await super().evaluate(prepared, result, session)

    class Tested(Agent):
        async def act(self, session, task, context):
            return "a"

    return Four, Tested


def lost():
    raise EnvironmentFault("the sandbox is lost")


def test_a_fatal_task_is_invalidated(tmp_path):
    outcome = run(tmp_path, *four(lost), max_retries=1, retry_backoff_s=0)
    found = counts(outcome)
    assert (found["evaluated"], found["invalidated"], found["unavailable"]) == (3, 1, 0)
    assert (found["total"], found["value"]) == (4, None)
    assert found["reference_value"] == pytest.approx(2 / 3)
    assert outcome.report.metrics.evaluation_failed is True
    assert outcome.report.exit_code == 1
    summary = json.loads((outcome.run_dir / "summary.json").read_text("utf-8"))
    assert summary["evaluation_failed"] is True
    assert summary["primary"] == {"metric": "right", "reducer": "avg@1", "value": None}


def test_a_missing_observation_is_unavailable_and_never_0(tmp_path):
    outcome = run(tmp_path, *four(Evaluation))
    found = counts(outcome)
    assert (found["evaluated"], found["invalidated"], found["unavailable"]) == (3, 0, 1)
    assert (found["total"], found["partial"]) == (4, True)
    assert found["value"] == pytest.approx(2 / 3)
    assert outcome.report.exit_code == 1
    assert outcome.codes("t4") == ["error evaluate evaluator no_observation"]


def test_no_answer_is_unavailable_and_an_empty_answer_is_0(tmp_path):
    rows = [
        {"id": "none", "input": "?", "target": "1"},
        {"id": "empty", "input": "?", "target": "1"},
    ]
    data = tmp_path / "rows.jsonl"
    data.write_text("".join(json.dumps(row) + "\n" for row in rows))

    class Tested(Agent):
        async def act(self, session, task, context):
            return RunResult(None if task.id == "none" else "")

    wanted = request(tmp_path, "table", Tested)
    wanted["benchmark"] = {"id": "table", "data": str(data)}
    outcome = Outcome(asyncio.run(proctor.arun(wanted)))
    found = counts(outcome, "correct")
    assert (found["evaluated"], found["unavailable"], found["value"]) == (1, 1, 0.0)
    assert outcome.record("empty")["metrics"] == {"correct": 0}
    assert [c.split()[-1] for c in outcome.codes("empty")] == ["unparsed_answer"]


def test_a_stopped_run_keeps_what_it_has_and_says_what_it_lacks(tmp_path):
    """29 of 30 tasks are done, 18 right and 11 wrong, when the run is stopped."""
    last = asyncio.Event()

    class Thirty(Answers):
        given = tasks(*["a"] * 18, *["x"] * 11, "a")

    class Tested(Agent):
        async def act(self, session, task, context):
            if task.id == "t30":
                last.set()
                await asyncio.Event().wait()
            return "a"

    async def stopped():
        stop = Stop()
        running = asyncio.ensure_future(
            proctor.arun(request(tmp_path, Thirty, Tested, concurrency=1), stop=stop)
        )
        await last.wait()
        stop.request()
        return Outcome(await running)

    outcome = within(60, stopped)
    found = counts(outcome)
    assert (found["evaluated"], found["unavailable"], found["total"]) == (29, 1, 30)
    assert found["reference_value"] == pytest.approx(18 / 29)
    assert found["partial"] is True
    assert len(outcome.records) == 29
    assert outcome.report.exit_code == 130
    assert outcome.report.status == "interrupted"


# --- B10


def scored(*scores):
    class Scored(Answers):
        given = tasks(*map(str, range(len(scores))))

        def metrics(self):
            return MetricContract((MetricSpec("score", Kind.SCALAR, 0, 1),), "score")

        async def evaluate(self, prepared, result, session):
            return Evaluation(metrics={"score": scores[int(prepared.task.target)]})

    return Scored


NAN, INF = float("nan"), float("inf")


def test_a_score_that_is_no_number_is_unavailable_with_a_reason(tmp_path):
    outcome = run(tmp_path, scored(1.0, 0.5, NAN, 0.75, 0.25))
    found = counts(outcome, "score")
    assert (found["evaluated"], found["unavailable"], found["total"]) == (4, 1, 5)
    assert found["reference_value"] == found["value"] == 0.625
    assert found["partial"] is True
    assert "finite" in outcome.record("t3")["unavailable"]["score"]
    assert outcome.state("t3") == "error"


@pytest.mark.parametrize("scores", [(NAN,) * 5, (INF,), (-INF, NAN)])
def test_without_any_number_there_is_no_value(tmp_path, scores):
    outcome = run(tmp_path, scored(*scores))
    found = counts(outcome, "score")
    assert (found["value"], found["reference_value"], found["evaluated"]) == (None, None, 0)
    assert found["unavailable"] == len(scores)
    assert outcome.report.exit_code == 1
    for path in outcome.run_dir.rglob("*.json*"):
        text = path.read_text("utf-8")
        assert "NaN" not in text
        assert "Infinity" not in text


def test_infinity_in_one_task_leaves_the_others(tmp_path):
    found = counts(run(tmp_path, scored(0.5, INF, 1.0)), "score")
    assert (found["reference_value"], found["unavailable"]) == (0.75, 1)


def test_no_task_is_no_score(tmp_path):
    wanted = request(tmp_path, scored(1.0))
    wanted["selection"] = {"tasks": ["nothing*"]}
    with pytest.raises(UsageError, match="0 tasks selected of 1"):
        asyncio.run(proctor.arun(wanted))


# --- several attempts and strategies


def playing(*plays: str):
    """One task per play; `y` right, `n` wrong, `-` no observation, `!` fatal, by attempt."""

    class Plays(Answers):
        given = tasks(*plays)

        async def evaluate(self, prepared, result, session):
            play = result.final_answer
            if play == "!":
                raise EnvironmentFault("lost")
            return Evaluation() if play == "-" else Evaluation(metrics={"right": play == "y"})

    class Tested(Agent):
        async def act(self, session, task, context):
            ran.append((task.id, context.attempt))
            return task.task.target[context.attempt - 1]

    ran: list[tuple[str, int]] = []
    return Plays, Tested, ran


def test_three_attempts_give_their_reducers(tmp_path):
    """By hand: c = 1, 2, 3, 0 of n = 3; the fifth task lacks one observation."""
    *parts, ran = playing("nyn", "yyn", "yyy", "nnn", "y-y")
    outcome = run(tmp_path, *parts, k=3)
    assert sorted(ran) == [(f"t{t}", a) for t in range(1, 6) for a in range(1, 4)]
    found = {
        name: counts(outcome, reducer=name) for name in outcome.report.metrics.to_json()["right"]
    }
    assert found["avg@3"]["value"] == pytest.approx((1 + 2 + 3 + 0) / 12)
    assert found["pass@1"]["value"] == pytest.approx(6 / 12)
    assert found["pass@2"]["value"] == pytest.approx((2 / 3 + 1 + 1 + 0) / 4)
    assert found["pass@3"]["value"] == pytest.approx(3 / 4)
    assert found["pass^2"]["value"] == pytest.approx((0 + 1 / 3 + 1 + 0) / 4)
    assert found["pass^3"]["value"] == pytest.approx(1 / 4)
    assert found["solved@3"]["value"] == pytest.approx(4 / 5)
    assert {name: (f["evaluated"], f["unavailable"]) for name, f in found.items()} == {
        **dict.fromkeys(["avg@3", "pass@1", "pass@2", "pass@3", "pass^2", "pass^3"], (4, 1)),
        "solved@3": (5, 0),
    }


def test_a_fatal_attempt_invalidates_its_task(tmp_path):
    *parts, _ = playing("yyy", "y!y")
    found = counts(run(tmp_path, *parts, k=3))
    assert (found["evaluated"], found["invalidated"], found["value"]) == (1, 1, None)
    assert found["reference_value"] == 1.0


def test_strategy_pass_stops_at_the_first_valid_success(tmp_path):
    *parts, ran = playing("yyy", "nyn", "nnn", "-yn", "nn-")
    outcome = run(tmp_path, *parts, k=3, strategy="pass")
    assert sorted(ran) == [
        ("t1", 1), ("t2", 1), ("t2", 2), ("t3", 1), ("t3", 2), ("t3", 3),
        ("t4", 1), ("t4", 2), ("t5", 1), ("t5", 2), ("t5", 3),
    ]  # fmt: skip
    report = outcome.report.metrics
    assert report.primary.reducer == "solved@3"
    assert "pass@1" not in report.to_json()["right"]  # truncated samples feed no estimator
    found = counts(outcome)
    assert found["reference_value"] == pytest.approx(3 / 4)
    assert (found["evaluated"], found["unavailable"]) == (4, 1)
    assert outcome.report.counts.attempts == 11


def test_attempts_of_a_task_run_in_turn(tmp_path):
    running, most = set(), []

    class Two(Answers):
        given = tasks("a", "b")

    class Tested(Agent):
        async def act(self, session, task, context):
            running.add((task.id, context.attempt))
            most.append(max(sum(t == task.id for t, _ in running), 1))
            await session.exec("true")
            running.discard((task.id, context.attempt))
            return task.task.target

    outcome = run(tmp_path, Two, Tested, k=3, concurrency=8)
    assert max(most) == 1
    assert outcome.report.counts.attempts == 6


# --- names of metrics and categories are no secrets


def test_a_metric_or_category_whose_name_looks_secret_is_still_told(tmp_path):
    class Named(Answers):
        given = tasks("a", category="password reset")

        def metrics(self):
            return MetricContract((MetricSpec("token_match"),), "token_match")

        async def evaluate(self, prepared, result, session):
            return Evaluation(metrics={"token_match": True})

    outcome = run(tmp_path, Named)
    summary = json.loads((outcome.run_dir / "summary.json").read_text("utf-8"))
    assert summary["metrics"]["token_match"]["avg@1"]["value"] == 1.0
    assert summary["categories"]["password reset"]["token_match"]["avg@1"]["value"] == 1.0
    (finished,) = (e for e in outcome.events if e["event"] == "attempt.finished")
    assert finished["metrics"] == {"token_match": True}
    assert proctor.load(outcome.run_dir).metrics.primary.value == 1.0
