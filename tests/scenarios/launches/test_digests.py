"""Every input of an attempt is known by its digest: what changed is shown, and done again."""

import pytest

import proctor


@pytest.fixture(autouse=True)
def few_tasks(quizzes):
    quizzes.write({"t1": "yes", "t2": "yes"})


def edit_target(q):
    q.write({"t1": "no", "t2": "yes"})
    return {}


def edit_question(q):
    q.write({"t1": "yes", "t2": "yes"}, question="why")
    return {}


def add_file(q):
    (q.place / "hint.txt").write_text("think", "utf-8")
    return {}


def edit_file_in_folder(q):
    (q.place / "hint.txt" / "deep" / "note.txt").write_text("think twice", "utf-8")
    return {}


RUN_AGAIN = {"t1": 1, "t2": 1}
CHANGES = {
    "temperature": ("model", lambda q: {"model": {"temperature": 0.7}}, RUN_AGAIN, RUN_AGAIN),
    "harness option": ("harness", lambda q: {"harness": {"servers": ["s"]}}, RUN_AGAIN, RUN_AGAIN),
    "environment option": ("environment", lambda q: {"environment": {"size": 2}}, RUN_AGAIN,
                           RUN_AGAIN),
    "question": ("input", edit_question, RUN_AGAIN, RUN_AGAIN),
    "file": ("input", add_file, RUN_AGAIN, RUN_AGAIN),
    "scorer": ("grading", lambda q: {"benchmark": {"scorer": "includes"}}, {}, RUN_AGAIN),
    "target": ("grading", edit_target, {}, {"t1": 1}),
}  # fmt: skip


@pytest.mark.parametrize("what", CHANGES)
def test_a_changed_input_is_shown_and_done_again(quizzes, what):
    """In mode none, grading is done again without the agent; everything else runs again."""
    field, change, called, graded = CHANGES[what]
    first = quizzes.run(model={})
    changes = {"model": {}, **change(quizzes)}
    ran = quizzes.run(proctor.Earlier(str(first.run_dir)), **changes)
    assert (ran.called, ran.graded) == (called, graded)
    assert ran.plan["changed"] == {field: len(graded)}
    assert any(note.startswith(f"  {field} changed in") for note in ran.notes)
    for task_id in ("t1", "t2"):
        old, new = (r.record(task_id)["digests"] for r in (first, ran))
        differing = {name for name in old if old[name] != new[name]}
        assert differing == ({field} if task_id in graded else set())
    if what == "target":
        assert ran.record("t1")["metrics"] == {"right": False}


@pytest.mark.parametrize("what", CHANGES)
def test_a_changed_input_is_kept_when_that_is_wanted(quizzes, what):
    field, change, _, graded = CHANGES[what]
    first = quizzes.run(model={})
    changes = {"model": {}, **change(quizzes)}
    ran = quizzes.run(proctor.Earlier(str(first.run_dir), anyway=True), **changes)
    assert (ran.called, ran.graded) == ({}, {})
    for task_id in ("t1", "t2"):
        note = ran.record(task_id).get("reuse")
        assert (note is not None) == (task_id in graded)
        assert note is None or note["changed"] == [field]
    again = quizzes.resume(ran.run_dir)
    assert (again.called, again.graded) == ({}, {})


def test_mode_reuse_runs_again_when_the_grading_changed(quizzes):
    mode = {"evaluation_mode": "reuse"}
    first = quizzes.run(**mode)
    changes = {"benchmark": {"scorer": "includes", "mode": "reuse"}, **mode}
    ran = quizzes.run(proctor.Earlier(str(first.run_dir)), **changes)
    assert ran.called == ran.graded == RUN_AGAIN
    assert ran.plan["changed"] == {"grading": 2}


def test_data_that_changed_between_a_run_and_its_resume_is_seen(quizzes):
    first = quizzes.run()
    edit_target(quizzes)
    again = quizzes.resume(first.run_dir)
    assert (again.called, again.graded) == ({}, {"t1": 1})
    assert again.record("t1")["metrics"] == {"right": False}
    assert again.record("t2")["metrics"] == {"right": True}
    [aside] = again.run_dir.glob("retry_details/t1--*/attempt-1/1/result.json")
    assert '"right":true' in aside.read_text("utf-8")
    assert quizzes.resume(first.run_dir).graded == {}


def test_a_file_deep_in_a_folder_that_the_agent_gets_is_an_input(quizzes):
    deep = quizzes.place / "hint.txt" / "deep"
    deep.mkdir(parents=True)
    (deep / "note.txt").write_text("think", "utf-8")
    first = quizzes.run()
    assert quizzes.resume(first.run_dir).called == {}
    edit_file_in_folder(quizzes)
    assert quizzes.resume(first.run_dir).called == RUN_AGAIN


def test_run_knobs_may_change_freely(quizzes):
    first = quizzes.run()
    knobs = {"max_retries": 5, "retry_backoff_s": 0.1, "open_timeout_s": 5.0}
    ran = quizzes.run(proctor.Earlier(str(first.run_dir)), **knobs)
    assert (ran.called, ran.graded, ran.plan["changed"]) == ({}, {}, {})


def test_an_oracle_that_knew_another_solution_runs_again(tmp_path):
    """The harness answers from the reference: that is its input."""
    rows = tmp_path / "rows.jsonl"
    rows.write_text('{"id": "a", "input": "?", "target": "1"}\n', "utf-8")
    request = {
        "benchmark": {"id": "table", "data": str(rows), "scorer": "exact"},
        "harness": "oracle",
        "runtime": {"results_dir": str(tmp_path / "results")},
    }
    first = proctor.run(request)
    assert first.metrics.primary.value == 1.0
    rows.write_text('{"id": "a", "input": "?", "target": "2"}\n', "utf-8")
    again = proctor.run(request, earlier=proctor.Earlier(first.run_dir))
    assert again.metrics.primary.value == 1.0
    assert again.counts.reused_attempts == 0
