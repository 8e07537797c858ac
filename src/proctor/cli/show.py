"""`proctor show`: a run, a task, an attempt."""

import os
from collections.abc import Mapping
from itertools import islice
from typing import Any

from proctor.cli.output import emit, relative, say
from proctor.cli.text import series_line
from proctor.evals import api
from proctor.evals.results.loaded import Attempt, Run, Task
from proctor.kernel import jsontext
from proctor.kernel.errors import OptionError, RunDirectoryError

TEXT_SHOWN_CHARS = 4_000


def show(run_dir: str, task_id: str | None, attempt: int | None, limit: int, as_json: bool) -> int:
    """Print what the options name; reading only."""
    run = api.load(run_dir)
    if task_id is None:
        if attempt is not None:
            raise OptionError("--attempt needs --task")
        _run_json(run) if as_json else _run_text(run, limit)
        return 0
    task = run.task(task_id)
    attempts = [a for a in task.attempts() if attempt in (None, a.index)]
    if attempt is not None and not attempts:
        raise RunDirectoryError(f"task {task_id!r} has no finished attempt {attempt}")
    if as_json:
        emit({"task": dict(task.shared), "state": task.state,
              "attempts": [dict(a.record) for a in attempts]})  # fmt: skip
    else:
        _task_text(task, attempts, details=attempt is not None or len(attempts) == 1)
    return 0


def _run_json(run: Run) -> None:
    emit({"run_dir": run.path, "status": run.status, "run_info": dict(run.info),
          "summary": dict(run.summary) if run.summary is not None else None})  # fmt: skip


def _run_text(run: Run, limit: int) -> None:
    components = run.info["components"]
    model = components["model"]["name"] if components["model"] else "none"
    say(f"{components['benchmark']['id']} · {components['harness']['id']} · {model}: {run.status}")
    owner = run.owner
    if run.live_owner is not None and owner is not None:
        say(f"  at work: process {owner.pid} on {owner.host}, last heartbeat {owner.heartbeat}")
    elif run.status == "dead" and owner is not None:
        say(f"  process {owner.pid} on {owner.host} is gone; `proctor resume` goes on")
    if run.info.get("error"):
        say(f"  error: {run.info['error']}")
    report = run.metrics
    if report is not None:
        for metric, by_reducer in report.series.items():
            for name, series in by_reducer.items():
                say("  " + series_line(metric, name, series))
    say()
    _tasks_text(run, limit)
    say()
    say(f"  one task:  proctor show {relative(run.path)} --task ID")


def _tasks_text(run: Run, limit: int) -> None:
    tasks = iter(run.tasks())
    shown = 0
    for task in islice(tasks, limit):
        shown += 1
        say("  " + _task_line(task))
    left = sum(1 for _ in tasks)
    if left:
        say(f"  … {left} more (--limit {shown + left} shows all)")


def _task_line(task: Task) -> str:
    marks = []
    for attempt in task.attempts():
        values = [_short(value) for value in attempt.metrics.values()]
        marks.append(values[0] if values else attempt.status)
    return f"{task.state:8} {task.id}  " + " ".join(marks)


def _short(value: Any) -> str:
    return format(value, "g") if isinstance(value, int | float) else str(value)


def _task_text(task: Task, attempts: list[Attempt], *, details: bool) -> None:
    shared = task.shared
    say(f"task {task.id}: {task.state}")
    if shared.get("category"):
        say(f"  category: {shared['category']}")
    say(f"  ground truth: {_cut(shared.get('ground_truth'))}")
    for attempt in attempts:
        _attempt_text(attempt, details=details)


def _attempt_text(attempt: Attempt, *, details: bool) -> None:
    record = attempt.record
    usage = record["usage"]
    say()
    say(f"attempt {attempt.index}: {attempt.status}, {usage['wall_s']:.3f} s at work, "
        f"{usage['waiting_s']:.3f} s waiting, {record['retry_count']} retries")  # fmt: skip
    for name, value in attempt.metrics.items():
        say(f"  {name} = {_short(value)}")
    for name, reason in record.get("unavailable", {}).items():
        say(f"  {name} unavailable: {reason}")
    for issue in record["issues"]:
        say(f"  {issue['severity']} in {issue['phase']} ({issue['cause']}): {issue['message']}")
    say(f"  answer: {_cut(attempt.final_answer)}")
    if details:
        _details(attempt)


def _details(attempt: Attempt) -> None:
    record = attempt.record
    _section("evidence", record["meta"]["benchmark"])
    _section("harness", record["meta"]["harness"]["telemetry"])
    for artifact in record["artifacts"]:
        path = os.path.join(relative(attempt.path), "artifacts", artifact["path"])
        say(f"  artifact: {path} ({artifact['size']} bytes)")
    if record["error"]:
        say(f"  error: {_cut(record['error'])}")


def _section(title: str, values: Mapping[str, Any]) -> None:
    for name, value in values.items():
        say(f"  {title} {name}: {_cut(value)}")


def _cut(value: Any) -> str:
    text = value if isinstance(value, str) else jsontext.dumps(value)
    if len(text) > TEXT_SHOWN_CHARS:
        text = f"{text[:TEXT_SHOWN_CHARS]} … ({len(text)} characters)"
    return text.replace("\n", "\n    ")
