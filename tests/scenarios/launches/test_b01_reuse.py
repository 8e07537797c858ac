"""B01: reuse is decided per task and attempt against what the new request needs."""

import random

import pytest
from tests.scenarios.launches.reusing import Quizzed, tree

import proctor

IDS = [f"t{n}" for n in range(1, 11)]


@pytest.fixture
def first(quizzes):
    """Run A: one task, one attempt."""
    ran = quizzes.run(limit=1)
    assert ran.called == {"t1": 1}
    return ran


def from_(ran, **more):
    return proctor.Earlier(str(ran.run_dir), **more)


def test_b01a_more_tasks_run_only_what_is_missing(quizzes, first):
    before = tree(first.run_dir)
    ran = quizzes.run(from_(first), limit=10)
    assert ran.called == dict.fromkeys(IDS[1:], 1)
    assert ran.report.metrics.primary.value == 1.0
    [series] = {s.total for s in ran.report.metrics.series["right"].values()}
    assert series == 10
    assert (ran.report.counts.attempts, ran.report.counts.reused_attempts) == (10, 1)
    assert tree(first.run_dir) == before
    assert ran.run_dir != first.run_dir
    copied, original = ran.record("t1"), first.record("t1")
    assert copied == original
    plans = (ran.run_dir / "plans.jsonl").read_text("utf-8")
    assert copied["plan"] in plans
    assert ran.notes[-1] == (
        f"earlier work from {first.run_dir}: 1 attempts kept, 0 graded again, 0 run again, 9 new"
    )


def test_b01b_another_attempt_plan_is_refused(quizzes, first):
    results = tree(quizzes.place / "results")
    with pytest.raises(proctor.RunDirectoryError) as refused:
        quizzes.run(from_(first), limit=1, k=3)
    assert "its attempt plan is k=1 'avg', the request's is k=3 'avg'" in str(refused.value)
    assert Quizzed.calls == {}
    assert tree(quizzes.place / "results") == results


def test_b01c_other_tasks_reuse_nothing(quizzes, first):
    seed = next(s for s in range(100) if "t1" not in shuffled(s)[:3])
    ran = quizzes.run(from_(first), limit=3, seed=seed)
    assert ran.called == dict.fromkeys(shuffled(seed)[:3], 1)
    assert (ran.report.counts.attempts, ran.report.counts.reused_attempts) == (3, 0)
    assert sorted(task for task, _ in ran.records) == sorted(shuffled(seed)[:3])


def shuffled(seed):
    ids = list(IDS)
    random.Random(seed).shuffle(ids)
    return ids


def test_b01d_another_configuration_is_never_reused_silently(quizzes, first):
    servers = {"servers": ["search"]}
    ran = quizzes.run(from_(first), limit=1, harness=servers)
    assert ran.called == {"t1": 1}
    assert ran.notes[-1] == "  harness changed in 1 attempts: not reused as they are"
    assert ran.record("t1")["digests"]["harness"] != first.record("t1")["digests"]["harness"]

    anyway = quizzes.run(from_(first, anyway=True), limit=1, harness=servers)
    assert anyway.called == {}
    assert anyway.notes[-1] == "  harness changed in 1 attempts: kept anyway"
    record = anyway.record("t1")
    assert record["digests"] == first.record("t1")["digests"]
    assert record["reuse"]["run"] == str(first.run_dir)
    assert record["reuse"]["changed"] == ["harness"]
    assert record["reuse"]["accepted"] == {"harness": ran.record("t1")["digests"]["harness"]}


def test_what_was_kept_anyway_stays_kept(quizzes, first):
    servers = {"servers": ["search"]}
    kept = quizzes.run(from_(first, anyway=True), limit=1, harness=servers)
    again = quizzes.resume(kept.run_dir)
    assert (again.called, again.report.counts.reused_attempts) == ({}, 1)
    copied = quizzes.run(from_(kept), limit=1, harness=servers)
    assert (copied.called, copied.record("t1")) == ({}, kept.record("t1"))
    other = quizzes.run(from_(kept), limit=1, harness={"servers": ["search", "mail"]})
    assert other.called == {"t1": 1}


def test_partly_done_tasks_run_only_the_missing_attempts(quizzes):
    ran = quizzes.run(limit=2, k=3)
    folder = next(ran.run_dir.glob("details/normal/t2--*"))
    for number in (2, 3):
        for path in (folder / f"attempt-{number}").iterdir():
            path.unlink()
    again = quizzes.run(from_(ran), limit=2, k=3)
    assert again.called == {"t2": 2}
    assert again.report.counts.reused_attempts == 4
    assert sorted(again.records) == [(t, n) for t in ("t1", "t2") for n in (1, 2, 3)]


def test_a_failed_attempt_goes_aside_in_the_new_directory_only(quizzes):
    ran = quizzes.run(limit=2, harness={"answers": {"t2": "lost"}})
    assert ran.state("t2") == "fatal"
    before = tree(ran.run_dir)
    again = quizzes.run(from_(ran), limit=2, harness={"answers": {"t2": "lost"}})
    assert again.called == {"t2": 1}
    assert tree(ran.run_dir) == before
    assert again.state("t2") == "fatal"
    assert not list(again.run_dir.glob("retry_details/t2--*"))  # nothing of t2 was usable: no copy


def test_a_failed_attempt_of_a_copied_task_goes_aside(quizzes):
    ran = quizzes.run(limit=1, k=2)
    [path] = ran.run_dir.glob("details/normal/t1--*/attempt-2/result.json")
    text = path.read_text("utf-8").replace('"right":true', '"other":true')
    path.write_text(text, "utf-8")
    next(path.parent.glob("run.json")).unlink()
    again = quizzes.run(from_(ran), limit=1, k=2)
    assert again.called == {"t1": 1}
    [aside] = again.run_dir.glob("retry_details/t1--*/attempt-2/1/result.json")
    assert aside.read_text("utf-8") == text
    assert not list(ran.run_dir.glob("retry_details"))
