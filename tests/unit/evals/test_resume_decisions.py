"""What of a directory is kept, graded again or run again: the whole table."""

import itertools
import json
import os
from pathlib import Path

import pytest

from proctor.evals.contracts import Kind, MetricContract, MetricSpec, RunResult, TaskSpec
from proctor.evals.results.layout import RunLayout
from proctor.evals.results.records import ATTEMPT_SCHEMA, RUN_SCHEMA
from proctor.evals.results.resume import Decision, Examination, examine
from proctor.kernel.errors import RunDirectoryError
from proctor.kernel.ids import task_dir_name
from proctor.models.contract import Usage

FIELDS = ("input", "grading", "harness", "environment", "model")
DIGESTS = {name: f"sha256:{name}" for name in FIELDS}
CONTRACT = MetricContract((MetricSpec("right"), MetricSpec("speed", Kind.SCALAR, 0, 10)), "right")
TASK = TaskSpec("t1", "q")


def issue(severity: str) -> dict:
    return {"severity": severity, "phase": "run", "cause": "agent", "code": "x", "message": "x"}


RECORDS = {
    "right": {"metrics": {"right": True}, "issues": []},
    "wrong": {"metrics": {"right": False}, "issues": []},
    "valid with a warning": {"metrics": {"right": 1}, "issues": [issue("warning")]},
    "valid with an error": {"metrics": {"right": 1}, "issues": [issue("error")]},
    "valid but fatal": {"metrics": {"right": 1}, "issues": [issue("fatal")]},
    "fatal": {"metrics": {}, "issues": [issue("fatal")]},
    "no observation": {"metrics": {}, "issues": [issue("error")]},
    "only another metric": {"metrics": {"speed": 3}, "issues": []},
    "an observation out of its range": {"metrics": {"right": 2}, "issues": []},
    "a text": {"metrics": {"right": "yes"}, "issues": []},
}
"""Kinds of attempt records."""
VALID = {"right", "wrong", "valid with a warning", "valid with an error"}


def stored(place: Path, record: str | None, *, run: bool, changed: str | None = None) -> RunLayout:
    """A run directory with one attempt: with a record of a kind or none, with a run record or
    none, whose digests differ in one field from what they are now."""
    folder = place / "details" / "normal" / task_dir_name("t1")
    attempt = folder / "attempt-1"
    attempt.mkdir(parents=True)
    (folder / "task.json").write_text(json.dumps({"task_id": "t1", "category": None}))
    digests = {**DIGESTS, **({changed: "sha256:old"} if changed else {})}
    shared = {"task_id": "t1", "attempt": 1, "digests": digests}
    if record is not None:
        whole = {
            "schema_version": ATTEMPT_SCHEMA, **shared, "artifacts": [],
            "usage": Usage(3, 4).to_json(), **RECORDS[record],
        }  # fmt: skip
        (attempt / "result.json").write_text(json.dumps(whole))
    if run:
        whole = {
            "schema_version": RUN_SCHEMA, **shared, "result": RunResult("a").to_json(),
            "issues": [], "phases_s": {"run": 0.5}, "waiting_s": 0.0, "retry_count": 2,
        }  # fmt: skip
        (attempt / "run.json").write_text(json.dumps(whole))
    return RunLayout(place)


def decide(layout: RunLayout, *, detached: bool, k: int = 1):
    """The decision about the attempt, where grading alone is possible or not."""
    rules = Examination(CONTRACT, k, lambda task: DIGESTS, lambda task: detached)
    ((task_id, state),) = examine(layout, [TASK], rules)
    assert (task_id, state.state) == ("t1", "normal")
    return state.attempts[1]


def expected(record: str | None, run: bool, changed: str | None, detached: bool) -> Decision:
    """The rules of the specification, told once more."""
    again = Decision.EVALUATE if run and detached else Decision.RUN
    if changed not in (None, "grading"):
        return Decision.RUN
    if record in VALID and changed is None:
        return Decision.KEEP
    return again


TABLE = list(
    itertools.product([None, *RECORDS], [False, True], [None, *FIELDS], [False, True])
)  # fmt: skip


@pytest.mark.parametrize(("record", "run", "changed", "detached"), TABLE)
def test_the_table(tmp_path, record, run, changed, detached):
    layout = stored(tmp_path, record, run=run, changed=changed)
    found = decide(layout, detached=detached)
    assert found.decision is expected(record, run, changed, detached)
    assert found == decide(layout, detached=detached, k=9)  # attempts are missing: it is listed
    assert found.reason
    if found.decision is Decision.KEEP:
        assert found.observations["right"] == float(RECORDS[record]["metrics"]["right"])
        assert found.usage == Usage(3, 4)
        assert found.issues == tuple(i["code"] for i in RECORDS[record]["issues"])


def test_the_digests_that_differ_are_named(tmp_path):
    layout = stored(tmp_path, "right", run=False, changed="harness")
    assert decide(layout, detached=True).changed == ("harness",)


