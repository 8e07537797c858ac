"""Taking usable records of another run into a new directory. The source is never changed."""

import os
import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from proctor.evals.contracts.plan import AttemptPlan
from proctor.evals.results.layout import RUNNING, RunLayout, attempt_dir_name
from proctor.evals.results.resume import Decision, StoredAttempt, StoredState
from proctor.evals.results.stored import load_run_info, stored_tasks
from proctor.kernel.errors import RunDirectoryError, RunIsLive
from proctor.kernel.ids import task_dir_name
from proctor.store.exclusive import live_owner
from proctor.store.files import (
    TEMPORARY_SUFFIX,
    AppendFile,
    read_json,
    read_json_lines,
    storage_error,
    write_json,
)


@dataclass(slots=True)
class ReusePlan:
    """What of earlier work is kept, graded again or run again, shown before anything runs.

    Numbers are of attempts; `changed` counts, by field, the attempts whose input differs.
    """

    source: str | None = None
    keep: int = 0
    evaluate: int = 0
    run: int = 0
    new: int = 0
    changed: Counter[str] = field(default_factory=Counter)
    anyway: bool = False

    def count(self, stored: Mapping[int, StoredAttempt]) -> None:
        """Add a task's stored attempts."""
        for attempt in stored.values():
            name = attempt.decision.value
            setattr(self, name, getattr(self, name) + 1)
            self.changed.update(attempt.changed)

    def lines(self) -> list[str]:
        """The plan for people."""
        where = f" from {self.source}" if self.source else ""
        lines = [
            f"earlier work{where}: {self.keep} attempts kept, {self.evaluate} graded again, "
            f"{self.run} run again, {self.new} new"
        ]
        for name, count in sorted(self.changed.items()):
            what = "kept anyway" if self.anyway else "not reused as they are"
            lines.append(f"  {name} changed in {count} attempts: {what}")
        return lines

    def to_json(self) -> dict[str, Any]:
        out = {n: getattr(self, n) for n in ("source", "keep", "evaluate", "run", "new", "anyway")}
        return {**out, "changed": dict(self.changed)}


def newest_source(namespace_dir: str, own: str) -> str | None:
    """The newest run beside `own` that is neither live nor empty, None when there is none."""
    found = []
    for entry in _folders(namespace_dir):
        layout = RunLayout(entry)
        if layout.root == own or not os.path.exists(layout.run_info):
            continue
        if live_owner(layout.root, datetime.now(UTC)) is None and not is_empty(layout):
            info = load_run_info(layout)
            found.append((str(info["started_at"]), layout.root))
    return max(found)[1] if found else None


def _folders(directory: str) -> Iterator[str]:
    if os.path.isdir(directory):
        for entry in os.scandir(directory):
            if entry.is_dir(follow_symlinks=False):
                yield entry.path


def is_empty(layout: RunLayout) -> bool:
    """Whether a run holds no attempt with a record."""
    for task in stored_tasks(layout):
        for attempt in task.attempts():
            folder = os.path.join(task.path, attempt_dir_name(attempt))
            if any(os.path.exists(os.path.join(folder, n)) for n in ("result.json", "run.json")):
                return False
    return True


def check_source(source: str, benchmark_id: str, plan: AttemptPlan) -> None:
    """Refuse a source that is live, empty, damaged or of another benchmark or attempt plan."""
    layout = RunLayout(source)
    if not os.path.isdir(layout.root):
        raise RunDirectoryError(f"cannot reuse: no such run directory: {source}")
    info = load_run_info(layout)
    owner = live_owner(layout.root, datetime.now(UTC))
    if owner is not None:
        raise RunIsLive(f"cannot reuse {source}: process {owner.pid} on {owner.host} is at work")
    if is_empty(layout):
        raise RunDirectoryError(f"cannot reuse {source}: it holds no finished attempt")
    old_id = info["components"]["benchmark"]["id"]
    if old_id != benchmark_id:
        raise RunDirectoryError(
            f"cannot reuse {source}: it is of benchmark {old_id!r}, the request of {benchmark_id!r}"
        )
    old = AttemptPlan.from_json(info["request"]["execution"]["attempts"])
    if old != plan:
        raise RunDirectoryError(
            f"cannot reuse {source}: its attempt plan is k={old.k} {old.strategy!r}, the request's "
            f"is k={plan.k} {plan.strategy!r}",
            hint="run without --reuse, or with the same -k and --strategy",
        )


def copy_tasks(
    source: RunLayout,
    target: RunLayout,
    found: Mapping[str, StoredState],
    accepted: Callable[[str], Mapping[str, str]] | None,
) -> None:
    """Copy every task that has a usable attempt, with its plans, into `target`'s running folder.

    `accepted(task_id)` gives the present digests when changes are kept anyway: each kept record
    then says so. Blocking. Raises StorageError.
    """
    digests: set[str] = set()
    wanted: set[str] = set()
    for task_id, state in found.items():
        if all(a.decision is Decision.RUN for a in state.attempts.values()):
            continue
        wanted.add(task_id)
        _copy_task(source, target, task_id, state)
        if accepted is not None:
            _accept(source, target, task_id, state, accepted(task_id))
    _copy_plans(source, target, wanted, digests)


def _copy_task(source: RunLayout, target: RunLayout, task_id: str, state: StoredState) -> None:
    name = task_dir_name(task_id)
    old = os.path.join(source.state(state.state), name)
    new = os.path.join(target.state(RUNNING), name)
    ignore = shutil.ignore_patterns(f"*{TEMPORARY_SUFFIX}")
    try:
        os.makedirs(target.state(RUNNING), exist_ok=True)
        shutil.copytree(old, new, symlinks=True, ignore=ignore)
    except OSError as error:
        raise storage_error(error, new) from error


def _accept(
    source: RunLayout,
    target: RunLayout,
    task_id: str,
    state: StoredState,
    now: Mapping[str, str],
) -> None:
    for index, attempt in state.attempts.items():
        if not attempt.changed or attempt.decision is Decision.RUN:
            continue
        folder = os.path.join(target.task(RUNNING, task_id), attempt_dir_name(index))
        for name in ("result.json", "run.json"):
            path = os.path.join(folder, name)
            if os.path.exists(path):
                record = read_json(path)
                record["reuse"] = {
                    "run": source.root,
                    "changed": list(attempt.changed),
                    "accepted": {field: now[field] for field in attempt.changed},
                }
                write_json(path, record, "reuse")


def _copy_plans(source: RunLayout, target: RunLayout, wanted: set[str], known: set[str]) -> None:
    """The plans of the copied attempts, each in full where it first occurs."""
    full = {}
    lines = []
    for line in read_json_lines(source.plans):
        if "plan" in line:
            full[line["digest"]] = line["plan"]
        if line.get("task_id") in wanted:
            lines.append({k: line[k] for k in ("task_id", "attempt", "digest")})
    out = AppendFile(target.plans, "plans")
    try:
        for line in lines:
            if line["digest"] not in known and line["digest"] in full:
                known.add(line["digest"])
                line["plan"] = full[line["digest"]]
            out.append(line)
    finally:
        out.close()
