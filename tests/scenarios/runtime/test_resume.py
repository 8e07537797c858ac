"""Resume in place: what is kept, graded again and run again, and what is refused."""

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import ClassVar

import pytest
import yaml
from tests.scenarios.runtime.killing import COMMAND, LIMIT_S, Scene, examine, resumed, until
from tests.scenarios.runtime.plugins import Agent, Answers, tasks
from tests.scenarios.runtime.runs import Outcome, request, resume, run, within

import proctor
from proctor.evals.contracts import Evaluation, TaskSpec
from proctor.evals.stopping import Stop
from proctor.kernel.errors import EnvironmentFault, RunDirectoryError, RunIsLive

# --- B04


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


# --- inputs that have changed since


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


# --- damage


def test_a_torn_task_record_loses_no_announced_attempt(tmp_path):
    """`task.json` is not synced: after a power failure it may be empty."""
    outcome = run(tmp_path, Answers, k=2)
    whole = next(outcome.run_dir.glob("details/*/*/task.json"))
    text = whole.read_bytes()
    before = {p: p.read_bytes() for p in outcome.run_dir.glob("details/*/*/*/result.json")}
    for torn in (b"", text[:20], b"\0" * 50):
        whole.write_bytes(torn)
        assert [t.id for t in proctor.load(outcome.run_dir).tasks()] == ["t1"]
        again = resume(outcome.run_dir)
        assert again.report.counts.reused_attempts == 2
        assert whole.read_bytes() == text
    assert {p: p.read_bytes() for p in before} == before


def test_stray_temporary_files_are_ignored(tmp_path):
    outcome = run(tmp_path, Answers, k=2)
    for path in list(outcome.run_dir.rglob("*.json")):
        path.with_name(path.name + ".tmp").write_bytes(path.read_bytes()[:30])
    again = resume(outcome.run_dir)
    assert again.report.counts.reused_attempts == 2
    assert again.report.exit_code == 0


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("result.json", lambda data: data[:40], "damaged record"),
        ("result.json", lambda data: data.replace(b'"t1"', b'"t2"'), "record is of task 't2'"),
        ("result.json", lambda data: data.replace(b'"attempt":1', b'"attempt":2'), "attempt 2"),
        (
            "result.json",
            lambda data: data.replace(b".v1", b".v9"),
            "not a proctor.attempt.v1 record",
        ),
        ("artifacts/kept.txt", lambda data: b"other", "not the recorded one"),
        ("artifacts/kept.txt", None, "artifact missing"),
    ],
)
def test_a_record_that_is_not_what_it_was_is_refused_and_nothing_changes(
    tmp_path, name, change, message
):
    class Keeps(Agent):
        async def act(self, session, task, context):
            context.artifact_path("kept.txt").write_text("evidence")
            return "a"

    outcome = run(tmp_path, Answers, Keeps)
    path = next(outcome.run_dir.glob(f"details/*/*/attempt-1/{name}"))
    if change is None:
        path.unlink()
    else:
        path.write_bytes(change(path.read_bytes()))
    before = {p: p.read_bytes() for p in outcome.run_dir.rglob("*")
              if p.is_file() and not p.name.startswith("owner")}  # fmt: skip
    with pytest.raises(RunDirectoryError, match=message):
        resume(outcome.run_dir)
    assert {p: p.read_bytes() for p in before} == before
    assert proctor.load(outcome.run_dir).status == "completed"
    assert proctor.load(outcome.run_dir).live_owner is None


def test_what_is_graded_again_is_what_the_agent_left(tmp_path):
    class Keeps(Agent):
        async def act(self, session, task, context):
            context.artifact_path("kept.txt").write_text("evidence")
            return "a"

    class Crashes(Answers):
        async def evaluate(self, prepared, result, session):
            raise OSError("no grade yet")

    outcome = run(tmp_path, Crashes, Keeps)
    next(outcome.run_dir.glob("details/*/*/attempt-1/artifacts/kept.txt")).write_text("forged")
    Crashes.evaluate = Answers.evaluate
    with pytest.raises(RunDirectoryError, match="not the recorded one"):
        resume(outcome.run_dir)


@pytest.mark.parametrize("trick", ["pipe", "link", "outside"])
def test_an_artifact_that_is_no_file_of_the_attempt_is_not_opened(tmp_path, trick):
    """A directory from elsewhere may hold a pipe, which would block the reader for ever."""

    class Keeps(Agent):
        async def act(self, session, task, context):
            context.artifact_path("kept.txt").write_text("evidence")
            return "a"

    outcome = run(tmp_path, Answers, Keeps)
    kept = next(outcome.run_dir.glob("details/*/*/attempt-1/artifacts/kept.txt"))
    kept.unlink()
    if trick == "pipe":
        os.mkfifo(kept)
    elif trick == "link":
        kept.symlink_to("/dev/zero")
    else:
        record = kept.parents[1] / "result.json"
        record.write_text(record.read_text().replace("kept.txt", "../../../../../../x"))
    with pytest.raises(RunDirectoryError, match="artifact missing"):
        resume(outcome.run_dir)


@pytest.mark.parametrize("text", [b"", b"[]", b"{}", b'{"status": "running"}', b"\xff"])
def test_a_damaged_run_info_is_refused(tmp_path, text):
    outcome = run(tmp_path, Answers)
    (outcome.run_dir / "run_info.json").write_bytes(text)
    with pytest.raises(RunDirectoryError):
        resume(outcome.run_dir)


