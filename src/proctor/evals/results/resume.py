"""What of a run directory is kept, graded again, or run again. Decided per attempt.

An attempt with a valid primary observation and no fatal issue is kept, whatever its other
issues: a wrong answer is a result. One whose agent finished but whose evaluation is missing,
failed or outdated is graded again in modes `none` and `fresh`. Everything else runs again.
"""

import hashlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from proctor.evals.contracts.task import TaskSpec
from proctor.evals.metrics.contract import MetricContract, observe
from proctor.evals.results.layout import RunLayout, attempt_dir_name
from proctor.evals.results.records import what_was_run
from proctor.evals.results.stored import DAMAGED, StoredTask, by_its_records, stored_tasks
from proctor.kernel.errors import RunDirectoryError
from proctor.kernel.ids import task_dir_name
from proctor.kernel.issues import Issue, Severity, highest
from proctor.models.contract import Usage


class Decision(StrEnum):
    """What happens to a stored attempt."""

    KEEP = "keep"
    EVALUATE = "evaluate"
    RUN = "run"


@dataclass(frozen=True, slots=True)
class StoredAttempt:
    """A stored attempt and what is done with it. `changed` names the digests that differ."""

    index: int
    decision: Decision
    reason: str
    observations: Mapping[str, float] = field(default_factory=dict)
    severity: Severity | None = None
    usage: Usage = Usage()
    issues: tuple[str, ...] = ()
    """The codes of its issues."""
    changed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class StoredState:
    """What the directory knows of one selected task. `torn`: its `task.json` is not readable."""

    state: str
    attempts: Mapping[int, StoredAttempt]
    torn: bool = False


@dataclass(frozen=True, slots=True)
class Examination:
    """The rules of one resume: the contract, the new digests, and who may be graded again."""

    contract: MetricContract
    k: int
    """The attempts that each task is to have."""
    digests_of: Callable[[TaskSpec], Mapping[str, str]]
    """The digests of a task's inputs as they are now."""
    gradable_again: Callable[[TaskSpec], bool]
    """Whether a task's evaluation mode allows grading again without the agent."""
    anyway: bool = False
    """Keep attempts whose inputs changed (`--reuse-anyway`); their records say so."""
    regrade: bool = False
    """Grade every stored run again, also where its grade is valid (rescore)."""
    grade_only: bool = False
    """Nothing runs: what cannot be kept or graded stays without a record (rescore)."""


def examine(
    layout: RunLayout, tasks: Sequence[TaskSpec], rules: Examination
) -> Iterator[tuple[str, StoredState]]:
    """(task id, state) of every selected task that the directory knows."""
    wanted = {task.id: task for task in tasks}
    for stored in stored_tasks(layout):
        task = wanted.get(stored.task_id)
        if task is None and task_dir_name(stored.task_id) != os.path.basename(stored.path):
            stored = by_its_records(stored.path, stored.state) or stored  # its task.json is wrong
            task = wanted.get(stored.task_id)
        if task is not None:
            now = rules.digests_of(task)
            attempts = _kept_whole(stored, rules, now)
            if attempts is None:
                again = rules.gradable_again(task)
                attempts = {
                    index: _examined(stored, index, rules, now, again=again)
                    for index in stored.attempts()
                }
            yield stored.task_id, StoredState(stored.state, attempts, stored.torn)


def _kept_whole(
    stored: StoredTask, rules: Examination, now: Mapping[str, str]
) -> dict[int, StoredAttempt] | None:
    """The attempts of a task that has its k and no other, all of them to be kept: most tasks of
    most runs. None where one has to look closer."""
    if rules.regrade or not stored.has_only(rules.k):
        return None
    attempts = {}
    for index in range(1, rules.k + 1):
        record = stored.result(index)
        try:
            found = record and _examine_record(stored, record, rules.contract, now)
        except DAMAGE:
            return None
        if not found or found.decision is not Decision.KEEP:
            return None
        attempts[index] = found
    return attempts


DAMAGE = (KeyError, TypeError, ValueError, AttributeError, ArithmeticError)
"""What a record that is not as it was written may end in."""


def _examined(
    stored: StoredTask, index: int, rules: Examination, now: Mapping[str, str], *, again: bool
) -> StoredAttempt:
    try:
        return _decide(stored, index, rules, now, again=again)
    except DAMAGE as error:
        place = os.path.join(stored.path, attempt_dir_name(index), "result.json")
        raise RunDirectoryError(
            f"damaged record: {place} (or its run.json): {type(error).__name__}: {error}",
            hint=DAMAGED,
        ) from error


