"""Showing progress on stderr: a live display on a terminal, plain lines elsewhere, or nothing.

A renderer is a thread that reads the view; the runtime never waits for it.
"""

import os
import sys
import threading
import time
from typing import TYPE_CHECKING

from proctor.cli.output import one_line, printable, public, relative, say
from proctor.cli.text import counted, duration, usage_text
from proctor.evals.progress import RECENT_ISSUES, Progress, RunView
from proctor.evals.stopping import Stop

if TYPE_CHECKING:
    from rich.console import RenderableType

MODES = ("auto", "plain", "none")
REFRESH_S = 0.25
PLAIN_FIRST_S = 5.0
PLAIN_LAST_S = 300.0
PLAIN_GROWTH = 0.05
"""Plain lines come every 5 s at first, then at a twentieth of the time gone by, at last every
5 min: a log of a long run stays readable."""
ROWS = 8
"""Requests that the display shows at once."""
PLAIN_ISSUES = 20
"""How many issues plain lines show in full; the others are only counted."""
_STOP_SEEN_S = 0.5
_STOPPING = "stopping: what is running is cut off and cleaned up; once more exits at once"
_SHOW_CURSOR = b"\x1b[?25h\n"


def make_renderer(mode: str, progress: Progress, stop: Stop) -> threading.Thread:
    """A renderer thread for `auto`, `plain` or `none`, not started yet."""
    if mode == "none":
        return threading.Thread(target=progress.finished.wait, daemon=True)
    terminal = sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
    target = _live if mode == "auto" and terminal else _plain
    return threading.Thread(
        target=target, args=(progress, stop), daemon=True, name="proctor-progress"
    )


def restore_terminal() -> None:
    """Show the cursor again before an immediate exit. Safe in a signal handler."""
    try:
        if os.isatty(2):
            os.write(2, _SHOW_CURSOR)
    except OSError:  # the terminal is gone, and its cursor with it
        return


def _plain(progress: Progress, stop: Stop) -> None:
    lines: list[PlainLines] = []
    said: set[str] = set()
    refused = 0
    progress.changed.wait()
    while True:
        now = time.monotonic()
        refused = _say_refusals(progress, refused)
        for view in progress.views[len(lines) :]:
            lines.append(PlainLines(view, now, named=len(progress.planned) > 1))
            for line in lines[-1].first(said):
                say(line, error=True)
        for position, shown in enumerate(lines):
            for line in shown.due(now, stopping=stop.requested and position == 0):
                say(line, error=True)
        if progress.finished.wait(_STOP_SEEN_S):
            _say_refusals(progress, refused)
            return


def _say_refusals(progress: Progress, said: int) -> int:
    """Tell what is not `said` yet; how many have been told then."""
    for name, error in progress.unprepared[said:]:
        said += 1
        say(_refusal(name, error), error=True)
    return said


def _refusal(name: str, error: str) -> str:
    """One line about a request that was not prepared; the end tells all of it."""
    first, *others = error.splitlines() or [""]
    text = f"{first} {others[0]}" if first.endswith(":") and others else first
    return f"{one_line(name)}: cannot run: {one_line(text)}"


class PlainLines:
    """Which lines of one run are due when, for a log or a pipe. `named`: there are others."""

    def __init__(self, view: RunView, now: float, *, named: bool = False) -> None:
        self._view = view
        self._name = f"{one_line(view.name)}:" if named else ""
        self._ended = False
        self._started = self._last = now
        self._told_stop = False
        self._issues: list[str] = []

    def first(self, said: set[str]) -> list[str]:
        """What runs and where its evidence is, then what is to be said before anything runs and
        is not in `said` yet."""
        view = self._view
        notes = [note for note in view.notes if note not in said]
        said.update(notes)
        attempts = f"{counted(view.tasks, 'task')} × {counted(view.k, 'attempt')}"
        first = f"{one_line(view.name)}: {attempts}, {relative(view.run_dir)}"
        return [first, *(f"  {one_line(note)}" for note in notes)]

    def due(self, now: float, *, stopping: bool) -> list[str]:
        """The lines for this moment; mostly none."""
        lines = []
        if stopping and not self._told_stop:
            self._told_stop = True
            lines.append(f"  {_STOPPING}")
        if self._ended:
            return lines
        pause = (now - self._started) * PLAIN_GROWTH
        self._ended = bool(self._name) and self._view.status != "running"
        if self._ended:
            lines.append(f"{self._name} {self._view.status}:{plain_line(self._view, now)[1:]}")
        elif now - self._last >= min(max(pause, PLAIN_FIRST_S), PLAIN_LAST_S):
            self._last = now
            lines += [*self._new_issues(), self._name + plain_line(self._view, now)]
        return lines

    def _new_issues(self) -> list[str]:
        new = [text for text in list(self._view.recent) if text not in self._issues]
        room = PLAIN_ISSUES - len(self._issues)
        self._issues += new[:room]
        lines = [f"  ! {one_line(text)}" for text in new[:room]]
        if lines and len(self._issues) == PLAIN_ISSUES:
            lines.append("  ! further issues are only counted; `proctor show` lists the tasks")
        return lines


