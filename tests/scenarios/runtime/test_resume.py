"""Resume in place: what is kept, graded again and run again."""

import asyncio
import json
from collections import Counter
from pathlib import Path
from typing import ClassVar

import pytest
from tests.scenarios.runtime.plugins import Agent, Answers, tasks
from tests.scenarios.runtime.runs import Outcome, request, resume, run, within

import proctor
from proctor.evals.contracts import Evaluation, TaskSpec
from proctor.evals.stopping import Stop
from proctor.kernel.errors import EnvironmentFault, RunDirectoryError


class Ten(Answers):
    """Seven right, t8 wrong, t9 loses its sandbox, t10 loses its evaluation."""

    evaluation_modes = ("fresh",)
    given = tasks(*["a"] * 7, "x", "a", "a")
    broken = True

    async def evaluate(self, prepared, result, session):
        if prepared.id == "t10" and Ten.broken:
            raise OSError("the grader crashed")
        return await super().evaluate(prepared, result, session)


class Solver(Agent):
    ran: ClassVar[Counter[str]] = Counter()

    async def act(self, session, task, context):
        Solver.ran[task.id] += 1
        if task.id == "t9" and Ten.broken:
            raise EnvironmentFault("the gateway is down")
        return "a"


@pytest.fixture
def ten(tmp_path):
    """The run of B04, and a world that works again."""
    Ten.broken = True
    Solver.ran.clear()
    outcome = run(tmp_path, Ten, Solver)
    Ten.broken = False
    Solver.ran.clear()
    return outcome


def test_exactly_what_lacks_a_valid_observation_is_done_again(ten):
    assert ten.report.exit_code == 1
    before = _results(ten.run_dir / "details" / "normal")
    again = resume(ten.run_dir)
    assert Solver.ran == {"t9": 1}  # not t8, which is wrong, nor t10, which only lacked a grade
    report = again.report
    assert (report.counts.tasks, report.counts.normal, report.counts.reused_attempts) == (10, 10, 8)
    assert report.metrics.primary.value == 0.9
    assert set(again.records) == {(f"t{n}", 1) for n in range(1, 11)}
    after = _results(ten.run_dir / "details" / "normal")
    assert (len(before), {name: after[name] for name in before}) == (8, before)
    assert again.report.exit_code == 0


def _results(folder: Path) -> dict[str, bytes]:
    return {p.parts[-3]: p.read_bytes() for p in folder.glob("*/*/result.json")}


def test_old_records_are_kept_outside_what_is_counted(ten):
    again = resume(ten.run_dir)
    old = {p.parts[-4][:3].rstrip("-"): json.loads(p.read_text())
           for p in again.run_dir.glob("retry_details/*/attempt-1/*/result.json")}  # fmt: skip
    assert {name: record["status"] for name, record in old.items()} == {
        "t9": "run_error",
        "t10": "eval_error",
    }


def test_the_summary_after_a_resume_counts_kept_issues_too(tmp_path):
    from proctor.kernel.issues import Cause, Issue, Phase, Severity

    class Warns(Answers):
        given = tasks("a", "a")
        broken = True

        async def evaluate(self, prepared, result, session):
            if prepared.id == "t2" and Warns.broken:
                raise OSError("later")
            note = Issue(Severity.WARNING, Phase.EVALUATE, Cause.AGENT, "odd_answer", "odd")
            return Evaluation(metrics={"right": True}, issues=(note,))

    outcome = run(tmp_path, Warns)
    Warns.broken = False
    resume(outcome.run_dir)
    summary = json.loads((outcome.run_dir / "summary.json").read_text("utf-8"))
    assert summary["issues"] == {"odd_answer": 2}


def test_without_its_run_info_a_directory_is_refused_and_nothing_runs(ten):
    (ten.run_dir / "run_info.json").unlink()
    with pytest.raises(RunDirectoryError, match="run info missing"):
        resume(ten.run_dir)
    assert Solver.ran == {}


