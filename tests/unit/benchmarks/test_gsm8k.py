"""Benchmark gsm8k: its rows, its grading, and the one model call of harness `none`."""

import asyncio
import json

import pytest

from proctor.benchmarks.gsm8k import INSTRUCTION, Gsm8k, Gsm8kOptions
from proctor.benchmarks.one_call import ask_once
from proctor.evals.contracts import AttemptContext, PreparedTask, RunResult
from proctor.evals.contracts.model import AttemptModel
from proctor.kernel.errors import BenchmarkFault, DataError
from proctor.models.contract import CallContext
from proctor.models.scripted import ScriptedModel


def written(path, *rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    return path


def evaluated(task, answer):
    prepared = PreparedTask(task, task.input)
    return asyncio.run(Gsm8k().evaluate(prepared, RunResult(final_answer=answer), None))


def test_a_row_becomes_a_task(tmp_path):
    row = {"question": "How many?", "answer": "2 + 3 = <<2+3=5>>5\n#### 1,234.50"}
    path = written(tmp_path / "x.jsonl", row)
    (task,) = Gsm8k(data=path).load_tasks()
    assert (task.id, task.target, task.reference.answer) == ("1", "1234.5", "1234.5")
    assert task.input == f"How many?\n\n{INSTRUCTION}"
    (bare,) = Gsm8k(Gsm8kOptions(instruction=""), path).load_tasks()
    assert bare.input == "How many?"


@pytest.mark.parametrize(
    ("answer", "value", "codes"),
    [
        ("So 1234.5", 1, []),
        ("#### $1,234.50", 1, []),
        (1234.5, 1, []),
        ("1234", 0, []),
        ("", 0, ["unparsed_answer"]),
        ("  \n", 0, ["unparsed_answer"]),
        ("I do not know", 0, ["unparsed_answer"]),
        ([1234.5], 0, ["unparsed_answer"]),
    ],
)
def test_grading(tmp_path, answer, value, codes):
    path = written(tmp_path / "x.jsonl", {"question": "?", "answer": "#### 1,234.50"})
    evaluation = evaluated(Gsm8k(data=path).load_tasks()[0], answer)
    assert evaluation.metrics == {"correct": value}
    assert [i.code for i in evaluation.issues] == codes


def test_no_answer_is_unavailable(tmp_path):
    path = written(tmp_path / "x.jsonl", {"question": "?", "answer": "#### 1"})
    evaluation = evaluated(Gsm8k(data=path).load_tasks()[0], None)
    assert (evaluation.metrics, list(evaluation.unavailable)) == ({}, ["correct"])


def test_unusable_rows_are_told_together(tmp_path):
    path = written(
        tmp_path / "x.jsonl",
        {"question": "?", "answer": "#### 1"},
        {"question": " ", "answer": "#### 1"},
        {"question": "?"},
        {"question": "?", "answer": "#### none"},
        [],
    )
    with pytest.raises(DataError) as caught:
        Gsm8k(data=path).load_tasks()
    assert [p.removeprefix(f"{path}, ") for p in caught.value.problems] == [
        "line 2: no text under 'question'",
        "line 3: no text under 'answer'",
        "line 4: 'answer' does not end in a number: there is no number in it",
        "line 5: a row must be an object, found array",
    ]


def test_the_real_data_set(shared_data):
    tasks = Gsm8k(data=shared_data / "gsm8k").load_tasks()
    assert len(tasks) == 1_319
    assert [t.id for t in tasks] == [str(n) for n in range(1, 1_320)]
    assert all(int(t.target) is not None for t in tasks)  # every target is a whole number
    assert (tasks[0].target, tasks[2].target) == ("18", "70000")
    graded = [evaluated(t, f"It is {t.reference.answer}.") for t in tasks[::40]]
    assert [e.metrics["correct"] for e in graded] == [1] * len(graded)


def context(model, task):
    call = CallContext(task.id, 1, task.reference.answer)
    return AttemptContext(task.id, 1, None, model and AttemptModel(model, call), None)


def test_harness_none_asks_the_model_once(tmp_path):
    path = written(tmp_path / "x.jsonl", {"question": "?", "answer": "#### 7"})
    benchmark = Gsm8k(data=path)
    (task,) = benchmark.load_tasks()
    prepared = PreparedTask(task, task.input)

    async def run():
        result = await benchmark.run_task(prepared, None, context(ScriptedModel("reference"), task))
        return result, await benchmark.evaluate(prepared, result, None)

    result, evaluation = asyncio.run(run())
    assert result.final_answer == "7"
    assert result.usage.requests == 1
    assert evaluation.metrics == {"correct": 1}


def test_harness_none_needs_a_model(tmp_path):
    path = written(tmp_path / "x.jsonl", {"question": "?", "answer": "#### 7"})
    (task,) = Gsm8k(data=path).load_tasks()
    with pytest.raises(BenchmarkFault, match="the request has none") as caught:
        asyncio.run(ask_once(PreparedTask(task, task.input), context(None, task)))
    assert caught.value.permanent
    assert caught.value.hint == "give --model"
