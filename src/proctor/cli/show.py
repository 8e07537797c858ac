"""`proctor show`: a run, a task, an attempt."""

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice

from proctor.cli.attempts import attempt_lines, block, short
from proctor.cli.output import emit, one_line, say, typed
from proctor.cli.text import counts_text, error_lines, metric_lines
from proctor.evals import api
from proctor.evals.options import nearest
from proctor.evals.results.loaded import Run, Task
from proctor.kernel.errors import OptionError, RunDirectoryError

STATES_SHOWN = ("fatal", "error", "running", "normal")
"""What needs a look comes first."""
IDS_COMPARED = 10_000
WIDEST_ID = 48


@dataclass(frozen=True, slots=True)
class Wanted:
    """What of a run is shown: all of it, a task, or an attempt of a task."""

    task: str | None = None
    attempt: int | None = None
    states: Sequence[str] = ()
    limit: int = 50


def show(run_dir: str, wanted: Wanted, as_json: bool) -> int:
    """Print what is wanted; reading only."""
    run = api.load(run_dir)
    states = _chosen(wanted.states)
    if wanted.task is not None:
        _show_task(run, wanted.task, wanted.attempt, as_json)
        return 0
    if wanted.attempt is not None:
        raise OptionError("--attempt needs --task", hint="give --task ID --attempt N")
    if as_json:
        _run_json(run)
    else:
        _run_text(run, states, wanted.limit)
    return 0


def _chosen(states: Sequence[str]) -> tuple[str, ...]:
    for state in states:
        if state not in STATES_SHOWN:
            raise OptionError(f"unknown state {state!r}", hint=nearest(state, STATES_SHOWN))
    return tuple(s for s in STATES_SHOWN if not states or s in states)


def _run_json(run: Run) -> None:
    emit({"run_dir": run.path, "status": run.status, "run_info": dict(run.info),
          "summary": dict(run.summary) if run.summary is not None else None})  # fmt: skip


def _run_text(run: Run, states: tuple[str, ...], limit: int) -> None:
    components = run.info["components"]
    model = components["model"]["name"] if components["model"] else "none"
    name = run.info["request"].get("name")
    title = name or f"{components['benchmark']['id']} · {components['harness']['id']} · {model}"
    say(f"{one_line(title)}: {run.status}")
    for line in _state_lines(run):
        say(f"  {line}")
    if (counts := run.counts) is not None:
        say(f"  {counts_text(counts)}")
    report = run.metrics
    if report is not None:
        for line in metric_lines(report.series):
            say(f"  {line}")
    for code, count in _issue_counts(run):
        say(f"  issue {one_line(code)} × {count}")
    if not _tasks_text(run, states, limit):
        return
    say()
    say(f"  one task:  proctor show {typed(run.path)} --task ID")


def _state_lines(run: Run) -> list[str]:
    lines = []
    if run.info.get("error"):
        first, *others = error_lines(str(run.info["error"]))
        lines += [f"error: {first.strip()}", *(line.removeprefix("  ") for line in others)]
    owner = run.owner
    if run.live_owner is not None and owner is not None:
        lines.append(f"at work: process {owner.pid} on {one_line(owner.host)}, "
                     f"last heartbeat {owner.heartbeat}")  # fmt: skip
    elif run.status == "dead" and owner is not None:
        lines.append(f"process {owner.pid} on {one_line(owner.host)} is gone; "
                     f"go on: proctor resume {typed(run.path)}")  # fmt: skip
    elif run.status in ("interrupted", "failed", "timed_out"):
        lines.append(f"go on: proctor resume {typed(run.path)}")
    return lines


def _issue_counts(run: Run) -> Iterable[tuple[str, int]]:
    counts = (run.summary or {}).get("issues") or {}
    return sorted(counts.items(), key=lambda item: (-item[1], item[0]))


def _tasks_text(run: Run, states: tuple[str, ...], limit: int) -> bool:
    """Print the tasks; whether there are any."""
    shown = list(islice(run.tasks(states), limit))
    if shown:
        say()
    width = min(max((len(one_line(t.id)) for t in shown), default=0), WIDEST_ID)
    for task in shown:
        say(f"  {task.state:8} {one_line(task.id):{width}}  {_values(task)}".rstrip())
    left = sum(_directories(run, state) for state in states) - len(shown)
    if left > 0:
        say(f"  … {left} more (--limit {len(shown) + left} shows all, --state STATE some)")
    return bool(shown)


def _directories(run: Run, state: str) -> int:
    """How many tasks have this state, without reading them."""
    try:
        with os.scandir(run.layout.state(state)) as entries:
            return sum(1 for _ in entries)
    except FileNotFoundError:
        return 0


def _values(task: Task) -> str:
    """The first metric of each attempt, `–` where there is none."""
    marks = []
    for attempt in task.attempts():
        values = [short(value) for value in attempt.metrics.values()]
        marks.append(values[0] if values else "–")
    return " ".join(marks)


def _show_task(run: Run, task_id: str, index: int | None, as_json: bool) -> None:
    task = _task(run, task_id)
    attempts = list(task.attempts())
    chosen = [a for a in attempts if index in (None, a.index)]
    if index is not None and not chosen:
        known = ", ".join(str(a.index) for a in attempts) or "none"
        raise RunDirectoryError(
            f"task {task_id!r} has no finished attempt {index}", hint=f"finished attempts: {known}"
        )
    if as_json:
        emit({"task": dict(task.shared), "state": task.state,
              "attempts": [dict(a.record) for a in chosen]})  # fmt: skip
        return
    shared = task.shared
    say(f"task {one_line(task.id)}: {task.state}")
    if shared.get("category"):
        say(f"  category: {one_line(str(shared['category']))}")
    if shared.get("ground_truth") is not None:
        for line in block("ground truth", shared["ground_truth"]):
            say(line)
    if not chosen:
        say("  no finished attempt")
    for attempt in chosen:
        say()
        for line in attempt_lines(run, attempt, details=len(chosen) == 1):
            say(line)


def _task(run: Run, task_id: str) -> Task:
    try:
        return run.task(task_id)
    except RunDirectoryError as error:
        ids = [task.id for task in islice(run.tasks(), IDS_COMPARED)]
        raise RunDirectoryError(error.message, hint=nearest(task_id, ids)) from None