def plain_line(view: RunView, now: float) -> str:
    """One line that says where a run is."""
    done = f"{view.done}/{counted(view.tasks, 'task')}"
    parts = [done, *_activity(view), *_pace(view, now)]
    if (eta := view.eta_s(now)) is not None and view.done < view.tasks:
        parts.append(f"{duration(eta)} left")
    return "  " + ", ".join(parts)


def _activity(view: RunView) -> list[str]:
    finished = view.finished
    parts = [f"{view.running} running"]
    if view.waiting:
        parts.append(f"{view.waiting} waiting to retry")
    return [*parts, f"{finished['error']} error", f"{finished['fatal']} fatal"]


def _pace(view: RunView, now: float) -> list[str]:
    parts = [counted(view.attempts_done + view.attempts_reused, "attempt")]
    if view.retries:
        parts.append(f"{view.retries} retried")
    if view.scored:
        parts.append(f"mean {view.score_sum / view.scored:.3f}")
    if (rate := view.rate(now)) is not None:
        parts.append(f"{rate:.1f}/s" if rate >= 1 else f"{rate * 60:.1f}/min")
    if view.usage.requests:
        parts.append(usage_text(view.usage))
    return parts


def _live(progress: Progress, stop: Stop) -> None:
    progress.changed.wait()
    if not progress.views and progress.finished.is_set():
        return
    from rich.console import Console
    from rich.live import Live

    console = Console(stderr=True)
    told = refused = 0
    with Live(console=console, auto_refresh=False, transient=True) as live:
        while True:
            for view in progress.views[told:]:
                told += 1
                for note in view.notes:
                    live.console.print(_text(one_line(note), "yellow"))
            for name, error in progress.unprepared[refused:]:
                refused += 1
                live.console.print(_text(_refusal(name, error), "red"))
            live.update(_display(progress, stop), refresh=True)
            if progress.finished.wait(REFRESH_S):
                return


def _display(progress: Progress, stop: Stop) -> "RenderableType":
    """The requests that run, a line for those that wait or are done, the last issues."""
    from rich.console import Group

    now = time.monotonic()
    running = [view for view in progress.views if view.status == "running"]
    lines: list[RenderableType] = [row for view in running[:ROWS] for row in _rows(view, now)]
    if rest := _rest(progress, len(running)):
        lines.append(_text(rest, "dim"))
    issues = [issue for view in running for issue in list(view.recent)]
    lines += [_text("  " + one_line(issue), "yellow") for issue in issues[-RECENT_ISSUES:]]
    if stop.requested:
        lines.append(_text(f"  {_STOPPING}", "bold"))
    return Group(*lines)


def _rest(progress: Progress, running: int) -> str:
    begun = len(progress.views) + len(progress.unprepared)
    ended = begun - running
    parts = [f"{counted(ended, 'request')} ended"] if ended and progress.planned else []
    if running > ROWS:
        parts.append(f"{running - ROWS} more running")
    if (waiting := len(progress.planned) - begun) > 0:
        parts.append(f"{waiting} waiting")
    return "  " + ", ".join(parts) if parts else ""


def _rows(view: RunView, now: float) -> "list[RenderableType]":
    from rich.progress_bar import ProgressBar
    from rich.table import Table

    bar = Table.grid(padding=(0, 1))
    done = f"{view.done}/{counted(view.tasks, 'task')}"
    eta = view.eta_s(now) if view.done < view.tasks else None
    bar.add_row(
        ProgressBar(total=max(view.tasks, 1), completed=view.done, width=40),
        f"{done}, {duration(now - view.started)}"
        + (f", {duration(eta)} left" if eta is not None else ""),
    )
    return [
        _text(f"{one_line(view.name)}  {relative(view.run_dir)}", "bold"),
        bar,
        _text("  " + ", ".join([*_activity(view), *_pace(view, now)])),
    ]


def _text(text: str, style: str = "") -> "RenderableType":
    """One line of the display, cut where the terminal ends."""
    from rich.text import Text

    return Text(printable(public(text)), style=style, no_wrap=True, overflow="ellipsis")
