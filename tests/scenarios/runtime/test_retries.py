"""Retries: what is repeated, which errors are, what is kept of the dropped, who waits meanwhile."""

import asyncio
import json
import re

import pytest
from tests.scenarios.runtime.plugins import Agent, Answers, name_of, recording, tasks
from tests.scenarios.runtime.runs import Outcome, request, resume, run, within

import proctor
from proctor.evals.contracts import Evaluation, PreparedTask, RunResult
from proctor.kernel.errors import (
    AgentFault,
    EnvironmentFault,
    EvaluatorFault,
    ModelFault,
)
from proctor.kernel.issues import Cause, Issue, Phase, Severity
from proctor.testing.clock import FakeClock


def failing(at: str, times: int, error: Exception | None = None):
    """Components whose phase `at` fails `times` times; the journal holds every step."""
    environment = recording()
    journal = environment.journal
    left = {"times": times}

    def step(name, session):
        journal.append(f"{name} {name_of(session)}")
        if name == at and left["times"] > 0:
            left["times"] -= 1
            raise error or ValueError(f"{at} went wrong")

    class Graded(Answers):
        async def prepare_task(self, task, session, plan):
            step("prepare", session)
            return PreparedTask(task, task.input)

        async def collect_artifacts(self, prepared, result, session, context):
            step("collect", session)
            return result

        async def evaluate(self, prepared, result, session):
            step("evaluate", session)
            return Evaluation(metrics={"right": True})

    class Tested(Agent):
        async def act(self, session, task, context):
            step("run", session)
            return "a"

    class Place(environment):
        async def open_session(self, spec, labels):
            if at == "open" and left["times"] > 0:
                left["times"] -= 1
                journal.append("open fails")
                raise error or EnvironmentFault("no room")
            return await super().open_session(spec, labels)

    return Graded, Tested, Place, journal


WHOLE = ["open s2", "prepare s2", "run s2", "collect s2"]


@pytest.mark.parametrize(
    ("at", "mode", "again"),
    [
        ("prepare", "none", WHOLE),
        ("run", "none", WHOLE),
        ("collect", "fresh", WHOLE),
        ("evaluate", "reuse", [*WHOLE, "evaluate s2", "close s2"]),
    ],
)
def test_a_failure_in_the_tasks_environment_repeats_the_whole_attempt(tmp_path, at, mode, again):
    *parts, journal = failing(at, 1)
    outcome = run(tmp_path, *parts, evaluation_mode=mode, max_retries=1, retry_backoff_s=0)
    after = journal[journal.index("close s1") + 1 :]
    assert after[: len(again)] == again
    record = outcome.record()
    assert (record["retry_count"], record["status"]) == (1, "completed")
    assert [d["scope"] for d in outcome.dropped()] == ["attempt"]
    assert outcome.report.counts.attempts == 1


def test_an_open_that_fails_is_repeated(tmp_path):
    *parts, journal = failing("open", 2)
    outcome = run(tmp_path, *parts, max_retries=2, retry_backoff_s=0)
    assert journal[:3] == ["open fails", "open fails", "open s1"]
    assert [d["phase"] for d in outcome.dropped()] == ["open", "open"]


def test_mode_none_repeats_only_the_evaluation(tmp_path):
    *parts, journal = failing("evaluate", 2)
    outcome = run(tmp_path, *parts, evaluation_mode="none", max_retries=2, retry_backoff_s=0)
    assert journal.count("run s1") == 1
    assert [step for step in journal if step.startswith("open")] == ["open s1"]
    assert journal[-3:] == ["evaluate none"] * 3
    assert [d["scope"] for d in outcome.dropped()] == ["evaluation"] * 2
    assert outcome.record()["retry_count"] == 2


def test_mode_fresh_repeats_the_evaluation_in_a_new_environment(tmp_path):
    *parts, journal = failing("evaluate", 1)
    run(tmp_path, *parts, evaluation_mode="fresh", max_retries=1, retry_backoff_s=0)
    after = journal[journal.index("close s1") + 1 :]
    assert after == [
        "open s2", "evaluate s2", "close s2", "open s3", "evaluate s3", "close s3",
    ]  # fmt: skip


def test_the_same_result_and_prepared_task_are_evaluated_again(tmp_path):
    seen = []

    class Doubts(Answers):
        async def prepare_task(self, task, session, plan):
            return PreparedTask(task, "adapted", {"number": 7})

        async def evaluate(self, prepared, result, session):
            seen.append((prepared.input, dict(prepared.state), result.final_answer))
            if len(seen) == 1:
                raise EvaluatorFault("not yet")
            return Evaluation(metrics={"right": True})

    run(tmp_path, Doubts, evaluation_mode="none", max_retries=1, retry_backoff_s=0)
    assert seen == [("adapted", {"number": 7}, "a")] * 2


