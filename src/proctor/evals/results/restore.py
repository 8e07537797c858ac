"""Bringing a run directory back to work: keeping, setting aside, moving task directories."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from proctor.evals.contracts.plan import AttemptPlan
from proctor.evals.contracts.task import TaskSpec
from proctor.evals.results.layout import RUNNING, attempt_dir_name
from proctor.evals.results.resume import Decision, Examination, StoredState
from proctor.evals.results.reuse import ReusePlan
from proctor.evals.results.writer import RunWriter, set_aside
from proctor.evals.strategy import Strategy
from proctor.evals.tasks import AttemptSummary, TaskState
from proctor.models.contract import Usage


@dataclass(frozen=True, slots=True)
class Restored:
    """The task states with what is kept, and what the kept attempts used."""

    states: list[TaskState]
    usage: Usage


def restore(
    writer: RunWriter,
    tasks: Sequence[TaskSpec],
    found: Mapping[str, StoredState],
    rules: Examination,
    strategy: Strategy,
    plan: AttemptPlan,
) -> Restored:
    """Put every task where it belongs, by what was `found` of it in the writer's directory.
    Blocking. Raises StorageError."""
    usage = Usage()
    states = []
    for task in tasks:
        state = TaskState(task, grade_only=rules.rescore)
        stored = found.get(task.id)
        if stored is not None:
            usage += _keep(state, stored, plan)
            _arrange(writer, state, stored, strategy, plan, rules.contract.primary)
        states.append(state)
    return Restored(states, usage)


def reuse_plan(
    tasks: Sequence[TaskSpec], found: Mapping[str, StoredState], plan: AttemptPlan
) -> ReusePlan:
    """What will happen to the stored attempts of the selected tasks."""
    made = ReusePlan()
    for task in tasks:
        stored = found.get(task.id)
        attempts = stored.attempts if stored is not None else {}
        made.count({i: a for i, a in attempts.items() if i <= plan.k})
        made.new += plan.k - len([i for i in attempts if i <= plan.k])
    return made


def _keep(state: TaskState, stored: StoredState, plan: AttemptPlan) -> Usage:
    usage = Usage()
    again = set()
    for index, attempt in sorted(stored.attempts.items()):
        if index > plan.k:
            continue
        if attempt.decision is Decision.KEEP:
            state.done[index] = AttemptSummary(attempt.observations, attempt.severity)
            usage += attempt.usage
        elif attempt.decision is Decision.EVALUATE:
            again.add(index)
    state.evaluate_only = frozenset(again)
    return usage


def _arrange(
    writer: RunWriter,
    state: TaskState,
    stored: StoredState,
    strategy: Strategy,
    plan: AttemptPlan,
    primary: str,
) -> None:
    """Put the task's directory where it belongs now; old records make room first."""
    task_id = state.spec.id
    if state.is_complete(strategy, plan, primary):
        if stored.state != state.final_state:
            writer.move_task(task_id, stored.state, state.final_state)
        return
    if stored.state != RUNNING:
        writer.move_task(task_id, stored.state, RUNNING)
    directory = writer.layout.task(RUNNING, task_id)
    for index, attempt in stored.attempts.items():
        source = os.path.join(directory, attempt_dir_name(index))
        if attempt.decision is Decision.RUN and os.listdir(source):
            set_aside(source, writer.next_place(task_id, index))
        elif attempt.decision is Decision.EVALUATE:
            _set_result_aside(writer, task_id, index, source)


def _set_result_aside(writer: RunWriter, task_id: str, index: int, source: str) -> None:
    result = os.path.join(source, "result.json")
    if os.path.exists(result):
        place = writer.next_place(task_id, index)
        os.rename(result, os.path.join(place, "result.json"))
