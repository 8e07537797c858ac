"""Which runs may be a source of reuse; the others are refused before anything runs."""

import json
import shutil

import pytest
from tests.scenarios.launches.process import request_file, rooms_request
from tests.scenarios.launches.reusing import Quiz, Quizzed, tree

import proctor


@pytest.fixture(autouse=True)
def few_tasks(quizzes):
    quizzes.write({"t1": "yes", "t2": "yes"})


def refused(quizzes, source, **changes):
    """The message; nothing ran, and the results tree is as it was."""
    results = quizzes.place / "results"
    before = tree(results)
    with pytest.raises(proctor.UsageError) as error:
        quizzes.run(proctor.Earlier(str(source)), **changes)
    assert Quizzed.calls == {}
    assert tree(results) == before
    return error.value.message


def test_a_source_that_is_not_there(quizzes):
    quizzes.run()
    assert "no such run directory" in refused(quizzes, quizzes.place / "nowhere")


def test_a_source_of_another_benchmark(quizzes):
    source = quizzes.run()
    info = source.run_dir / "run_info.json"
    info.write_text(info.read_text("utf-8").replace('"id": "quiz"', '"id": "other"'), "utf-8")
    message = refused(quizzes, source.run_dir)
    assert "it is of benchmark 'other', the request of 'quiz'" in message


@pytest.mark.parametrize("changes", [{"k": 2}, {"attempts": {"k": 1, "strategy": "pass"}}])
def test_a_source_with_another_attempt_plan(quizzes, changes):
    assert "attempt plan" in refused(quizzes, quizzes.run().run_dir, **changes)


def test_a_source_without_a_finished_attempt(quizzes):
    source = quizzes.run()
    shutil.rmtree(source.run_dir / "details")
    assert "no finished attempt" in refused(quizzes, source.run_dir)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"schema_version": "proctor.run_info.v99"}'])
def test_a_source_whose_run_info_is_damaged(quizzes, text):
    source = quizzes.run()
    (source.run_dir / "run_info.json").write_text(text, "utf-8")
    message = refused(quizzes, source.run_dir)
    assert "run info" in message or "run_info" in message


@pytest.mark.parametrize("version", ["v2", "v0"])
def test_a_run_of_another_version_is_refused_clearly(quizzes, version):
    source = quizzes.run()
    info = source.run_dir / "run_info.json"
    info.write_text(info.read_text("utf-8").replace("run_info.v1", f"run_info.{version}"), "utf-8")
    assert "not a proctor.run_info.v1 document" in refused(quizzes, source.run_dir)
    with pytest.raises(proctor.RunDirectoryError, match=r"not a proctor\.run_info\.v1"):
        quizzes.resume(source.run_dir)


def test_a_source_with_a_damaged_record(quizzes):
    source = quizzes.run()
    [path] = source.run_dir.glob("details/normal/t1--*/attempt-1/result.json")
    path.write_bytes(path.read_bytes()[:100])
    assert "damaged record" in refused(quizzes, source.run_dir)


def test_a_source_with_a_record_of_a_newer_version(quizzes):
    source = quizzes.run()
    [path] = source.run_dir.glob("details/normal/t1--*/attempt-1/result.json")
    path.write_text(path.read_text("utf-8").replace("proctor.attempt.v1", "proctor.attempt.v2"))
    assert "not a proctor.attempt.v1 record" in refused(quizzes, source.run_dir)


def test_a_source_with_a_record_of_another_task(quizzes):
    source = quizzes.run()
    [path] = source.run_dir.glob("details/normal/t1--*/attempt-1/result.json")
    path.write_text(path.read_text("utf-8").replace('"task_id":"t1"', '"task_id":"t2"'))
    assert "found under task 't1'" in refused(quizzes, source.run_dir)


@pytest.mark.slow
def test_a_source_that_is_at_work(tmp_path, events, start):
    made = rooms_request(tmp_path)
    process = start("run", request_file(tmp_path, made), events=events, hold="run")
    events.until("run")
    [run_dir] = (tmp_path / "results").glob("*/*/*/*")
    made["runtime"] = {"results_dir": str(tmp_path / "other")}
    with pytest.raises(proctor.RunIsLive) as live:
        proctor.run(made, earlier=proctor.Earlier(str(run_dir)))
    assert f"process {process.process.pid} on " in live.value.message
    assert not (tmp_path / "other").exists()
    # The newest run of the namespace is that one; it is passed over, and nothing else is there.
    made["runtime"] = {"results_dir": str(tmp_path / "results")}
    report = proctor.run(made, earlier=proctor.Earlier())
    assert (report.counts.normal, report.counts.reused_attempts) == (3, 0)


