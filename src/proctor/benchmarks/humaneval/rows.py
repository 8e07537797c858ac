"""Rows of the HumanEval data set: what a task is made of."""

from dataclasses import dataclass
from pathlib import Path

from proctor.benchmarks.table.identity import Ids
from proctor.benchmarks.table.problems import Problems
from proctor.benchmarks.table.reading import Row, json_rows, kind_of
from proctor.kernel.errors import DataError


@dataclass(frozen=True, slots=True)
class Problem:
    """One problem. `solution` completes `prompt`; None when the data has none."""

    id: str
    prompt: str
    entry_point: str
    test: str
    solution: str | None


def read_problems(file: Path) -> list[Problem]:
    """All problems of a JSONL file. Raises DataError listing every unusable row."""
    problems = Problems(file)
    ids = Ids(problems)
    found = []
    for row in json_rows(file, problems):
        task_id = ids.take(row.line, "task_id" in row.values, row.values.get("task_id"))
        faults = _faults(row)
        if faults:
            problems.add(row.line, "; ".join(faults))
        if task_id is not None and not faults:
            found.append(_problem(task_id, row))
    ids.finish()
    problems.check(
        hint="rows are objects with task_id, prompt, entry_point, test and canonical_solution"
    )
    if not found:
        raise DataError(f"{file} has no rows", hint="give the data set's JSONL file")
    return found


def _faults(row: Row) -> list[str]:
    values = row.values
    faults = [
        f"{name!r} must be text, found {kind_of(values.get(name))}"
        for name in ("prompt", "entry_point", "test")
        if not isinstance(values.get(name), str)
    ]
    if not faults and not values["entry_point"].isidentifier():
        faults.append(f"'entry_point' is no name of a function: {values['entry_point'][:40]!r}")
    if not isinstance(values.get("canonical_solution", ""), str):
        faults.append("'canonical_solution' must be text")
    return faults


def _problem(task_id: str, row: Row) -> Problem:
    values = row.values
    return Problem(
        task_id,
        values["prompt"],
        values["entry_point"],
        values["test"],
        values.get("canonical_solution"),
    )
