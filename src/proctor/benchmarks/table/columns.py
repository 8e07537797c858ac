"""From rows to tasks: which column holds what, and what makes a row unusable."""

import difflib
from collections.abc import Iterable, Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from proctor.benchmarks.table.cells import from_cell
from proctor.benchmarks.table.identity import Ids
from proctor.benchmarks.table.options import Columns
from proctor.benchmarks.table.problems import Problems
from proctor.benchmarks.table.reading import Row, kind_of
from proctor.benchmarks.table.scorers.contract import Scorer, text_of
from proctor.evals.contracts.task import Reference, TaskSpec

MAX_NAMES = 200
"""Rows with ever new keys must not be remembered without end."""

_OPTIONAL = ("id", "reference", "category", "metadata", "files")


class _Unusable(Exception):
    """Why a row is no task; the message is the problem."""


class TaskRows:
    """Builds the tasks of one data file and notes every row that cannot be one."""

    def __init__(self, file: Path, columns: Columns, scorer: Scorer, problems: Problems) -> None:
        self._folder = file.parent
        self._columns = columns
        self._names: dict[str, str] = dict(columns)
        self._scorer = scorer
        self._problems = problems
        self._ids = Ids(problems)
        self._required = ("input", "target") if scorer.needs_target else ("input",)
        self._seen: dict[str, None] = {}  # the names of columns, in order
        self._rows = 0
        self._lacking: dict[str, list[int]] = {role: [] for role in self._required}

    def tasks(self, rows: Iterable[Row]) -> list[TaskSpec]:
        """The tasks of all usable rows; what is wrong with the others is in the problems."""
        found = [task for row in rows if (task := self._task(row)) is not None]
        self._ids.finish()
        self._note_columns()
        return found

    def _task(self, row: Row) -> TaskSpec | None:
        self._rows += 1
        if not self._seen.keys() >= row.values.keys() and len(self._seen) < MAX_NAMES:
            self._seen.update(dict.fromkeys(row.values))
        names = self._names
        values = {role: row.values.get(name) for role, name in names.items()}
        task_id = self._ids.take(row.line, names["id"] in row.values, values["id"])
        missing = [role for role in self._required if names[role] not in row.values]
        for role in missing:
            self._lacking[role].append(row.line)
        if missing or task_id is None:
            return None
        try:
            return self._built(task_id, values, row.cells)
        except _Unusable as error:
            self._problems.add(row.line, str(error))
            return None

    def _built(self, task_id: str, values: Mapping[str, Any], cells: bool) -> TaskSpec:
        read = _cell if cells else _as_is
        value = {role: None if cells and not values[role] else values[role] for role in values}
        question = read(value["input"])
        if _empty(question):
            raise _Unusable(f"column {self._columns.input!r} is empty")
        target = self._target(value["target"], read)
        return TaskSpec(
            id=task_id,
            input=question,
            target=target,
            reference=self._reference(read(value["reference"]), target),
            category=self._category(value["category"]),
            files=self._files(read(value["files"])),
            metadata=self._object("metadata", read(value["metadata"])),
        )

    def _target(self, value: Any, read: Any) -> Any:
        target = read(value)
        if self._scorer.target_is_text and isinstance(target, list | dict) and read is _cell:
            target = value  # a cell that looks like JSON is text to a scorer that compares text
        if _empty(target):
            if self._scorer.needs_target:
                raise _Unusable(f"column {self._columns.target!r} is empty")
            return target
        if self._scorer.target_is_text and isinstance(target, list | dict):
            raise _Unusable(
                f"the target is an {kind_of(target)}; scorer {self._scorer.id!r} compares text "
                "(scorer json compares values)"
            )
        if problem := self._scorer.target_problem(target):
            raise _Unusable(problem)
        return target

    def _reference(self, value: Any, target: Any) -> Reference | None:
        if not _empty(value):
            return Reference(answer=value)
        if self._scorer.target_is_answer and not _empty(target):
            return Reference(answer=target)
        return None

    def _category(self, value: Any) -> str | None:
        if value is None:
            return None
        if isinstance(value, list | dict | bool):
            raise _Unusable(f"the category must be text, found {kind_of(value)}")
        return text_of(value)

    def _object(self, role: str, value: Any) -> dict[str, Any]:
        if value is None:
            return {}
        if not isinstance(value, dict):
            raise _Unusable(f"{role} must be an object, found {kind_of(value)}")
        return value

    def _files(self, value: Any) -> dict[str, Path]:
        named = self._object("files", value)
        return {_inside(name): self._source(name, path) for name, path in named.items()}

    def _source(self, name: str, path: Any) -> Path:
        if not isinstance(path, str) or not path or "\0" in path:
            raise _Unusable(f"files: the path of {name!r} must be text, found {kind_of(path)}")
        folder = self._folder.resolve()
        source = (folder / path).resolve()
        if Path(path).is_absolute() or not source.is_relative_to(folder):
            raise _Unusable(f"files: {path!r} is outside the folder of the data file")
        if not source.is_file():
            raise _Unusable(f"files: no such file in the folder of the data file: {path!r}")
        return source

    def _note_columns(self) -> None:
        """A column that no row has is one problem; one that some rows lack is theirs."""
        for role, lines in self._lacking.items():
            name = self._names[role]
            if lines and len(lines) == self._rows:
                self._problems.add(1, self._no_column(role, name))
            else:
                for line in lines:
                    self._problems.add(line, f"no {name!r} in this row")
        for role in _OPTIONAL:
            name = self._names[role]
            if role in self._columns.model_fields_set and self._rows and name not in self._seen:
                self._problems.add(1, self._no_column(role, name))

    def _no_column(self, role: str, name: str) -> str:
        seen = list(self._seen)
        text = f"no row has a column {name!r}; the columns are: {', '.join(seen[:20])}"
        close = difflib.get_close_matches(name, seen, n=3, cutoff=0.6)
        if close:
            text += f" (did you mean {' or '.join(close)}?)"
        return f"{text}; set -p benchmark.columns.{role}=NAME"


def _as_is(value: Any) -> Any:
    return value


def _cell(value: Any) -> Any:
    return None if value is None else from_cell(value)


def _empty(value: Any) -> bool:
    return value is None or (isinstance(value, str) and not value.strip())


def _inside(name: str) -> str:
    """A workspace path, normalised. Raises _Unusable when it does not stay inside."""
    path = PurePosixPath(name)
    if not name or "\0" in name or path.is_absolute() or ".." in path.parts or not path.parts:
        raise _Unusable(f"files: {name!r} is not a path inside the workspace")
    return str(path)
