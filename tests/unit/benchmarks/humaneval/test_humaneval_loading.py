"""Rows to tasks, and rows that cannot be one."""

import gzip
import json

import pytest

from proctor.benchmarks.humaneval import HumanEval, HumanEvalOptions
from proctor.kernel.errors import DataError

ROW = {
    "task_id": "T/0",
    "prompt": "def f():\n",
    "entry_point": "f",
    "canonical_solution": "    return 1\n",
    "test": "def check(candidate):\n    assert candidate() == 1\n",
}


def written(path, *rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    return path


def test_a_row_becomes_a_task(tmp_path):
    (task,) = HumanEval(data=written(tmp_path / "he.jsonl", ROW)).load_tasks()
    assert task.id == "T/0"
    assert task.reference.answer == ROW["canonical_solution"]
    assert task.target == {"entry_point": "f", "test": ROW["test"]}
    assert task.input.endswith("\n\n```python\ndef f():\n```\n")
    assert "Complete the Python function" in task.input


def test_the_bare_prompt_on_request(tmp_path):
    options = HumanEvalOptions(instruction="")
    (task,) = HumanEval(options, written(tmp_path / "he.jsonl", ROW)).load_tasks()
    assert task.input == ROW["prompt"]


def test_a_row_without_a_solution_has_no_reference(tmp_path):
    row = {k: v for k, v in ROW.items() if k != "canonical_solution"}
    (task,) = HumanEval(data=written(tmp_path / "he.jsonl", row)).load_tasks()
    assert task.reference is None


def test_all_faults_are_told_together(tmp_path):
    rows = [
        ROW,
        ROW | {"task_id": "T/0"},
        ROW | {"task_id": "T/1", "prompt": None},
        ROW | {"task_id": "T/2", "entry_point": "f()"},
        ROW | {"task_id": "", "test": 3},
        {k: v for k, v in ROW.items() if k != "task_id"},
        ROW | {"task_id": "T/3", "canonical_solution": None},
    ]
    with pytest.raises(DataError) as caught:
        HumanEval(data=written(tmp_path / "he.jsonl", *rows)).load_tasks()
    problems = [p.split("he.jsonl, ")[1] for p in caught.value.problems]
    assert problems == [
        "line 2: the id 'T/0' is already on line 1",
        "line 3: 'prompt' must be text, found null",
        "line 4: 'entry_point' is no name of a function: 'f()'",
        "line 5: an id must not be empty",
        "line 5: 'test' must be text, found number",
        "line 6: no id in this row, but other rows have one",
        "line 7: 'canonical_solution' must be text",
    ]
    assert "canonical_solution" in caught.value.hint


def test_a_csv_file_is_not_this_data_set(tmp_path):
    (tmp_path / "x.csv").write_text("a,b\n")
    with pytest.raises(DataError, match="holds no data file"):
        HumanEval(data=tmp_path).load_tasks()


def test_the_real_data_set_in_its_folder(human_eval):
    tasks = HumanEval(data=human_eval).load_tasks()
    assert len(tasks) == 164
    assert tasks[0].id == "HumanEval/0"
    assert all(task.reference is not None for task in tasks)
    with gzip.open(human_eval / "HumanEval.jsonl.gz", "rt", encoding="utf-8") as rows:
        assert [json.loads(row)["task_id"] for row in rows] == [task.id for task in tasks]
