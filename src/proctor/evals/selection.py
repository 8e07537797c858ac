"""Loading and selecting the tasks of a request, once, with every refusal in one message."""

from collections.abc import Sequence
from typing import Any

from proctor.evals.components import Components, guard
from proctor.evals.contracts.benchmark import Benchmark, Selection
from proctor.evals.contracts.task import TaskSpec
from proctor.evals.options import nearest
from proctor.evals.request import SelectionRequest
from proctor.evals.task_shape import shape_problems
from proctor.kernel.errors import (
    BrokenComponent,
    DataError,
    NothingSelected,
    ProctorError,
    UsageError,
)
from proctor.kernel.ids import id_problem


def load_and_select(components: Components, wanted: SelectionRequest) -> list[TaskSpec]:
    """All selected tasks. Blocking. Raises UsageError; nothing has run."""
    benchmark = components.benchmark
    selection = Selection(wanted.tasks, wanted.shuffle_seed, wanted.limit)
    tasks = _guarded("load_tasks", lambda: list(benchmark.load_tasks()), benchmark.id)
    _check_ids(tasks, benchmark.id)
    chosen = _guarded(
        "select_tasks", lambda: list(benchmark.select_tasks(tasks, selection)), benchmark.id
    )
    _check_chosen(chosen, tasks, benchmark.id)
    if not chosen:
        raise _nothing(tasks, wanted)
    _check_shapes(chosen, benchmark)
    _check_needs(components, chosen)
    return chosen


def task_problems(components: Components, task: TaskSpec) -> list[str]:
    """Why a task cannot run with these components; empty when it can."""
    environment = components.environment
    problems = list(environment.problems(environment.adapt(task.environment)))
    if task.evaluation_environment is not None:
        adapted = environment.adapt(task.evaluation_environment)
        problems += [f"to grade it: {problem}" for problem in environment.problems(adapted)]
    if task.mode_is_fixed and components.asked_mode not in (None, task.evaluation_mode):
        problems.append(
            f"its evaluation mode is {task.evaluation_mode!r}, not {components.asked_mode!r}: "
            "leave --evaluation-mode out"
        )
    harness = components.harness
    if harness is not None and harness.needs_reference and task.reference is None:
        problems.append(f"harness {harness.id} needs a reference solution; this task has none")
    return problems


def _needs(components: Components, task: TaskSpec) -> list[str]:
    what = f"asking environment {components.environment.id!r} about task {task.id!r}"
    found: list[str] = guard(what, task_problems, components, task)
    return found


def _guarded(method: str, call: Any, benchmark_id: str) -> list[TaskSpec]:
    try:
        found: list[TaskSpec] = call()
    except ProctorError:
        raise
    except (Exception, SystemExit) as error:
        raise BrokenComponent(
            f"benchmark {benchmark_id!r}: {method} failed: {type(error).__name__}: {error}"
        ) from error
    for position, task in enumerate(found, start=1):
        if not isinstance(task, TaskSpec):
            raise BrokenComponent(
                f"benchmark {benchmark_id!r}: {method} gave {type(task).__name__} "
                f"as task {position}, expected TaskSpec"
            )
    return found


def _check_ids(tasks: Sequence[TaskSpec], benchmark_id: str) -> None:
    problems, first = [], dict[str, int]()
    for position, task in enumerate(tasks, start=1):
        if problem := id_problem(task.id):
            problems.append(f"task {position}: {problem}")
        elif task.id in first:
            problems.append(
                f"task {position}: duplicate id {task.id!r} (first: task {first[task.id]})"
            )
        else:
            first[task.id] = position
    if problems:
        raise DataError(f"benchmark {benchmark_id!r} gave unusable task ids:", problems=problems)


def _check_chosen(chosen: list[TaskSpec], tasks: list[TaskSpec], benchmark_id: str) -> None:
    known = {task.id for task in tasks}
    ids = [task.id for task in chosen]
    if len(set(ids)) != len(ids) or not known.issuperset(ids):
        raise BrokenComponent(
            f"benchmark {benchmark_id!r}: select_tasks must choose loaded tasks, each once"
        )


def _check_shapes(chosen: Sequence[TaskSpec], benchmark: Benchmark) -> None:
    """Refuse what no plan or record could hold, while nothing has run yet."""
    problems = [
        f"task {task.id!r}: {problem}"
        for task in chosen
        for problem in shape_problems(task, benchmark.evaluation_modes)
    ]
    if problems:
        raise DataError(f"benchmark {benchmark.id!r} gave unusable tasks:", problems=problems)


def _nothing(tasks: list[TaskSpec], wanted: SelectionRequest) -> NothingSelected:
    if not tasks:
        return NothingSelected("0 tasks selected: the data holds no task")
    hint = None
    if wanted.tasks:
        hint = nearest(wanted.tasks[0], [task.id for task in tasks[:10_000]])
    return NothingSelected(f"0 tasks selected of {len(tasks)}", hint=hint)


def _check_needs(components: Components, chosen: list[TaskSpec]) -> None:
    """Refuse a request none of whose tasks can run; single ones are recorded as they come."""
    reasons: dict[str, int] = {}
    for task in chosen:
        problems = [task.invalid] if task.invalid is not None else _needs(components, task)
        if not problems:
            return
        for problem in problems:
            reasons[problem] = reasons.get(problem, 0) + 1
    shown = [
        f"{reason} ({count} tasks)" if count > 1 else reason for reason, count in reasons.items()
    ]
    raise UsageError(f"none of the {len(chosen)} selected tasks can run:\n" + "\n".join(shown[:20]))
