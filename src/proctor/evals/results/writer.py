"""The one writer of a run directory. Blocking file work happens in its own threads.

One thread hop starts an attempt (its plan, and the task's record), one finishes it (its record,
synced; the announcement; the task's move to its final state). Nothing is rewritten per attempt.
"""

import asyncio
import os
from collections.abc import Callable, Mapping
from typing import Any

from proctor.evals.contracts.plan import AttemptPlan
from proctor.evals.contracts.task import TaskSpec
from proctor.evals.planner import ExecutionPlan
from proctor.evals.results.hands import Hands
from proctor.evals.results.layout import RUNNING, RunLayout, attempt_dir_name
from proctor.evals.results.records import task_record
from proctor.kernel.clock import Clock, iso
from proctor.kernel.faults import fault_point
from proctor.kernel.redact import Redactor
from proctor.store.files import (
    AppendFile,
    Sync,
    storage_error,
    sync_ancestors,
    write_json,
    write_pretty_json,
)


class RunWriter:
    """Writes evidence; see `proctor.evals.results.layout` for the places."""

    def __init__(
        self,
        layout: RunLayout,
        attempt_plan: AttemptPlan,
        redactor: Redactor,
        clock: Clock,
        *,
        strict: bool = False,
    ) -> None:
        self.layout = layout
        self._attempt_plan = attempt_plan
        self.redactor = redactor
        self._clock = clock
        self._strict = strict
        self._hands = Hands("proctor-write")
        _make(layout.logs)
        self._plans = AppendFile(layout.plans, "plans")
        self._log = AppendFile(layout.run_log, "log")
        self._known_plans: set[str] = set()

    def in_thread(self, function: Callable[..., Any], *args: Any) -> "asyncio.Future[Any]":
        """Run blocking file work in the writer's threads. Raises StorageError when awaited."""
        return self._hands.run(function, *args)

    def log(self, event: str, **fields: Any) -> None:
        """Append a line to `logs/run.jsonl`. Task ids, metrics and messages are facts: known
        secrets are removed from them, whatever the names beside them look like."""
        line = {"ts": iso(self._clock.now()), "event": event, **fields}
        self._log.append(self.redactor.facts(line))

    async def begin(self, task: TaskSpec, attempt: int, plan: ExecutionPlan, digest: str) -> None:
        """Record an attempt's plan; makes the task's directory when it is not there yet."""
        line: dict[str, Any] = {"task_id": task.id, "attempt": attempt, "digest": digest}
        if digest not in self._known_plans:
            self._known_plans.add(digest)
            line["plan"] = self.redactor.config(plan.to_json())
        await self._hands.run(self._begin, task, line)

    def _begin(self, task: TaskSpec, line: dict[str, Any]) -> None:
        self._plans.append(line)
        self._ensure_task(task)

    def _ensure_task(self, task: TaskSpec) -> None:
        directory = self.layout.task(RUNNING, task.id)
        path = os.path.join(directory, "task.json")
        if _make(directory) or not os.path.exists(path):
            self.write_task(directory, task)

    def write_task(self, directory: str, task: TaskSpec) -> None:
        """Write `task.json`. Blocking."""
        record = self.redactor.facts(task_record(task, self._attempt_plan))
        write_json(os.path.join(directory, "task.json"), record, "task")

    def _ensure_attempt(self, task: TaskSpec, attempt: int) -> str:
        directory = self.attempt_dir(task, attempt)
        try:
            os.mkdir(directory)
        except FileExistsError:
            return directory
        except OSError:  # the task's own directory is not there, or a real failure
            self._ensure_task(task)
            _make(directory)
        return directory

    def attempt_dir(self, task: TaskSpec, attempt: int) -> str:
        """Where an unfinished task's attempt is written."""
        return os.path.join(self.layout.task(RUNNING, task.id), attempt_dir_name(attempt))

    def artifacts_dir(self, task: TaskSpec, attempt: int) -> str:
        """The attempt's artifacts folder; not made here."""
        return os.path.join(self.attempt_dir(task, attempt), "artifacts")

    async def store_run(self, task: TaskSpec, attempt: int, record: dict[str, Any]) -> None:
        """Make the run record durable."""
        await self.in_thread(self._store_run, task, attempt, record)

    def _store_run(self, task: TaskSpec, attempt: int, record: dict[str, Any]) -> None:
        directory = self._ensure_attempt(task, attempt)
        path = os.path.join(directory, "run.json")
        write_json(path, self.redactor.facts(record), "run", Sync.FILE)
        if self._strict:
            sync_ancestors(directory, self.layout.root)

    def store_result(
        self, task: TaskSpec, record: Mapping[str, Any], final_state: str | None
    ) -> "asyncio.Future[None]":
        """Make the attempt record durable, announce it, and move a finished task."""
        return self._hands.run(self._store_result, task, record, final_state)

    def _store_result(
        self, task: TaskSpec, record: Mapping[str, Any], final_state: str | None
    ) -> None:
        attempt = int(record["attempt"])
        directory = self._ensure_attempt(task, attempt)
        path = os.path.join(directory, "result.json")
        clean = {**self.redactor.facts(record), "meta": self.redactor.config(record["meta"])}
        write_json(path, clean, "result", Sync.RECORD)
        if self._strict:
            sync_ancestors(directory, self.layout.root)
        self.log(
            "attempt.finished",
            task_id=task.id,
            attempt=attempt,
            status=record["status"],
            metrics=record["metrics"],
        )
        if final_state is not None:
            self.move_task(task.id, RUNNING, final_state)

    def move_task(self, task_id: str, source: str, target: str) -> None:
        """Rename a task's directory to another state folder."""
        old, new = self.layout.task(source, task_id), self.layout.task(target, task_id)
        try:
            fault_point("state.begin")
            try:
                os.rename(old, new)
            except FileNotFoundError:  # the first task of this state
                os.makedirs(os.path.dirname(new), exist_ok=True)
                os.rename(old, new)
            fault_point("state.done")
        except OSError as error:
            raise storage_error(error, new) from error

    def has_result(self, task: TaskSpec, attempt: int, final_state: str | None) -> bool:
        """Whether a record came into place, although something failed around it."""
        places = [state for state in (RUNNING, final_state) if state is not None]
        name = os.path.join(attempt_dir_name(attempt), "result.json")
        return any(os.path.exists(os.path.join(self.layout.task(p, task.id), name)) for p in places)

    def drop_try(
        self, task: TaskSpec, attempt: int, details: Mapping[str, Any]
    ) -> "asyncio.Future[None]":
        """Keep a dropped try's diagnostics under `retry_details/`."""
        return self._hands.run(self._drop_try, task, attempt, details)

    def _drop_try(self, task: TaskSpec, attempt: int, details: Mapping[str, Any]) -> None:
        place = self.next_place(task.id, attempt)
        record = self.redactor.config(dict(details))
        write_json(os.path.join(place, "try.json"), record, "try")
        if details.get("scope") == "attempt":
            set_aside(self.attempt_dir(task, attempt), place)
        self.log(
            "attempt.retry",
            task_id=task.id,
            attempt=attempt,
            phase=details["phase"],
            scope=details["scope"],
            message=details["issue"]["message"],
            delay_s=details["delay_s"],
        )

    def next_place(self, task_id: str, attempt: int) -> str:
        """A new numbered folder under `retry_details/` for what an attempt leaves behind."""
        return _next_place(self.layout.dropped(task_id, attempt))

    def write_document(self, path: str, value: Any, role: str) -> None:
        """Write a run-level JSON document, synced."""
        write_pretty_json(path, self.redactor.config(value), role, Sync.RECORD)

    def write_facts(self, path: str, value: Any, role: str) -> None:
        """Write a run-level document of observations, in which key names hide nothing."""
        write_pretty_json(path, self.redactor.facts(value), role, Sync.RECORD)

    def close(self) -> None:
        """Wait for what is being written and close the logs. Idempotent."""
        self._hands.close()
        self._plans.close()
        self._log.close()


