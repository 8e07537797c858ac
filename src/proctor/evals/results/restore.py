"""Bringing a run directory back to work: keeping, setting aside, moving task directories."""

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from proctor.evals.contracts.plan import AttemptPlan
from proctor.evals.contracts.task import TaskSpec
from proctor.evals.results.layout import RUNNING, attempt_dir_name
from proctor.evals.results.resume import Decision, Examination, StoredState
from proctor.evals.results.reuse import ReusePlan
from proctor.evals.results.writer import RunWriter, move_aside, set_aside
from proctor.evals.strategy import Strategy
from proctor.evals.tasks import AttemptSummary, TaskState
from proctor.models.contract import Usage


@dataclass(slots=True)
class Restored:
    """The task states with what is kept, what the kept attempts used, and their issue codes."""

    states: list[TaskState] = field(default_factory=list)
    usages: list[Usage] = field(default_factory=list)
    issues: Counter[str] = field(default_factory=Counter)

    @property
    def usage(self) -> Usage:
        """The sum of what the kept attempts used."""
        return Usage.total(self.usages)


def restore(
    writer: RunWriter,
    tasks: Sequence[TaskSpec],
    found: Mapping[str, StoredState],
    rules: Examination,
    strategy: Strategy,
    plan: AttemptPlan,
) -> Restored:
    """Keep what is kept, and put every task's directory where it belongs, by what was `found` of
    it in the writer's directory. Blocking. Raises StorageError."""
    restored = Restored()
    for task in tasks:
        state = TaskState(task, grade_only=rules.grade_only)
        stored = found.get(task.id)
        if stored is not None:
            _keep(state, stored, plan, restored)
            _arrange(writer, state, stored, strategy, plan, rules.contract.primary)
        restored.states.append(state)
    return restored


def reuse_plan(
    tasks: Sequence[TaskSpec],
    found: Mapping[str, StoredState],
    plan: AttemptPlan,
    *,
    grade_only: bool = False,
) -> ReusePlan:
    """What will happen to the stored attempts of the selected tasks."""
    made = ReusePlan(grade_only=grade_only)
    for task in tasks:
        stored = found.get(task.id)
        attempts = stored.attempts.items() if stored is not None else ()
        planned = [attempt for index, attempt in attempts if index <= plan.k]
        made.count(planned)
        made.new += plan.k - len(planned)
    return made


def _keep(state: TaskState, stored: StoredState, plan: AttemptPlan, restored: Restored) -> None:
    again = set()
    for index, attempt in sorted(stored.attempts.items()):
        if index > plan.k:
            continue
        if attempt.decision is Decision.KEEP:
            state.done[index] = AttemptSummary(attempt.observations, attempt.severity)
            restored.usages.append(attempt.usage)
            if attempt.issues:
                restored.issues.update(attempt.issues)
        elif attempt.decision is Decision.EVALUATE:
            again.add(index)
    state.evaluate_only = frozenset(again)


def _arrange(
    writer: RunWriter,
    state: TaskState,
    stored: StoredState,
    strategy: Strategy,
    plan: AttemptPlan,
    primary: str,
) -> None:
    """Put the task's directory where it belongs now. What is not kept makes room, also where a
    strategy needs it no more: only what is counted stays in `details/`."""
    task_id = state.spec.id
    complete = state.is_complete(strategy, plan, primary)
    place = state.final_state if complete else RUNNING
    if stored.state != place:
        writer.move_task(task_id, stored.state, place)
    if stored.torn:
        writer.write_task(writer.layout.task(place, task_id), state.spec)
    undone = {i: a for i, a in stored.attempts.items() if a.decision is not Decision.KEEP}
    directory = writer.layout.task(place, task_id) if undone else ""
    for index, attempt in undone.items():
        source = os.path.join(directory, attempt_dir_name(index))
        if attempt.decision is Decision.EVALUATE:
            _set_result_aside(writer, task_id, index, source)
        elif os.listdir(source):
            set_aside(source, writer.next_place(task_id, index))


def _set_result_aside(writer: RunWriter, task_id: str, index: int, source: str) -> None:
    result = os.path.join(source, "result.json")
    if os.path.exists(result):
        place = writer.next_place(task_id, index)
        move_aside(result, os.path.join(place, "result.json"))
