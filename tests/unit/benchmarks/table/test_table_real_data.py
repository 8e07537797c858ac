"""Real rows through `table`: GSM8K by number, HumanEval by a scorer function."""

import asyncio
import json
import textwrap

import pytest

from proctor.benchmarks.table import Table, TableOptions
from proctor.evals.contracts import PreparedTask, RunResult


def graded(table, pairs, at_once=4):
    async def one(task, answer, gate):
        async with gate:
            prepared = PreparedTask(task, task.input)
            return await table.evaluate(prepared, RunResult(final_answer=answer), None)

    async def run():
        gate = asyncio.Semaphore(at_once)
        return await asyncio.gather(*(one(task, answer, gate) for task, answer in pairs))

    return asyncio.run(run())


def test_all_of_gsm8k_by_number(shared_data):
    columns = {"input": "question", "target": "answer"}
    options = TableOptions(scorer="numeric", columns=columns)
    table = Table(options, shared_data / "gsm8k" / "test.jsonl")
    tasks = table.load_tasks()
    assert [t.id for t in tasks] == [str(n) for n in range(1, 1_320)]

    kinds = ("right", "wrong", "empty", "none", "no answer")

    def answer(task):
        number = task.target.rsplit("#### ", 1)[1]
        return {
            "right": f"The answer is {number}.",
            "wrong": f"{number}, no: {number}1",
            "empty": "",
            "none": "I cannot tell.",
            "no answer": None,
        }[kinds[int(task.id) % 5]]

    found = graded(table, [(t, answer(t)) for t in tasks])
    counts = dict.fromkeys(kinds, 0)
    for task, evaluation in zip(tasks, found, strict=True):
        kind = kinds[int(task.id) % 5]
        counts[kind] += 1
        expected = {} if kind == "no answer" else {"correct": int(kind == "right")}
        assert evaluation.metrics == expected, (task.id, kind)
        codes = [i.code for i in evaluation.issues]
        assert codes == (["unparsed_answer"] if kind in ("empty", "none") else [])
    assert counts == {"right": 263, "wrong": 264, "empty": 264, "none": 264, "no answer": 264}
    references = graded(table, [(t, t.reference.answer) for t in tasks])
    assert sum(e.metrics["correct"] for e in references) == 1_319


SCORER = textwrap.dedent("""
    import subprocess, sys

    def run_tests(answer, target, task):
        meta = task["metadata"]
        program = task["input"] + answer + "\\n" + meta["test"] + f"\\ncheck({meta['entry_point']})"
        done = subprocess.run([sys.executable, "-I", "-c", program], timeout=20)
        return done.returncode == 0
""")


@pytest.mark.slow
def test_all_of_human_eval_by_a_scorer_function(shared_data, tmp_path):
    import gzip

    path = tmp_path / "he.jsonl"
    with (
        gzip.open(shared_data / "human_eval" / "HumanEval.jsonl.gz", "rt", encoding="utf-8") as raw,
        path.open("w", encoding="utf-8") as file,
    ):
        for line in raw:
            row = json.loads(line)
            row["metadata"] = {"test": row["test"], "entry_point": row["entry_point"]}
            file.write(json.dumps(row) + "\n")
    (tmp_path / "scorer.py").write_text(SCORER)
    columns = {"id": "task_id", "input": "prompt", "reference": "canonical_solution"}
    options = TableOptions(scorer=f"python:{tmp_path / 'scorer.py'}:run_tests", columns=columns)
    table = Table(options, path)
    tasks = table.load_tasks()
    found = graded(table, [(t, t.reference.answer) for t in tasks])
    assert [e.metrics for e in found] == [{"correct": True}] * 164
    wrong = graded(table, [(t, "    return None\n") for t in tasks[:20]])
    assert [e.metrics for e in wrong] == [{"correct": False}] * 20
    empty = graded(table, [(t, "") for t in tasks])
    assert [e.metrics for e in empty] == [{"correct": 0}] * 164
