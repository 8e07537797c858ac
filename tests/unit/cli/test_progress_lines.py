"""Plain progress: few lines for a long run, the news of a short one."""

from itertools import pairwise

import pytest

from proctor.cli.live import PlainLines, plain_line
from proctor.cli.text import counted, duration
from proctor.evals.progress import RunView
from proctor.kernel.issues import Cause, Issue, Phase, Severity
from proctor.models.contract import Usage


@pytest.fixture
def view() -> RunView:
    return RunView(name="bench · agent · none", run_dir="/r", tasks=10, attempts=30, started=0, k=3)


def issue(text: str, severity: Severity = Severity.ERROR) -> Issue:
    return Issue(severity, Phase.RUN, Cause.AGENT, "odd", text)


def lines_of(view: RunView, seconds: int) -> list[tuple[int, str]]:
    """What is printed when the renderer looks twice a second for so long."""
    lines = PlainLines(view, 0.0)
    return [
        (tick // 2, line)
        for tick in range(2 * seconds)
        for line in lines.due(tick / 2, stopping=False)
    ]


def test_lines_come_every_five_seconds_at_first_and_rarely_later(view):
    times = [second for second, _ in lines_of(view, 8 * 3600)]
    assert times[:4] == [5, 10, 15, 20]
    gaps = [b - a for a, b in pairwise(times)]
    assert gaps == sorted(gaps)
    assert gaps[-1] <= 301
    assert len(times) < 250


def test_a_run_is_introduced_once(view):
    assert PlainLines(view, 0.0).first(set()) == [
        "bench · agent · none: 10 tasks × 3 attempts, /r"
    ]  # fmt: skip


def test_each_issue_is_shown_once_and_on_one_line(view):
    lines = PlainLines(view, 0.0)
    view.saw("t1", 1, (issue("first\nsecond"), issue("only a notice", Severity.WARNING)))
    view.saw("t\n2", 1, (issue("again"),))
    shown = lines.due(6.0, stopping=False)
    assert shown[:2] == ["  ! t1 #1: run: first", "  ! t\\n2 #1: run: again"]
    assert len(lines.due(12.0, stopping=False)) == 1


def test_a_flood_of_issues_is_only_counted(view):
    lines = PlainLines(view, 0.0)
    shown = []
    for second in range(6, 600, 6):
        view.saw("t1", 1, (issue(f"fault {second}"),))
        shown += lines.due(float(second), stopping=False)
    issues = [line for line in shown if line.startswith("  ! ")]
    assert len(issues) == 21
    assert "only counted" in issues[-1]


def test_a_stop_is_told_at_once_and_once(view):
    lines = PlainLines(view, 0.0)
    assert "once more exits at once" in lines.due(0.5, stopping=True)[0]
    assert lines.due(1.0, stopping=True) == []


def test_a_line_says_where_the_run_is(view):
    view.running, view.waiting, view.retries, view.attempts_done = 4, 1, 2, 9
    view.finished.update({"normal": 2, "error": 1})
    view.score_sum, view.scored = 4.5, 9
    view.usage = Usage(input_tokens=10, output_tokens=1, requests=1)
    assert plain_line(view, 60.0) == (
        "  3/10 tasks, 4 running, 1 waiting to retry, 1 error, 0 fatal, 9 attempts, 2 retried, "
        "mean 0.500, 9.0/min, 1 request, 10 input and 1 output tokens, 2 min 20 s left"
    )


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.04, "0.0 s"),
        (59.9, "59.9 s"),
        (60, "1 min 0 s"),
        (3725, "1 h 2 min"),
        (90061, "25 h 1 min"),
    ],
)
def test_durations(seconds, text):
    assert duration(seconds) == text


def test_counts_read_as_english():
    assert [counted(n, "task") for n in (0, 1, 2)] == ["0 tasks", "1 task", "2 tasks"]
