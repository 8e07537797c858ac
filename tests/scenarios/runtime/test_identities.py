"""B22 and B26 through a run: hostile ids and texts stay data."""

import asyncio
import json
import unicodedata
from typing import ClassVar

import pytest
from tests.scenarios.runtime.plugins import Agent, Answers, tasks
from tests.scenarios.runtime.runs import Outcome, events, request, resume, run

import proctor
from proctor.evals.contracts import TaskSpec
from proctor.kernel.errors import DataError

IDS = ["../evil", "/abs", "a/b", "a_b", "Task", "task", "é", "e\u0301", "x" * 400, "CON",
       "end.", "任务-1"]  # fmt: skip


def test_hostile_ids_get_directories_of_their_own_inside_the_run(tmp_path):
    place = tmp_path / "inside"

    class Hostile(Answers):
        given: ClassVar = [TaskSpec(task_id, "q", "a") for task_id in IDS]

    class Tested(Agent):
        async def act(self, session, task, context):
            context.artifact_path("kept.txt").write_text("a")
            return "a"

    outcome = run(place, Hostile, Tested, evaluation_mode="fresh")
    assert outcome.report.counts.normal == 12
    assert [p.name for p in tmp_path.iterdir()] == ["inside"]
    assert [p.name for p in place.iterdir()] == ["results"]
    folders = [p.name for p in outcome.run_dir.glob("details/normal/*")]
    folded = {unicodedata.normalize("NFKC", name).casefold() for name in folders}
    assert len(folders) == len(folded) == 12
    for path in outcome.run_dir.rglob("*"):
        assert len(path.name.encode()) <= 255
        assert set(path.name) <= set("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
                                     "0123456789._-")  # fmt: skip
    assert {task_id for task_id, _ in outcome.records} == set(IDS)
    assert {task.id for task in proctor.load(outcome.run_dir).tasks()} == set(IDS)
    assert resume(outcome.run_dir).report.counts.reused_attempts == 12


def test_an_id_that_is_empty_or_holds_nul_is_refused_with_its_row(tmp_path):
    data = tmp_path / "rows.jsonl"
    rows = [{"id": task_id, "input": "q", "target": "a"} for task_id in [*IDS, "nul\0byte", ""]]
    data.write_text("".join(json.dumps(row) + "\n" for row in rows))
    wanted = request(tmp_path, "table", Agent)
    wanted["benchmark"] = {"id": "table", "data": str(data)}
    with pytest.raises(DataError) as caught:
        asyncio.run(proctor.arun(wanted))
    message = str(caught.value)
    assert "line 13" in message
    assert "line 14" in message
    assert "line 12" not in message
    assert not (tmp_path / "results").exists()


def test_the_name_of_a_model_is_no_path(tmp_path):
    wanted = request(tmp_path, Answers)  # whose agent never asks it
    wanted["model"] = {"id": "openai:org/model:v1", "base_url": "http://127.0.0.1:9/v1"}
    outcome = Outcome(asyncio.run(proctor.arun(wanted)))
    parts = outcome.run_dir.relative_to(tmp_path / "results").parts
    assert parts[:3] == ("answers", "agent", "org_model_v1")
    info = json.loads((outcome.run_dir / "run_info.json").read_text("utf-8"))
    assert info["components"]["model"]["name"] == "org/model:v1"


TEXTS = ["a\u2028b", "a\u0085b", "a\x0cb\x1cc\u2029d", "\ufeffmark", 'tab\tquote"back\\slash']
SEED = 9007199254740993


def test_records_end_only_at_newlines_and_numbers_keep_their_digits(tmp_path):
    """B26: line separators in answers, ids and messages, and integers beyond a double."""

    class Odd(Answers):
        given: ClassVar = [
            *[TaskSpec(f"t{n} {text}", text, text) for n, text in enumerate(TEXTS)],
            TaskSpec("seed", {"seed": SEED}, {"seed": SEED, "big": 10**4000}),
            TaskSpec("surrogate", "\ud800 half", "half \udfff"),
        ]

    class Tested(Agent):
        async def act(self, session, task, context):
            return task.task.target

    outcome = run(tmp_path, Odd, Tested, k=2)
    count = len(Odd.given)
    assert outcome.report.counts.normal == count
    finished = [e for e in events(outcome.run_dir) if e["event"] == "attempt.finished"]
    assert len(finished) == 2 * count
    assert {e["task_id"] for e in finished} == {task.id for task in Odd.given}
    plans = (outcome.run_dir / "plans.jsonl").read_bytes()
    assert plans.count(b"\n") == 2 * count
    answers = {task_id: r["final_answer"] for (task_id, _), r in outcome.records.items()}
    assert answers == {task.id: task.target for task in Odd.given}
    text = next(outcome.run_dir.glob("details/normal/seed--*/attempt-1/result.json")).read_text()
    assert str(SEED) in text
    assert "1" + "0" * 4000 in text
    assert resume(outcome.run_dir).report.counts.reused_attempts == 2 * count


@pytest.mark.parametrize(
    ("value", "message"),
    [("NaN", "NaN is not JSON"), ("-Infinity", "-Infinity is not JSON"), ("1e999", "out of range"),
     ("1" * 5000, "digits")],
)  # fmt: skip
def test_numbers_that_are_none_are_refused_with_their_line(tmp_path, value, message):
    data = tmp_path / "rows.jsonl"
    good = '{"id": "a", "input": "q", "target": "1"}\n'
    bad = f'{{"id": "b", "input": "q", "target": "1", "metadata": {{"score": {value}}}}}\n'
    data.write_text(good + bad + good.replace('"a"', '"c"'))
    wanted = request(tmp_path, "table", Agent)
    wanted["benchmark"] = {"id": "table", "data": str(data)}
    with pytest.raises(DataError, match="line 2") as caught:
        asyncio.run(proctor.arun(wanted))
    assert message in str(caught.value)


def test_tasks_have_their_order_in_reports_whatever_their_names(tmp_path):
    class Three(Answers):
        given = tasks("a", "b", "c")

    outcome = run(tmp_path, Three, concurrency=1)
    finished = [e["task_id"] for e in outcome.events if e["event"] == "attempt.finished"]
    assert finished == ["t1", "t2", "t3"]