def test_a_digest_that_was_not_known_then_counts_as_changed(tmp_path):
    layout = stored(tmp_path, "right", run=False)
    (path,) = Path(layout.root).glob("details/*/*/*/result.json")
    record = json.loads(path.read_text())
    del record["digests"]["model"]
    path.write_text(json.dumps(record))
    assert decide(layout, detached=True).changed == ("model",)


@pytest.mark.parametrize("record", [None, "right"])
def test_a_torn_run_record_is_none(tmp_path, record):
    layout = stored(tmp_path, record, run=True)
    (path,) = Path(layout.root).glob("details/*/*/*/run.json")
    path.write_text("{")
    wanted = Decision.KEEP if record else Decision.RUN
    assert decide(layout, detached=True).decision is wanted


def test_tasks_that_are_not_selected_are_passed_over(tmp_path):
    layout = stored(tmp_path, "right", run=False)
    rules = Examination(CONTRACT, 1, lambda task: DIGESTS, lambda task: True)
    assert list(examine(layout, [TaskSpec("other", "q")], rules)) == []


def test_an_empty_attempt_folder_runs_again(tmp_path):
    layout = stored(tmp_path, None, run=False)
    assert decide(layout, detached=True).decision is Decision.RUN


@pytest.mark.parametrize("name", ["attempt-x", "attempt-", "notes", "attempt-1.tmp"])
def test_other_folders_and_files_are_no_attempts(tmp_path, name):
    layout = stored(tmp_path, "right", run=False)
    (folder,) = Path(layout.root).glob("details/*/*")
    (folder / name).mkdir()
    (folder / "attempt-7").write_text("a file")
    os.symlink(folder / "attempt-1", folder / "attempt-8")
    assert decide(layout, detached=True).decision is Decision.KEEP
    rules = Examination(CONTRACT, 1, lambda task: DIGESTS, lambda task: True)
    ((_, state),) = examine(layout, [TASK], rules)
    assert list(state.attempts) == [1]


def test_folders_of_attempts_that_were_not_planned_are_seen_too(tmp_path):
    layout = stored(tmp_path, "right", run=False)
    (folder,) = Path(layout.root).glob("details/*/*")
    (folder / "attempt-2").mkdir()
    rules = Examination(CONTRACT, 1, lambda task: DIGESTS, lambda task: True)
    ((_, state),) = examine(layout, [TASK], rules)
    decisions = {index: attempt.decision for index, attempt in state.attempts.items()}
    assert decisions == {1: Decision.KEEP, 2: Decision.RUN}


@pytest.mark.parametrize("task_id", [None, 5, "", "another", ["t1"]])
def test_a_task_whose_own_record_names_another_is_known_by_its_attempts(tmp_path, task_id):
    layout = stored(tmp_path, "right", run=False)
    (place,) = Path(layout.root).glob("details/*/*/task.json")
    place.write_text(json.dumps({"task_id": task_id, "category": None}))
    assert decide(layout, detached=True).decision is Decision.KEEP
    rules = Examination(CONTRACT, 1, lambda task: DIGESTS, lambda task: True)
    ((_, state),) = examine(layout, [TASK], rules)
    assert state.torn  # so that it is written anew


def test_as_many_folders_as_planned_need_not_be_the_planned_ones(tmp_path):
    layout = stored(tmp_path, "right", run=False)
    (attempt,) = Path(layout.root).glob("details/*/*/attempt-1")
    attempt.rename(attempt.with_name("attempt-2"))
    rules = Examination(CONTRACT, 1, lambda task: DIGESTS, lambda task: True)
    with pytest.raises(RunDirectoryError, match="found under task 't1' attempt 2"):
        list(examine(layout, [TASK], rules))


def test_a_device_in_place_of_a_record_is_not_read_without_end(tmp_path):
    layout = stored(tmp_path, "right", run=False)
    (path,) = Path(layout.root).glob("details/*/*/*/result.json")
    path.unlink()
    path.symlink_to("/dev/zero")
    with pytest.raises(RunDirectoryError, match="not a file"):
        decide(layout, detached=True)


@pytest.mark.parametrize("key", ["metrics", "issues", "usage"])
def test_a_record_that_lacks_a_key_is_refused(tmp_path, key):
    layout = stored(tmp_path, "right", run=False)
    (path,) = Path(layout.root).glob("details/*/*/*/result.json")
    record = json.loads(path.read_text())
    del record[key]
    path.write_text(json.dumps(record))
    with pytest.raises(RunDirectoryError, match=r"result\.json"):
        decide(layout, detached=True)


@pytest.mark.parametrize("key", ["result", "issues", "phases_s", "retry_count"])
def test_a_run_record_that_lacks_a_key_is_refused(tmp_path, key):
    layout = stored(tmp_path, None, run=True)
    (path,) = Path(layout.root).glob("details/*/*/*/run.json")
    record = json.loads(path.read_text())
    del record[key]
    path.write_text(json.dumps(record))
    with pytest.raises(RunDirectoryError, match=r"run\.json"):
        decide(layout, detached=True)