def test_a_finished_run_is_left_as_it_is(tmp_path):
    class Counted(Agent):
        ran = 0

        async def act(self, session, task, context):
            Counted.ran += 1
            return "a"

    outcome = run(tmp_path, Answers, Counted, k=3)
    before = {p: (p.read_bytes(), p.stat().st_mtime_ns) for p in _records(outcome.run_dir)}
    again = resume(resume(outcome.run_dir).run_dir)
    assert Counted.ran == 3
    assert {p: (p.read_bytes(), p.stat().st_mtime_ns) for p in _records(outcome.run_dir)} == before
    assert again.report.counts.reused_attempts == 3
    assert again.report.metrics.to_json() == outcome.report.metrics.to_json()
    info = json.loads((outcome.run_dir / "run_info.json").read_text("utf-8"))
    assert [past["status"] for past in info["executions"]] == ["completed", "completed"]


def _records(run_dir: Path) -> list[Path]:
    return sorted(p for p in run_dir.glob("details/**/*") if p.is_file())


def test_of_three_attempts_only_the_missing_one_runs(tmp_path):
    ran, third = [], asyncio.Event()

    class Waits(Agent):
        async def act(self, session, task, context):
            ran.append(context.attempt)
            if len(ran) == 3:
                third.set()
                await asyncio.Event().wait()
            return "a"

    async def stopped():
        stop = Stop()
        running = asyncio.ensure_future(
            proctor.arun(request(tmp_path, Answers, Waits, k=3), stop=stop)
        )
        await third.wait()
        stop.request()
        return Outcome(await running)

    outcome = within(30, stopped)
    assert outcome.report.counts.attempts == 2
    assert resume(outcome.run_dir).report.counts.reused_attempts == 2
    assert ran == [1, 2, 3, 3]


def changing(mode: str):
    """Two tasks; `Changing.target` and `.question` are t1's, as the data says now."""

    class Changing(Answers):
        evaluation_modes = (mode,)
        target, question = "a", "q"
        graded: list[str] = []  # noqa: RUF012

        def load_tasks(self):
            return [
                TaskSpec("t1", Changing.question, Changing.target),
                TaskSpec("t2", "other", "a"),
            ]

        async def evaluate(self, prepared, result, session):
            Changing.graded.append(prepared.id)
            return await super().evaluate(prepared, result, session)

    class Counted(Agent):
        ran: list[str] = []  # noqa: RUF012

        async def act(self, session, task, context):
            Counted.ran.append(task.id)
            return "a"

    return Changing, Counted


@pytest.mark.parametrize("mode", ["none", "fresh", "reuse"])
def test_a_changed_target_is_graded_again_where_that_is_possible(tmp_path, mode):
    benchmark, harness = changing(mode)
    outcome = run(tmp_path, benchmark, harness)
    assert outcome.report.metrics.primary.value == 1.0
    benchmark.target = "b"
    harness.ran.clear()
    benchmark.graded.clear()
    again = resume(outcome.run_dir)
    assert harness.ran == (["t1"] if mode == "reuse" else [])
    assert benchmark.graded == ["t1"]
    assert again.report.metrics.primary.value == 0.5
    assert again.record("t1")["digests"]["grading"] != outcome.record("t2")["digests"]["grading"]


@pytest.mark.parametrize("mode", ["none", "fresh", "reuse"])
def test_a_changed_question_is_asked_again(tmp_path, mode):
    benchmark, harness = changing(mode)
    outcome = run(tmp_path, benchmark, harness)
    benchmark.question = "another"
    harness.ran.clear()
    again = resume(outcome.run_dir)
    assert harness.ran == ["t1"]
    assert again.report.counts.reused_attempts == 1
    resumed_line = [e for e in again.events if e["event"] == "run.resumed"][-1]
    assert (resumed_line["keep"], resumed_line["evaluate"], resumed_line["run"]) == (1, 0, 1)
