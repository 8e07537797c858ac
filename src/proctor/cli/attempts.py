"""An attempt as text: what it scored, what went wrong, what it answered, what there is to see."""

import os
from collections.abc import Iterator, Mapping
from typing import Any

from proctor.cli.output import one_line, relative
from proctor.cli.text import issue_text
from proctor.evals.results.loaded import Attempt, Run
from proctor.kernel import jsontext
from proctor.kernel.issues import Issue
from proctor.store.files import read_json

TEXT_SHOWN_CHARS = 4_000
"""Of longer texts the head is shown, with their length."""


def attempt_lines(run: Run, attempt: Attempt, *, details: bool) -> Iterator[str]:
    """Everything a person wants to know of an attempt; with `details` the evidence too."""
    record = attempt.record
    usage = record["usage"]
    yield (f"attempt {attempt.index}: {attempt.status}, {usage['wall_s']:.3f} s at work, "
           f"{usage['waiting_s']:.3f} s waiting, {record['retry_count']} retries")  # fmt: skip
    for name, value in attempt.metrics.items():
        yield f"  {one_line(name)} = {short(value)}"
    for name, reason in record.get("unavailable", {}).items():
        yield f"  {one_line(name)} unavailable: {one_line(str(reason))}"
    for data in record["issues"]:
        issue = Issue.from_json(data)
        yield f"  {issue.severity} in {issue_text(issue)}"
        if details and issue.traceback:
            yield from block("traceback", issue.traceback)
    yield from block("answer", attempt.final_answer)
    if details:
        yield from _details(run, attempt)


def _details(run: Run, attempt: Attempt) -> Iterator[str]:
    record = attempt.record
    yield from _section("evidence", record["meta"]["benchmark"])
    yield from _section("harness", record["meta"]["harness"]["telemetry"])
    if record["error"]:
        yield from block("error", record["error"])
    for artifact in record["artifacts"]:
        yield f"  artifact: {one_line(artifact['path'])} ({artifact['size']} bytes)"
    if record["artifacts"]:
        yield f"  artifacts are in: {relative(os.path.join(attempt.path, 'artifacts'))}"
    yield from _dropped(run, attempt)


def _dropped(run: Run, attempt: Attempt) -> Iterator[str]:
    """The tries that a retry replaced."""
    folder = run.layout.dropped(attempt.task_id, attempt.index)
    if not os.path.isdir(folder):
        return
    for name in sorted(os.listdir(folder), key=lambda n: (len(n), n)):
        try:
            issue = Issue.from_json(read_json(os.path.join(folder, name, "try.json"))["issue"])
        except (OSError, jsontext.JsonError, KeyError, TypeError, ValueError):
            continue  # a superseded record, not a dropped try
        yield f"  dropped try {one_line(name)}: {issue_text(issue)}"


def _section(title: str, values: Mapping[str, Any]) -> Iterator[str]:
    for name, value in values.items():
        if value not in ("", None, [], {}):
            yield from block(f"{title} {one_line(name)}", value)


def block(title: str, value: Any) -> Iterator[str]:
    """A value on the line of its title, or below it when it has several lines. Every line is
    indented, so that no text can pass for one of ours."""
    if value is None:
        yield f"  {title}: (none)"
        return
    text = value if isinstance(value, str) else jsontext.dumps(value)
    if not text.strip():
        yield f"  {title}: (empty)" if not text else f"  {title}: {text!r}"
        return
    cut = len(text) > TEXT_SHOWN_CHARS
    lines = text[:TEXT_SHOWN_CHARS].replace("\r\n", "\n").rstrip("\n").split("\n")
    if len(lines) == 1:
        yield f"  {title}: {lines[0]}"
    else:
        yield f"  {title}:"
        yield from (f"    | {line}" for line in lines)
    if cut:
        yield f"    … cut here, {len(text)} characters in all"


def short(value: Any) -> str:
    """A metric's value in a few characters."""
    return format(value, "g") if isinstance(value, int | float) else one_line(str(value))
