"""What a task must look like so that it can be planned, digested and recorded."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from proctor.environments.contract import EnvironmentSpec
from proctor.evals.contracts.task import Reference, TaskSpec
from proctor.kernel import jsontext


def shape_problems(task: TaskSpec, modes: Sequence[str]) -> Iterable[str]:
    """Why a benchmark's task cannot be used; nothing when it can. `modes` are its allowed ones."""
    return () if _is_plain(task) else _problems(task, modes)


def _is_plain(task: TaskSpec) -> bool:
    """Whether it is a text with a target that is one or none, and for the rest as every task is
    by default, or named by its category: nothing can be wrong then. Most tasks of most data."""
    return (
        type(task.input) is str
        and (task.target is None or type(task.target) is str)
        and (task.category is None or type(task.category) is str)
        and type(task.files) is dict
        and type(task.environment) is EnvironmentSpec
        and task.reference is None
        and task.input_digest is None
        and task.grading_digest is None
        and task.invalid is None
        and task.agent_timeout_s is None
        and task.evaluation_timeout_s is None
        and task.evaluation_mode is None
        and task.evaluation_environment is None
    )


def _problems(task: TaskSpec, modes: Sequence[str]) -> Iterator[str]:
    yield from _not_json("input", task.input)
    yield from _not_json("target", task.target)
    yield from _not_kind("reference", task.reference, Reference | None)
    if isinstance(task.reference, Reference):
        yield from _not_json("reference answer", task.reference.answer)
    for name in ("category", "input_digest", "grading_digest", "invalid"):
        yield from _not_kind(name, getattr(task, name), str | None)
    for name in ("agent_timeout_s", "evaluation_timeout_s"):
        yield from _not_a_time(name, getattr(task, name))
    if task.evaluation_mode is not None and task.evaluation_mode not in modes:
        yield f"its evaluation mode {task.evaluation_mode!r} is none of {', '.join(modes)}"
    yield from _not_kind("environment", task.environment, EnvironmentSpec)
    own = task.evaluation_environment
    yield from _not_kind("evaluation_environment", own, EnvironmentSpec | None)
    yield from _not_kind("files", task.files, Mapping)


def _not_kind(name: str, value: Any, wanted: Any) -> Iterator[str]:
    if not isinstance(value, wanted):
        expected = getattr(wanted, "__name__", wanted)
        yield f"its {name} is of type {type(value).__name__}, expected {expected}"


def _not_json(name: str, value: Any) -> Iterator[str]:
    if value is None or type(value) is str:
        return
    try:
        jsontext.dumps(value)
    except jsontext.JsonError as error:
        yield f"its {name} cannot be stored as JSON: {error}"


def _not_a_time(name: str, value: Any) -> Iterator[str]:
    if value is None:
        return
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number or not math.isfinite(value) or value < 0:
        yield f"its {name} is {value!r}, not a number of seconds"
