"""B04: resume runs exactly what has no valid observation, and reports over all tasks."""

import pytest
from tests.scenarios.launches.reusing import Quizzed, tree

import proctor

ANSWERS = {"t8": "wrong", "t9": "lost", "t10": "unreadable"}
"""t1 to t7 are right; t9 has no observation; t10's agent finished, its evaluation crashed."""


def test_b04_only_what_has_no_valid_observation_is_done_again(quizzes):
    harness = {"answers": ANSWERS}
    ran = quizzes.run(harness=harness, benchmark={"mode": "fresh"}, evaluation_mode="fresh")
    counts = ran.report.counts
    assert (counts.normal, counts.error, counts.fatal) == (8, 1, 1)
    assert ran.record("t10")["status"] == "eval_error"
    before = {key: text for key, text in tree(ran.run_dir).items() if "/t8--" in key}

    again = quizzes.resume(ran.run_dir)
    assert again.called == {"t9": 1}
    assert again.graded == {"t10": 1}
    assert again.report.counts.reused_attempts == 8
    totals = {s.total for s in again.report.metrics.series["right"].values()}
    assert totals == {10}
    assert len(again.records) == 10
    after = {key: text for key, text in tree(ran.run_dir).items() if "/t8--" in key}
    assert after == before  # the wrong answer is a result
    assert again.plan["keep"], again.plan["evaluate"]
    assert again.notes[-1] == ("earlier work: 8 attempts kept, 1 graded again, 1 run again, 0 new")


def test_b04_without_its_run_info_a_directory_is_not_resumed(quizzes):
    ran = quizzes.run(harness={"answers": ANSWERS})
    (ran.run_dir / "run_info.json").unlink()
    before = tree(ran.run_dir)
    Quizzed.calls.clear()
    with pytest.raises(proctor.RunDirectoryError, match="run info missing"):
        quizzes.resume(ran.run_dir)
    assert Quizzed.calls == {}
    assert tree(ran.run_dir) == before


def test_a_finished_run_resumes_to_the_same_report(quizzes):
    ran = quizzes.run(limit=4, k=2)
    again = quizzes.resume(ran.run_dir)
    assert again.called == again.graded == {}
    assert again.report.metrics == ran.report.metrics
    assert again.report.counts.reused_attempts == 8


def test_a_strategy_that_needs_no_more_attempts_runs_none(quizzes):
    """Strategy pass: attempt 1 was lost, attempt 2 succeeded. Nothing is missing; what was lost
    is no longer counted and no longer lies among what is."""
    quizzes.write({"t1": "yes"})
    ran = quizzes.run(attempts={"k": 3, "strategy": "pass"})
    assert ran.called == {"t1": 1}
    folder = next(ran.run_dir.glob("details/normal/t1--*"))
    (folder / "attempt-1").rename(folder / "attempt-2")
    record = folder / "attempt-2" / "result.json"
    record.write_text(record.read_text("utf-8").replace('"attempt":1', '"attempt":2'), "utf-8")
    lost = folder / "attempt-1"
    lost.mkdir()
    text = record.read_text("utf-8").replace('"attempt":2', '"attempt":1')
    (lost / "result.json").write_text(text.replace('"right":true', '"other":true'), "utf-8")
    again = quizzes.resume(ran.run_dir)
    assert again.called == {}
    assert sorted(again.records) == [("t1", 2)]
    assert list(again.run_dir.glob("retry_details/t1--*/attempt-1/1/result.json"))
    assert again.report.metrics.primary.value == 1.0


def test_a_stored_record_of_a_task_that_is_no_longer_selected_is_left_alone(quizzes):
    ran = quizzes.run(limit=3)
    quizzes.write({"t1": "yes", "t3": "yes"})
    again = quizzes.resume(ran.run_dir)
    assert again.called == {}
    assert again.report.counts.tasks == 2
    assert list(ran.run_dir.glob("details/normal/t2--*"))
