"""Reading a run directory: which tasks and attempts it holds. Never changes anything."""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from proctor.evals.results.layout import ATTEMPT, STATES, RunLayout
from proctor.evals.results.records import (
    ATTEMPT_SCHEMA,
    RUN_INFO_SCHEMA,
    RUN_SCHEMA,
    SUMMARY_SCHEMA,
)
from proctor.evals.results.reserve import LAUNCHES
from proctor.kernel import jsontext
from proctor.kernel.errors import RunDirectoryError
from proctor.kernel.ids import task_dir_name
from proctor.store.files import read_json

DAMAGED = (
    "restore it from a copy, or move the attempt's folder away: `proctor resume` runs it again"
)


@dataclass(frozen=True, slots=True)
class StoredTask:
    """A task's directory: its exact id comes from a record in it, not from the name.

    `torn` says that `task.json` cannot be read: it is not synced, and is made again on resume.
    """

    task_id: str
    state: str
    path: str
    category: str | None
    torn: bool = False

    def attempts(self) -> list[int]:
        """The indices that have a directory, sorted."""
        found = []
        for entry in os.scandir(self.path):
            if not entry.name.startswith(ATTEMPT):
                continue
            number = entry.name[len(ATTEMPT) :]
            if number.isdigit() and entry.is_dir(follow_symlinks=False):
                found.append(int(number))
        return sorted(found)

    def has_only(self, attempts: int) -> bool:
        """Whether there are as many folders as `attempts`, for less than a listing costs; False
        also where the file system does not count them. Which they are, their records tell."""
        return os.lstat(self.path).st_nlink == 2 + attempts

    def result(self, attempt: int) -> dict[str, Any] | None:
        """The attempt record, None when there is none. Raises RunDirectoryError if damaged."""
        return self._read(attempt, "result.json", ATTEMPT_SCHEMA)

    def run(self, attempt: int) -> dict[str, Any] | None:
        """The run record, None when there is none or it was torn."""
        try:
            return self._read(attempt, "run.json", RUN_SCHEMA)
        except RunDirectoryError:
            return None

    def _read(self, attempt: int, name: str, schema: str) -> dict[str, Any] | None:
        path = f"{self.path}/{ATTEMPT}{attempt}/{name}"
        try:
            record = read_json(path)
        except FileNotFoundError:
            return None
        except (OSError, jsontext.JsonError) as error:
            raise RunDirectoryError(f"damaged record: {error}", hint=DAMAGED) from None
        if not isinstance(record, dict) or record.get("schema_version") != schema:
            raise RunDirectoryError(
                f"{path}: not a {schema} record", hint="it may come from a newer proctor"
            )
        if record.get("task_id") != self.task_id or record.get("attempt") != attempt:
            raise RunDirectoryError(
                f"{path}: the record is of task {record.get('task_id')!r} attempt "
                f"{record.get('attempt')!r}, found under task {self.task_id!r} attempt {attempt}"
            )
        return record


def stored_tasks(layout: RunLayout, states: Iterable[str] = STATES) -> Iterator[StoredTask]:
    """Every task directory of a run that holds a readable record, state by state, in directory
    order."""
    for state in states:
        folder = layout.state(state)
        if not os.path.isdir(folder):
            continue
        for entry in sorted(os.scandir(folder), key=lambda e: e.name):
            if entry.is_dir(follow_symlinks=False):
                task = stored_task(entry.path, state)
                if task is not None:
                    yield task


def stored_task(path: str, state: str) -> StoredTask | None:
    """The task whose directory `path` is; None when nothing in it was announced."""
    try:
        record = read_json(f"{path}/task.json")
        if isinstance(record["task_id"], str):
            return StoredTask(record["task_id"], state, path, record.get("category"))
        return by_its_records(path, state)
    except (OSError, jsontext.JsonError, KeyError, TypeError, AttributeError):
        return by_its_records(path, state)


def by_its_records(path: str, state: str) -> StoredTask | None:
    """A task without a readable `task.json`, by the id in an attempt's record."""
    found = StoredTask("", state, path, None, torn=True)
    for index in found.attempts() if os.path.isdir(path) else ():
        for name in ("result.json", "run.json"):
            try:
                task_id = read_json(f"{path}/{ATTEMPT}{index}/{name}")["task_id"]
            except (OSError, jsontext.JsonError, KeyError, TypeError):
                continue
            if isinstance(task_id, str) and task_dir_name(task_id) == os.path.basename(path):
                return StoredTask(task_id, state, path, None, torn=True)
    return None


def load_run_info(layout: RunLayout) -> Mapping[str, Any]:
    """`run_info.json`. Raises RunDirectoryError when it is missing or damaged."""
    try:
        info = read_json(layout.run_info)
    except FileNotFoundError:
        raise RunDirectoryError(
            f"{layout.root}: run info missing (no run_info.json)", hint=_what_to_give(layout.root)
        ) from None
    except (OSError, jsontext.JsonError) as error:
        raise RunDirectoryError(
            f"{layout.root}: run info damaged: {error}",
            hint="restore it from a copy, or start a new run: nothing else says what was asked",
        ) from None
    _check_document(layout.run_info, info, RUN_INFO_SCHEMA, ("request", "components"))
    return dict(info)


def _what_to_give(folder: str) -> str:
    """Somebody may have given a folder above a run: name the newest run or launch in it."""
    of_launch = os.path.basename(os.path.dirname(folder)) == LAUNCHES
    found = []
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                document = of_launch and entry.name.endswith(".json")
                if document or os.path.isfile(os.path.join(entry.path, "run_info.json")):
                    found.append((entry.stat().st_mtime, entry.path))
    except OSError:  # then nothing better can be said
        found = []
    if not found:
        return "this is not a run directory, or its run_info.json was removed"
    return f"this is not a run directory; the newest in it is {max(found)[1]}"


def load_summary(layout: RunLayout) -> dict[str, Any]:
    """`summary.json`. Raises FileNotFoundError, and RunDirectoryError when it is damaged."""
    try:
        summary = read_json(layout.summary)
    except FileNotFoundError:
        raise
    except (OSError, jsontext.JsonError) as error:
        raise RunDirectoryError(
            f"summary damaged: {error}", hint="`proctor resume` writes it anew from the records"
        ) from None
    _check_document(layout.summary, summary, SUMMARY_SCHEMA, ("counts",))
    return dict(summary)


def _check_document(path: str, document: Any, schema: str, groups: Sequence[str]) -> None:
    """A document of another version, or without its main parts, is refused."""
    version = document.get("schema_version") if isinstance(document, dict) else None
    if version != schema:
        raise RunDirectoryError(
            f"{path} is not a {schema} document but {version or 'something else'}",
            hint="it may come from a newer proctor" if version else "the file is damaged",
        )
    if missing := [name for name in groups if not isinstance(document.get(name), dict)]:
        raise RunDirectoryError(f"{path} is damaged: no {', '.join(missing)} in it")