def _decide(
    stored: StoredTask, index: int, rules: Examination, now: Mapping[str, str], *, again: bool
) -> StoredAttempt:
    if rules.regrade:
        return _examine_run(stored, index, now, again=again)
    found = _examine_attempt(stored, index, rules.contract, now, again=again)
    if rules.anyway and found.changed:
        kept = _examine_attempt(stored, index, rules.contract, {}, again=again)
        return replace(kept, changed=found.changed)
    return found


def _examine_attempt(
    stored: StoredTask,
    index: int,
    contract: MetricContract,
    now: Mapping[str, str],
    *,
    again: bool,
) -> StoredAttempt:
    record = stored.result(index)
    if record is None:
        return _examine_run(stored, index, now, again=again)
    found = _examine_record(stored, record, contract, now)
    if found.decision is Decision.KEEP or not again or _beyond_grading(found.changed):
        return found
    run = _examine_run(stored, index, now, again=again)
    if _beyond_grading(run.changed):
        return run
    return replace(found, decision=run.decision)


def _examine_run(
    stored: StoredTask, index: int, now: Mapping[str, str], *, again: bool
) -> StoredAttempt:
    """Whether the stored run of an attempt can be graded (again)."""
    run = stored.run(index) if again else None
    if run is None:
        return StoredAttempt(index, Decision.RUN, "no record")
    changed = _changed(run, now)
    if _beyond_grading(changed):
        return StoredAttempt(index, Decision.RUN, "inputs changed", changed=changed)
    what_was_run(run)  # it can be read
    _check_artifacts(stored, index, run["result"]["artifacts"])
    return StoredAttempt(index, Decision.EVALUATE, "to be graded", changed=changed)


def _examine_record(
    stored: StoredTask,
    record: Mapping[str, Any],
    contract: MetricContract,
    now: Mapping[str, str],
) -> StoredAttempt:
    """Whether a record is kept; RUN means that it is not, as far as the record goes."""
    index = int(record["attempt"])
    changed = _changed(record, now)
    if _beyond_grading(changed):
        return StoredAttempt(index, Decision.RUN, "inputs changed", changed=changed)
    issues = [Issue.from_json(i) for i in record["issues"]]
    severity = highest(issues) if issues else None
    observations = _observations(record, contract)
    valid = contract.primary in observations and severity is not Severity.FATAL
    if changed:
        return StoredAttempt(index, Decision.RUN, "grading changed", changed=changed)
    if not valid:
        return StoredAttempt(index, Decision.RUN, "no valid observation")
    _check_artifacts(stored, index, record["artifacts"])
    return StoredAttempt(
        index,
        Decision.KEEP,
        "valid",
        observations,
        severity,
        Usage.from_json(record["usage"]),
        tuple(issue.code for issue in issues),
    )


def _changed(record: Mapping[str, Any], now: Mapping[str, str]) -> tuple[str, ...]:
    """The digests that differ, except changes that somebody accepted with `--reuse-anyway`."""
    old = record["digests"]
    if old == now:
        return ()
    accepted = (record.get("reuse") or {}).get("accepted", {})
    return tuple(
        name for name in now if old.get(name) != now[name] and accepted.get(name) != now[name]
    )


def _beyond_grading(changed: Sequence[str]) -> bool:
    """Whether grading again is not enough."""
    return bool(changed) and not {"grading"}.issuperset(changed)


def _observations(record: Mapping[str, Any], contract: MetricContract) -> dict[str, float]:
    found = {}
    for spec in contract.metrics:
        if spec.id in record["metrics"]:
            number = observe(spec, record["metrics"][spec.id])
            if isinstance(number, float):
                found[spec.id] = number
    return found


def _check_artifacts(
    stored: StoredTask, index: int, artifacts: Sequence[Mapping[str, Any]]
) -> None:
    if not artifacts:
        return
    folder = os.path.join(stored.path, attempt_dir_name(index), "artifacts")
    for artifact in artifacts:
        path = os.path.join(folder, artifact["path"])
        if not _is_plain_file_in(folder, path):
            raise RunDirectoryError(f"{path}: artifact missing")
        try:
            with open(path, "rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
        except OSError as error:
            raise RunDirectoryError(f"{path}: artifact unreadable: {error.strerror}") from None
        if digest != artifact["sha256"]:
            raise RunDirectoryError(f"{path}: the artifact is not the recorded one")


def _is_plain_file_in(folder: str, path: str) -> bool:
    """A directory that comes from elsewhere may name pipes, devices, or files of the host."""
    inside = os.path.normpath(path).startswith(folder + os.sep)
    return inside and os.path.isfile(path) and not os.path.islink(path)