def set_aside(source: str, place: str) -> None:
    """Move everything in `source` into `place` and remove the emptied folder."""
    if not os.path.isdir(source):
        return
    try:
        for name in sorted(os.listdir(source)):
            move_aside(os.path.join(source, name), os.path.join(place, name))
        os.rmdir(source)
    except OSError as error:
        raise storage_error(error, place) from error


def move_aside(source: str, target: str) -> None:
    """Move one file or folder out of the way of what comes anew."""
    try:
        fault_point("aside.begin")
        os.rename(source, target)
        fault_point("aside.done")
    except OSError as error:
        raise storage_error(error, target) from error


def _make(directory: str) -> bool:
    """Make a directory with its parents; whether it is new."""
    try:
        os.mkdir(directory)
    except FileExistsError:
        return False
    except FileNotFoundError:
        return _make_with_parents(directory)
    except OSError as error:
        raise storage_error(error, directory) from error
    return True


def _make_with_parents(directory: str) -> bool:
    try:
        os.makedirs(os.path.dirname(directory), exist_ok=True)
    except OSError as error:
        raise storage_error(error, directory) from error
    return _make(directory)


def _next_place(parent: str) -> str:
    """The next numbered folder under `parent`, made."""
    number = 1
    try:
        os.makedirs(parent, exist_ok=True)
        while True:
            place = os.path.join(parent, str(number))
            try:
                os.mkdir(place)
            except FileExistsError:
                number += 1
            else:
                return place
    except OSError as error:
        raise storage_error(error, parent) from error