def test_a_run_directory_may_be_moved(tmp_path):
    outcome = run(tmp_path, Answers, k=2)
    moved = tmp_path / "elsewhere with blanks"
    shutil.copytree(outcome.run_dir, moved)
    shutil.rmtree(tmp_path / "results")
    assert resume(moved).report.counts.reused_attempts == 2


# --- who owns it


@pytest.mark.slow
def test_a_live_run_is_refused_and_a_dead_one_is_not(tmp_path):
    scene = Scene(tmp_path, COMMAND, tasks=2, k=1, works_s=60, concurrency=2)
    process = scene.run()
    try:
        assert until(lambda: len(scene.told("run")) == 2)
        assert proctor.load(scene.run_dir).status == "running"
        with pytest.raises(RunIsLive, match=f"in use by process {process.pid} on"):
            resume(scene.run_dir)
        other = scene.resume()
        assert other.wait(LIMIT_S) == 2
        assert scene.output()["error"]["code"] == "run_is_live"
        assert process.poll() is None
    finally:
        process.kill()
        process.wait(LIMIT_S)
        for agent in scene.processes():
            os.kill(int(agent.split()[0]), signal.SIGKILL)
    assert proctor.load(scene.run_dir).status == "dead"


# --- B02, B05: real processes, killed and short of disk space


AGENT = """
import os
async def agent(task, session, model):
    with open({log!r}, "a") as log:
        log.write(f"{{task.id}}\\n")
    reply = await model.complete([{{"role": "user", "content": task.input}}])
    return reply.text
"""


@pytest.mark.slow
def test_replaying_from_storage_gives_the_same_distinct_observations(tmp_path):
    """B02: killed after attempt 3 is stored and before anything is summed up."""
    log = tmp_path / "calls"
    (tmp_path / "agent.py").write_text(AGENT.format(log=str(log)))
    rule = {"when": {"task": "t1"}, "by": "attempt", "replies": ["no", "yes", "no"]}
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump({"version": 1, "rules": [rule]}))
    (tmp_path / "rows.jsonl").write_text('{"id": "t1", "input": "?", "target": "yes"}\n')
    arguments = [
        "run", "--benchmark", "table", "--data", "rows.jsonl", "--harness", "python",
        "-p", "harness.callable=agent.py:agent", "--model", "scripted:rules.yaml", "-k", "3",
        "--run-id", "r", "--progress", "none",
    ]  # fmt: skip
    faults = ["--at", "summary.begin", "--do", "kill", "--"]
    assert _python(tmp_path, "proctor.testing.faults", *faults, *arguments) == -signal.SIGKILL
    assert log.read_text("utf-8").count("\n") == 3
    run_dir = next(tmp_path.glob("results/*/*/*/r"))
    assert proctor.load(run_dir).status == "dead"
    assert _python(tmp_path, "proctor", "resume", str(run_dir)) == 0
    assert log.read_text("utf-8").count("\n") == 3
    found = proctor.load(run_dir)
    assert [a.final_answer for a in found.attempts()] == ["no", "yes", "no"]
    values = {name: s.value for name, s in found.metrics.series["correct"].items()}
    assert values["avg@3"] == values["pass@1"] == pytest.approx(1 / 3)
    assert values["pass@3"] == 1.0


def _python(place: Path, module: str, *arguments: str) -> int:
    done = subprocess.run(
        [sys.executable, "-m", module, *arguments],
        cwd=place, capture_output=True, timeout=LIMIT_S, check=False,
    )  # fmt: skip
    return done.returncode


@pytest.mark.slow
def test_killed_right_after_the_second_announcement_only_the_third_runs(tmp_path):
    """B05: log lines are run.started, then one an attempt."""
    scene = Scene(tmp_path, COMMAND, tasks=1, k=3)
    process = scene.run(("--at", "log.done", "--hit", "3", "--do", "kill"))
    assert process.wait(LIMIT_S) == -signal.SIGKILL
    left = examine(scene)
    assert left.announced == {("t1", 1), ("t1", 2)}
    resumed(scene, left)
    assert scene.told("run") == {("t1", 1): 1, ("t1", 2): 1, ("t1", 3): 1}


@pytest.mark.slow
def test_a_disk_that_is_full_half_way_through_a_record_ends_the_run_and_loses_nothing(tmp_path):
    """B05: the fourth record meets `no space left` after half of its bytes."""
    scene = Scene(tmp_path, COMMAND, tasks=2, k=3, concurrency=1)
    process = scene.run(("--at", "result.partial", "--hit", "4", "--do", "enospc"))
    assert process.wait(LIMIT_S) == 3
    report = scene.output()["runs"][0]
    assert report["status"] == "failed"
    assert "No space left on device" in report["error"]
    assert "proctor resume" in report["error"]
    left = examine(scene)
    assert left.announced == {("t1", 1), ("t1", 2), ("t1", 3)}
    found = proctor.load(scene.run_dir)
    assert (found.status, found.live_owner) == ("failed", None)
    assert "No space left" in found.info["error"]
    stray = scene.run_dir / "details" / "running" / "t2.json.tmp"
    stray.write_bytes(b'{"half')
    resumed_process = scene.resume()
    assert resumed_process.wait(LIMIT_S) == 0
    assert scene.output()["runs"][0]["counts"]["reused_attempts"] == 3
    after = scene.files("result.json")
    assert {key: after[key] for key in left.results} == left.results
    assert set(after) == scene.grid
    assert set(scene.told("run", resumed_process.pid)) == {("t2", 2), ("t2", 3)}