def test_an_evaluation_without_its_observation_by_its_own_fault_is_repeated(tmp_path):
    """A judge that gives up says so in an issue, without an exception."""
    calls = []

    class Judged(Answers):
        async def evaluate(self, prepared, result, session):
            calls.append(1)
            if len(calls) == 1:
                issue = Issue(Severity.ERROR, Phase.EVALUATE, Cause.JUDGE, "judge_down", "down")
                return Evaluation(unavailable={"right": "no verdict"}, issues=(issue,))
            return Evaluation(metrics={"right": True})

    outcome = run(tmp_path, Judged, max_retries=1, retry_backoff_s=0)
    assert (len(calls), outcome.report.metrics.primary.value) == (2, 1.0)
    assert outcome.dropped()[0]["issue"]["code"] == "judge_down"


def test_the_retry_reuses_the_plan_and_a_new_attempt_plans_again(tmp_path):
    *parts, _ = failing("run", 1)
    outcome = run(tmp_path, *parts, k=2, max_retries=1, retry_backoff_s=0)
    plans = (outcome.run_dir / "plans.jsonl").read_text("utf-8").splitlines()
    assert len(plans) == 2
    assert outcome.dropped()[0]["plan"]["environment_id"] == "recording"


def test_the_budget_is_of_the_attempt_and_shared_by_its_phases(tmp_path):
    steps = []

    class Graded(Answers):
        async def evaluate(self, prepared, result, session):
            steps.append("evaluate")
            raise EvaluatorFault("never")

    class Tested(Agent):
        async def act(self, session, task, context):
            steps.append("run")
            if steps.count("run") % 2 == 1:
                raise AgentFault("first try of each attempt")
            return "a"

    outcome = run(tmp_path, Graded, Tested, k=2, max_retries=2, retry_backoff_s=0)
    assert steps == ["run", "run", "evaluate", "evaluate"] * 2
    assert [outcome.record("t1", n)["retry_count"] for n in (1, 2)] == [2, 2]


@pytest.mark.parametrize(
    ("patterns", "error", "tries"),
    [
        (None, "anything", 3),
        ((), "anything", 1),
        (("rate.?limit",), "rate limit hit", 3),
        (("rate.?limit",), "disk on fire", 1),
        (("^never$", "fire"), "disk on fire", 3),
    ],
)
@pytest.mark.parametrize("returned", [False, True])
def test_which_errors_are_repeated(tmp_path, patterns, error, tries, returned):
    calls = []

    class Tested(Agent):
        async def act(self, session, task, context):
            calls.append(1)
            if returned:
                return RunResult(error=error)
            raise AgentFault(error)

    outcome = run(
        tmp_path, Answers, Tested, max_retries=2, retry_pattern_list=patterns, retry_backoff_s=0
    )
    assert len(calls) == tries
    assert error in outcome.record()["error"]
    matched = [d["matched_pattern"] for d in outcome.dropped()]
    expected = "*" if patterns is None else next((p for p in patterns if re.search(p, error)), None)
    assert matched == [expected] * (tries - 1)


def test_an_empty_error_is_no_error(tmp_path):
    class Tested(Agent):
        async def act(self, session, task, context):
            return RunResult(final_answer="a", error="")

    outcome = run(tmp_path, Answers, Tested, max_retries=2)
    assert (outcome.record()["status"], outcome.record()["retry_count"]) == ("completed", 0)


def test_a_permanent_error_is_repeated_only_for_a_pattern_that_matches(tmp_path):
    calls = []

    class Tested(Agent):
        async def act(self, session, task, context):
            calls.append(1)
            raise ModelFault("context length exceeded", code="context_exceeded", permanent=True)

    outcome = run(tmp_path / "any", Answers, Tested, max_retries=3, retry_backoff_s=0)
    assert len(calls) == 1
    assert outcome.codes() == [
        "fatal run model_provider context_exceeded",
        "warning run model_provider not_retried",
    ]
    assert "permanent" in outcome.record()["issues"][1]["message"]
    run(
        tmp_path / "named", Answers, Tested,
        max_retries=3, retry_pattern_list=("context length",), retry_backoff_s=0,
    )  # fmt: skip
    assert len(calls) == 1 + 4


def test_what_is_kept_of_a_dropped_try(tmp_path):
    class Tested(Agent):
        async def act(self, session, task, context):
            context.artifact_path("notes.txt").write_text(f"try {len(tries)}")
            tries.append(1)
            if len(tries) == 1:
                return RunResult(
                    final_answer="half", error="gave up", telemetry={"odd": float("nan")}
                )
            return "a"

    tries = []
    outcome = run(tmp_path, Answers, Tested, max_retries=1, retry_backoff_s=0)
    (dropped,) = outcome.dropped()
    assert dropped["task_id"] == "t1"
    assert (dropped["attempt"], dropped["try"]) == (1, 1)
    assert (dropped["phase"], dropped["scope"]) == ("run", "attempt")
    assert dropped["issue"]["message"] == "gave up"
    assert dropped["result"]["final_answer"] == "half"
    assert dropped["result"]["telemetry"] == {"odd": "nan"}
    assert dropped["plan"]["evaluation_mode"] == "none"
    notes = outcome.run_dir.glob("retry_details/*/attempt-1/1/artifacts/notes.txt")
    assert [path.read_text() for path in notes] == ["try 0"]
    kept = outcome.run_dir.glob("details/normal/*/attempt-1/artifacts/notes.txt")
    assert [path.read_text() for path in kept] == ["try 1"]
    retried = [e for e in outcome.events if e["event"] == "attempt.retry"]
    assert [(e["task_id"], e["attempt"], e["message"]) for e in retried] == [("t1", 1, "gave up")]


