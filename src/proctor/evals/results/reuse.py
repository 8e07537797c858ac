"""Taking usable records of another run into a new directory. The source is never changed."""

import os
import shutil
import threading
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from proctor.evals.contracts.plan import AttemptPlan
from proctor.evals.results.layout import RUNNING, RunLayout, attempt_dir_name
from proctor.evals.results.resume import Decision, StoredAttempt, StoredState
from proctor.evals.results.stored import load_run_info, stored_tasks
from proctor.kernel.errors import RunDirectoryError, RunIsLive, Stopped
from proctor.kernel.faults import fault_point
from proctor.store.exclusive import live_owner
from proctor.store.files import (
    TEMPORARY_SUFFIX,
    AppendFile,
    read_json,
    read_json_lines,
    storage_error,
    write_json,
)

STAGING = "incoming"
"""Where a task is copied before it comes into place; below the run directory."""


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
    grade_only: bool = False
    """Nothing runs (rescore): what would run is left out."""

    def count(self, stored: Iterable[StoredAttempt]) -> None:
        """Add a task's stored attempts."""
        for attempt in stored:
            name = attempt.decision.value
            setattr(self, name, getattr(self, name) + 1)
            if attempt.changed:
                self.changed.update(attempt.changed)

    def lines(self) -> list[str]:
        """The plan for people."""
        where = f" from {self.source}" if self.source else ""
        rest = f"{self.run} run again, {self.new} new"
        if self.grade_only:
            rest = f"{self.run + self.new} left out"
            if self.run + self.new:
                rest += ": no run of theirs can be graded"
        lines = [
            f"earlier work{where}: {self.keep} attempts kept, {self.evaluate} graded again, {rest}"
        ]
        for name, count in sorted(self.changed.items()):
            what = "kept anyway" if self.anyway else "not reused as they are"
            lines.append(f"  {name} changed in {count} attempts: {what}")
        return lines

    def to_json(self) -> dict[str, Any]:
        out = {n: getattr(self, n) for n in ("source", "keep", "evaluate", "run", "new", "anyway")}
        return {**out, "changed": dict(self.changed)}


def newest_source(namespace_dir: str, own: str) -> str | None:
    """The newest run beside `own` that is neither live nor empty, None when there is none. A
    folder that does not say what it is counts as none."""
    found = []
    for place in _folders(namespace_dir):
        layout = RunLayout(place)
        if layout.root == own or live_owner(layout.root, datetime.now(UTC)) is not None:
            continue
        try:
            started = str(load_run_info(layout)["started_at"])
        except (RunDirectoryError, KeyError):
            continue
        if not is_empty(layout):
            found.append((started, layout.root))
    return max(found)[1] if found else None


def _folders(directory: str) -> list[str]:
    if not os.path.isdir(directory):
        return []
    with os.scandir(directory) as entries:
        return [entry.path for entry in entries if entry.is_dir(follow_symlinks=False)]


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
        raise RunIsLive(
            f"cannot reuse {source}: process {owner.pid} on {owner.host} is at work",
            hint="wait for it to end, or stop it first",
        )
    if is_empty(layout):
        raise RunDirectoryError(
            f"cannot reuse {source}: it holds no finished attempt",
            hint="run without reuse, or `proctor resume` that run",
        )
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


@dataclass(frozen=True, slots=True)
class CopyRules:
    """How tasks are copied. `accepted` gives the present digests by task id when changes are kept
    anyway: each kept record then says so. `without_results` leaves the old grades behind."""

    accepted: Mapping[str, Mapping[str, str]] | None
    without_results: bool
    stopping: threading.Event


def copy_tasks(
    source: RunLayout, target: RunLayout, found: Mapping[str, StoredState], rules: CopyRules
) -> None:
    """Copy every task that has a usable attempt, with its plans, into `target`'s running folder;
    one that is there already stays. Blocking. Raises StorageError, and Stopped between tasks.

    A task comes into place by one rename, so a crash leaves no half of one behind.
    """
    wanted = {
        task_id
        for task_id, state in found.items()
        if any(a.decision is not Decision.RUN for a in state.attempts.values())
    }
    staging = os.path.join(target.root, STAGING)
    try:
        os.makedirs(target.state(RUNNING), exist_ok=True)
        for task_id in wanted:
            if rules.stopping.is_set():
                raise Stopped
            if not os.path.isdir(target.task(RUNNING, task_id)):
                _copy_task(source, target, staging, task_id, found[task_id], rules)
        shutil.rmtree(staging, ignore_errors=True)
    except OSError as error:
        raise storage_error(error, str(error.filename or staging)) from error
    _copy_plans(source, target, wanted)


def _copy_task(
    source: RunLayout, target: RunLayout, staging: str, task_id: str, state: StoredState,
    rules: CopyRules,
) -> None:  # fmt: skip
    folder = source.task(state.state, task_id)

    def left_out(place: str, names: list[str]) -> set[str]:
        if place != folder and os.path.dirname(place) != folder:
            return set()  # artifacts are copied whole, whatever their names
        torn = {name for name in names if name.endswith(TEMPORARY_SUFFIX)}
        return torn | {"result.json"} if rules.without_results else torn

    shutil.rmtree(staging, ignore_errors=True)
    fault_point("copy.begin")
    shutil.copytree(folder, staging, symlinks=True, ignore=left_out)
    fault_point("copy.written")
    if rules.accepted is not None:
        _accept(source, staging, state, rules.accepted[task_id])
    os.rename(staging, target.task(RUNNING, task_id))
    fault_point("copy.done")


def _accept(source: RunLayout, folder: str, state: StoredState, now: Mapping[str, str]) -> None:
    for index, attempt in state.attempts.items():
        if not attempt.changed or attempt.decision is Decision.RUN:
            continue
        for name in ("result.json", "run.json"):
            path = os.path.join(folder, attempt_dir_name(index), name)
            if os.path.exists(path):
                record = read_json(path)
                record["reuse"] = {
                    "run": source.root,
                    "changed": list(attempt.changed),
                    "accepted": {field: now[field] for field in attempt.changed},
                }
                write_json(path, record, "reuse")


def _copy_plans(source: RunLayout, target: RunLayout, wanted: set[str]) -> None:
    """The plans of the copied attempts, each in full where it first occurs."""
    full: dict[str, Any] = {}
    known: set[str] = set()
    out = AppendFile(target.plans, "plans")
    try:
        for line in read_json_lines(source.plans):
            digest = line["digest"]
            full.setdefault(digest, line.get("plan"))
            if line["task_id"] not in wanted:
                continue
            copied = {name: line[name] for name in ("task_id", "attempt", "digest")}
            if digest not in known and full[digest] is not None:
                known.add(digest)
                copied["plan"] = full[digest]
            out.append(copied)
    finally:
        out.close()
