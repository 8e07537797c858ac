"""Runs as text for people."""

from collections.abc import Iterator, Mapping
from itertools import islice

from proctor.cli.output import one_line
from proctor.evals import api
from proctor.evals.metrics.series import Series
from proctor.evals.report import Counts, RunReport
from proctor.evals.results.loaded import Attempt, Task
from proctor.kernel.issues import Issue, Severity
from proctor.models.contract import Usage

ISSUE_CODES_SHOWN = 8
TASKS_SHOWN = 5
LINE_CHARS = 160
MOST_LINES = 40
"""Of one error."""


def report_lines(report: RunReport) -> list[str]:
    """How a run ended, in a few lines."""
    counts = report.counts
    kept = f" ({counts.reused_attempts} kept)" if counts.reused_attempts else ""
    lines = [
        f"{one_line(report.name)}: {report.status}",
        f"  {counts_text(counts)} in {duration(report.wall_s)}{kept}",
    ]
    if report.error:
        lines += error_lines(report.error)
    lines += ["  " + line for line in metric_lines(report.metrics.series)]
    if report.metrics.evaluation_failed:
        lines.append("  a task ended fatal: there is no official value, only a reference value")
    if report.usage.requests:
        lines.append(f"  model: {usage_text(report.usage)}")
    return lines


def error_lines(error: str) -> list[str]:
    """Why a run failed. Every further line is marked, so that none can pass for ours."""
    first, *others = error.splitlines() or [""]
    return [f"  {one_line(first)}", *(f"    | {one_line(line)}" for line in others[:MOST_LINES])]


def counts_text(counts: Counts) -> str:
    """How many tasks ended how, and how many attempts there are."""
    parts = [f"{counts.normal} normal", f"{counts.error} error", f"{counts.fatal} fatal",
             f"{counts.interrupted} interrupted"]  # fmt: skip
    ended = counts.normal + counts.error + counts.fatal + counts.interrupted
    if counts.tasks > ended:
        parts.append(f"{counts.tasks - ended} not started")
    tasks, attempts = counted(counts.tasks, "task"), counted(counts.attempts, "attempt")
    return f"{tasks}: {', '.join(parts)}; {attempts}"


def counted(number: int, noun: str) -> str:
    """`1 task`, `2 tasks`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def metric_lines(series: Mapping[str, Mapping[str, Series]]) -> list[str]:
    """The numbers, primary metric first: all reducers of it, the main one of the others.

    With one attempt a task all reducers are the same number, so one is shown.
    """
    lines = []
    for position, (metric, by_reducer) in enumerate(series.items()):
        names = list(by_reducer)
        if position > 0 or all(name.endswith("@1") for name in names):
            names = names[:1]
        lines += [series_line(metric, name, by_reducer[name]) for name in names]
    return lines


def series_line(metric: str, name: str, series: Series) -> str:
    """One number with everything that belongs beside it."""
    label = f"{one_line(metric)} {name}".ljust(22)
    if series.value is not None:
        text = f"{label} {series.value:.4f}"
        if series.ci95 is not None:
            text += f"  95 % [{series.ci95[0]:.4f}, {series.ci95[1]:.4f}]"
    elif series.reference_value is not None:
        text = f"{label} no value; reference {series.reference_value:.4f}"
    else:
        text = f"{label} no value"
    coverage = f"  on {series.evaluated}/{counted(series.total, 'task')}"
    return text + coverage + (" (partial)" if series.partial else "")


def problem_lines(report: RunReport, examples: Mapping[str, str]) -> list[str]:
    """What went wrong: each kind of issue with one example, then tasks to look at."""
    codes = sorted(report.issue_codes.items(), key=lambda item: (-item[1], item[0]))
    lines = []
    for code, count in codes[:ISSUE_CODES_SHOWN]:
        example = f": {one_line(examples[code])}" if code in examples else ""
        lines.append(_cut(f"  issue {code} × {count}{example}"))
    if len(codes) > ISSUE_CODES_SHOWN:
        lines.append(f"  … and {len(codes) - ISSUE_CODES_SHOWN} other kinds of issues")
    lines += _problem_tasks(report)
    if report.exit_code == 1:
        lines += _coverage(report)
    return lines


def _coverage(report: RunReport) -> list[str]:
    primary = report.metrics.primary
    series = report.metrics.series[primary.metric][primary.reducer]
    if series.evaluated == series.total:
        return []
    of = f"{series.total - series.evaluated} of {counted(series.total, 'task')}"
    return [f"  without a valid {one_line(primary.metric)}: {of} (exit code 1)"]


def _problem_tasks(report: RunReport) -> list[str]:
    counts = report.counts
    if not counts.fatal + counts.error:
        return []
    tasks = api.load(report.run_dir).tasks(("fatal", "error"))
    lines = [_cut(f"  {task_line(task)}") for task in islice(tasks, TASKS_SHOWN)]
    more = counts.fatal + counts.error - len(lines)
    return [*lines, f"  … and {more} more"] if more > 0 else lines


def task_line(task: Task) -> str:
    """A task that went wrong, with its worst issue."""
    worst = next(_worst_first(task), None)
    if worst is None:
        return f"{task.state} {one_line(task.id)}"
    attempt, issue = worst
    return f"{task.state} {one_line(task.id)} #{attempt.index}: {issue_text(issue)}"


def _worst_first(task: Task) -> Iterator[tuple[Attempt, Issue]]:
    found = [(attempt, Issue.from_json(issue)) for attempt in task.attempts()
             for issue in attempt.record["issues"]]  # fmt: skip
    order = (Severity.FATAL, Severity.ERROR, Severity.WARNING)
    yield from sorted(found, key=lambda pair: order.index(pair[1].severity))


def issue_text(issue: Issue) -> str:
    """Where, whose fault and what, in one line."""
    return f"{issue.phase} ({issue.cause}): {one_line(issue.message)}"


def _cut(line: str) -> str:
    return line if len(line) <= LINE_CHARS else line[: LINE_CHARS - 1] + "…"


def usage_text(usage: Usage) -> str:
    """Requests, tokens and money."""
    text = (
        f"{counted(usage.requests, 'request')}, {usage.input_tokens} input and "
        f"{usage.output_tokens} output tokens"
    )
    return text if usage.cost_usd is None else f"{text}, ${usage.cost_usd:f}"


def duration(seconds: float) -> str:
    """`4.2 s`, `3 min 20 s`, `2 h 5 min`."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(int(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min"
