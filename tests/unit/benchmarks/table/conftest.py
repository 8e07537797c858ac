"""Tables written by tests, loaded and graded for real."""

import asyncio
import json

import pytest

from proctor.benchmarks.table import Table, TableOptions
from proctor.evals.contracts import PreparedTask, RunResult, TaskSpec


@pytest.fixture
def write(tmp_path):
    """`write(name, content)`: text, bytes, or rows for JSONL; gives the path."""

    def written(name, content):
        path = tmp_path / name
        if isinstance(content, list):
            content = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in content)
        path.write_bytes(content if isinstance(content, bytes) else content.encode("utf-8"))
        return path

    return written


@pytest.fixture
def load():
    """`load(path, …options)`: the tasks."""

    def loaded(path, **options):
        return Table(TableOptions(**options), path).load_tasks()

    return loaded


@pytest.fixture
def grade():
    """`grade(scorer, target, answer, …options)`: the Evaluation."""

    def graded(scorer, target, answer, **options):
        table = Table(TableOptions(scorer=scorer, **options))
        task = TaskSpec("t", "question", target=target, category="c", metadata={"m": 1})

        async def run():
            try:
                prepared = PreparedTask(task, task.input)
                return await table.evaluate(prepared, RunResult(final_answer=answer), None)
            finally:
                await table.close()

        return asyncio.run(run())

    return graded