def test_a_dropped_try_leaves_no_issue_in_what_is_counted(tmp_path):
    *parts, _ = failing("run", 1)
    outcome = run(tmp_path, *parts, max_retries=1, retry_backoff_s=0)
    assert outcome.record()["issues"] == []
    assert outcome.report.issue_codes == {}
    assert json.loads((outcome.run_dir / "summary.json").read_text("utf-8"))["issues"] == {}


def test_when_retries_run_out_the_record_keeps_the_last_failure(tmp_path):
    calls = []

    class Tested(Agent):
        async def act(self, session, task, context):
            calls.append(1)
            raise ValueError(f"failure {len(calls)}")

    outcome = run(tmp_path, Answers, Tested, max_retries=2, retry_backoff_s=0)
    record = outcome.record()
    assert record["retry_count"] == 2
    assert "failure 3" in record["error"]
    assert "Traceback" in record["error"]
    assert [d["issue"]["message"] for d in outcome.dropped()] == [
        "ValueError: failure 1",
        "ValueError: failure 2",
    ]


def test_a_retry_repeats_no_other_attempt(tmp_path):
    ran = []

    class Tested(Agent):
        async def act(self, session, task, context):
            ran.append((task.id, context.attempt))
            if ran.count(("t1", 2)) == 1 and (task.id, context.attempt) == ("t1", 2):
                raise AgentFault("once")
            return "a"

    run(tmp_path, Answers, Tested, k=3, max_retries=1, retry_backoff_s=0)
    assert ran == [("t1", 1), ("t1", 2), ("t1", 2), ("t1", 3)]


class Three(Answers):
    given = tasks("a", "b", "c")


def test_the_back_off_holds_no_worker_and_comes_before_new_tasks(tmp_path):
    clock = FakeClock()
    order, second_runs = [], asyncio.Event()

    class Tested(Agent):
        async def act(self, session, task, context):
            order.append(task.id)
            if order == ["t1"]:
                raise AgentFault("once")
            if order == ["t1", "t2"]:
                second_runs.set()
                await go_on.wait()
            return task.task.target

    go_on = asyncio.Event()

    async def played():
        wanted = request(tmp_path, Three, Tested, concurrency=1, max_retries=1, retry_backoff_s=10)
        running = asyncio.ensure_future(proctor.arun(wanted, clock=clock))
        await second_runs.wait()  # t2 has t1's worker while t1 waits
        clock.advance(10)  # t1 is due now, t3 is not started yet
        go_on.set()
        return Outcome(await running)

    outcome = within(30, played)
    assert order == ["t1", "t2", "t1", "t3"]
    usage = outcome.record("t1")["usage"]
    assert 5 <= usage["waiting_s"] <= 10
    assert usage["wall_s"] == 0
    assert outcome.report.exit_code == 0


@pytest.mark.parametrize(
    ("asked_s", "tries", "least_s"), [(42.0, 2, 42.0), (0.0, 2, 1.0), (86_400.0, 1, None)]
)
def test_the_wait_that_was_asked_for_is_honoured_up_to_a_limit(tmp_path, asked_s, tries, least_s):
    clock = FakeClock(jump_at=2)  # the heartbeat sleeps too
    calls = []

    class Tested(Agent):
        async def act(self, session, task, context):
            calls.append(clock.monotonic())
            if len(calls) == 1:
                raise ModelFault("too many requests", retry_after_s=asked_s)
            return "a"

    wanted = request(tmp_path, Answers, Tested, max_retries=1, retry_backoff_s=2)
    within(30, lambda: proctor.arun(wanted, clock=clock))
    assert len(calls) == tries
    if least_s is not None:
        assert least_s <= calls[1] - calls[0] <= max(least_s, 2.0)


def test_a_stop_during_the_back_off_ends_at_once_and_is_resumable(tmp_path):
    calls = []

    class Tested(Agent):
        async def act(self, session, task, context):
            calls.append(1)
            if len(calls) == 1:
                raise AgentFault("once")
            return "a"

    async def stopped():
        clock, stop = FakeClock(), proctor.evals.stopping.Stop()
        wanted = request(tmp_path, Answers, Tested, max_retries=1, retry_backoff_s=1000)
        running = asyncio.ensure_future(proctor.arun(wanted, clock=clock, stop=stop))
        await clock.asleep(2)  # the heartbeat, and the back-off
        stop.request()
        return Outcome(await running)

    outcome = within(30, stopped)
    assert (outcome.report.status, outcome.records) == ("interrupted", {})
    assert outcome.report.counts.interrupted == 1
    assert resume(outcome.run_dir).report.exit_code == 0
    assert len(outcome.dropped()) == 1