def test_the_newest_run_of_the_same_namespace_is_taken(quizzes):
    older, newer = quizzes.run(limit=1), quizzes.run()
    assert older.run_dir.parent == newer.run_dir.parent
    ran = quizzes.run(proctor.Earlier())
    assert ran.called == {}
    assert str(newer.run_dir) in ran.notes[-1]


def test_runs_that_are_empty_or_unreadable_are_passed_over(quizzes):
    first, empty, damaged = quizzes.run(), quizzes.run(), quizzes.run()
    shutil.rmtree(empty.run_dir / "details")
    (damaged.run_dir / "run_info.json").write_text("{", "utf-8")
    ran = quizzes.run(proctor.Earlier())
    assert (ran.called, ran.report.counts.reused_attempts) == ({}, 2)
    assert str(first.run_dir) in ran.notes[-1]


def test_another_namespace_is_never_searched(quizzes):
    """The run of another harness lies beside, and is newer."""
    quizzes.run(model={})
    ran = quizzes.run(proctor.Earlier())
    assert ran.called == {"t1": 1, "t2": 1}
    assert ran.report.counts.reused_attempts == 0


def test_exact_ids_are_compared_not_directory_names(quizzes):
    quizzes.write({"a/b": "yes"})
    first = quizzes.run()
    quizzes.write({"a_b": "yes"})
    ran = quizzes.run(proctor.Earlier(str(first.run_dir)))
    assert ran.called == {"a_b": 1}


def test_artifacts_are_copied_whole_and_checked(quizzes, monkeypatch):
    async def with_artifacts(self, prepared, result, session):
        return proctor.Evaluation(
            metrics={"right": True},
            artifacts={"result.json": b"{}", "sub/kept.tmp": b"a name of no meaning"},
        )

    with monkeypatch.context() as patched:
        patched.setattr(Quiz, "evaluate", with_artifacts)
        first = quizzes.run(limit=1)
    ran = quizzes.run(proctor.Earlier(str(first.run_dir)), limit=1)
    assert ran.called == {}
    [folder] = ran.run_dir.glob("details/normal/t1--*/attempt-1/artifacts")
    assert (folder / "sub" / "kept.tmp").read_bytes() == b"a name of no meaning"
    assert (folder / "result.json").read_bytes() == b"{}"
    (folder / "result.json").write_bytes(b"[]")
    assert "not the recorded one" in refused(quizzes, ran.run_dir, limit=1)


def test_the_copy_is_complete_by_itself(quizzes):
    """The source may go away; the new run can still be resumed, reused and read."""
    first = quizzes.run()
    ran = quizzes.run(proctor.Earlier(str(first.run_dir)))
    shutil.rmtree(first.run_dir)
    assert quizzes.resume(ran.run_dir).called == {}
    moved = quizzes.place / "elsewhere"
    shutil.copytree(ran.run_dir, moved)
    assert [a.metrics for a in proctor.load(moved).attempts()] == [{"right": True}] * 2
    plans = [json.loads(line) for line in (moved / "plans.jsonl").read_text().splitlines()]
    assert {line["task_id"] for line in plans} == {"t1", "t2"}
    assert "plan" in plans[0]


def test_a_stored_run_is_graded_with_the_new_settings(quizzes):
    """The agent finished, the evaluation crashed; the new request has another scorer."""
    first = quizzes.run(benchmark={"scorer": "crash"})
    assert first.report.counts.error == 2
    ran = quizzes.run(proctor.Earlier(str(first.run_dir)), benchmark={"scorer": "includes"})
    assert (ran.called, ran.graded) == ({}, {"t1": 1, "t2": 1})
    assert ran.report.metrics.primary.value == 1.0
    digests = ran.record("t1")["digests"]
    assert digests["harness"] == first.record("t1")["digests"]["harness"]
