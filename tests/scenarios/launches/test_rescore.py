"""`rescore` grades stored runs again, into a new run; nothing else runs."""

import pytest
from tests.scenarios.launches.reusing import Quizzed, tree

import proctor


@pytest.fixture(autouse=True)
def few_tasks(quizzes):
    quizzes.write({"t1": "yes", "t2": "yes", "t3": "yes"})


INCLUDES = {"benchmark": {"scorer": "includes"}}


def test_another_scorer(quizzes):
    first = quizzes.run(k=2, harness={"answers": {"t2": "well, yes"}})
    assert first.report.metrics.primary.value == pytest.approx(2 / 3)
    before = tree(first.run_dir)
    ran = quizzes.rescore(first.run_dir, **INCLUDES)
    assert (ran.called, ran.graded) == ({}, {"t1": 2, "t2": 2, "t3": 2})
    assert ran.report.metrics.primary.value == 1.0
    assert tree(first.run_dir) == before
    assert ran.run_dir.parent == first.run_dir.parent
    old, new = first.record("t2")["digests"], ran.record("t2")["digests"]
    assert {name for name in old if old[name] != new[name]} == {"grading"}
    assert ran.record("t2", 1)["final_answer"] == "well, yes"
    assert proctor.load(ran.run_dir).info["reuse"]["rescore"] is True
    assert "6 graded again, 0 left out" in ran.notes[-2] + ran.notes[-1]


def test_the_same_scorer_grades_again_too(quizzes):
    first = quizzes.run()
    assert quizzes.rescore(first.run_dir).graded == {"t1": 1, "t2": 1, "t3": 1}


def test_mode_reuse_is_refused(quizzes):
    first = quizzes.run(evaluation_mode="reuse")
    before = tree(quizzes.place / "results")
    with pytest.raises(proctor.UsageError, match="the agent's own environment, which is gone"):
        quizzes.rescore(first.run_dir)
    assert tree(quizzes.place / "results") == before


def test_what_has_no_stored_run_stays_without_a_record(quizzes):
    """t2's agent was lost: there is nothing to grade, and nothing runs."""
    first = quizzes.run(harness={"answers": {"t2": "lost"}})
    ran = quizzes.rescore(first.run_dir, **INCLUDES)
    assert (ran.called, ran.graded) == ({}, {"t1": 1, "t3": 1})
    [series] = {(s.evaluated, s.total) for s in ran.report.metrics.series["right"].values()}
    assert series == (2, 3)
    assert ran.report.exit_code == 1
    assert "1 left out: no run of theirs can be graded" in " ".join(ran.notes)


def test_an_answer_to_another_question_is_not_graded(quizzes):
    """Only grading may change; the rest would be another run."""
    first = quizzes.run()
    quizzes.write({"t1": "yes", "t2": "yes", "t3": "yes"}, question="why")
    ran = quizzes.rescore(first.run_dir, **INCLUDES)
    assert (ran.called, ran.graded, ran.report.counts.attempts) == ({}, {}, 0)
    assert ran.plan["changed"] == {"input": 3, "grading": 3}


@pytest.mark.parametrize("state", ["copied", "copying"])
def test_a_rescore_that_was_cut_off_goes_on_as_one(quizzes, state):
    """Resumed, it grades what is missing; it never runs the agent."""
    first = quizzes.run(harness={"answers": {"t2": "lost"}})
    ran = quizzes.rescore(first.run_dir, **INCLUDES)
    [folder] = ran.run_dir.glob("details/normal/t1--*")
    (folder / "attempt-1" / "result.json").unlink()
    if state == "copying":  # before t3 was there
        info = ran.run_dir / "run_info.json"
        text = info.read_text("utf-8").replace('"copied": true', '"copied": false')
        info.write_text(text, "utf-8")
        [third] = ran.run_dir.glob("details/normal/t3--*")
        third.rename(quizzes.place / "gone")
        (ran.run_dir / "details" / "running").mkdir()
        folder.rename(ran.run_dir / "details" / "running" / folder.name)
    again = quizzes.resume(ran.run_dir)
    assert again.called == {}
    assert again.graded == ({"t1": 1} if state == "copied" else {"t1": 1, "t3": 1})
    assert sorted(again.records) == [("t1", 1), ("t3", 1)]


def test_a_missing_artifact_is_refused(quizzes, monkeypatch):
    async def act(self, session, task, context):
        context.artifacts_dir.mkdir(parents=True)
        (context.artifacts_dir / "log").write_text("x")
        return "yes"

    with monkeypatch.context() as patched:
        patched.setattr(Quizzed, "act", act)
        first = quizzes.run()
    [path] = first.run_dir.glob("details/normal/t1--*/attempt-1/artifacts/log")
    path.write_text("y")
    with pytest.raises(proctor.RunDirectoryError, match="not the recorded one"):
        quizzes.rescore(first.run_dir)
