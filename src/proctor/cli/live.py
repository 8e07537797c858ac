"""Showing progress on stderr: a live display on a terminal, plain lines elsewhere, or nothing.

A renderer is a thread that reads the view; the runtime never waits for it.
"""

import os
import sys
import threading
import time
from typing import TYPE_CHECKING

from proctor.cli.output import printable, say
from proctor.cli.text import duration, usage_text
from proctor.evals.progress import Progress, RunView

if TYPE_CHECKING:
    from rich.console import RenderableType

REFRESH_S = 0.25
PLAIN_EVERY_S = 5.0
ROWS = 8
"""Requests shown at once."""
ISSUES = 5


def make_renderer(mode: str, progress: Progress) -> threading.Thread:
    """A renderer thread for `auto`, `plain` or `none`, not started yet."""
    if mode == "none":
        return threading.Thread(target=progress.finished.wait, daemon=True)
    terminal = sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
    target = _live if mode == "auto" and terminal else _plain
    return threading.Thread(target=target, args=(progress,), daemon=True, name="proctor-progress")


def restore_terminal() -> None:
    """Show the cursor again before an immediate exit."""
    if sys.stderr.isatty():
        sys.stderr.write("\x1b[?25h\n")
        sys.stderr.flush()


def _plain(progress: Progress) -> None:
    """A line when a request starts, one now and then, one when it ends."""
    announced = ended = 0
    while True:
        over = progress.finished.is_set()
        for view in progress.views[announced:]:
            announced += 1
            _announce(view)
        now = time.monotonic()
        for view in progress.views[ended:announced]:
            if view.status == "running" and not over:
                say(f"{view.name}: {plain_line(view, now)}", error=True)
        while ended < announced and (over or progress.views[ended].status != "running"):
            view = progress.views[ended]
            say(f"{view.name}: {view.status}: {plain_line(view, now)}", error=True)
            ended += 1
        if over:
            return
        progress.changed.clear()
        progress.changed.wait(PLAIN_EVERY_S)


def _announce(view: RunView) -> None:
    say(f"{view.name}: {view.tasks} tasks × {view.k} → {view.run_dir}", error=True)
    for note in view.notes:
        say(f"  {note}", error=True)


def plain_line(view: RunView, now: float) -> str:
    """One line that says where a run is."""
    finished = view.finished
    parts = [
        f"{view.done}/{view.tasks} tasks",
        f"{view.running} running",
        f"{finished['error']} error",
        f"{finished['fatal']} fatal",
        f"{view.attempts_done} attempts",
    ]
    if view.retries:
        parts.append(f"{view.retries} retries")
    if view.scored:
        parts.append(f"mean {view.score_sum / view.scored:.3f}")
    if (rate := view.rate(now)) is not None:
        parts.append(f"{rate:.1f}/s")
    if view.usage.requests:
        parts.append(usage_text(view.usage))
    if (eta := view.eta_s(now)) is not None and view.done < view.tasks:
        parts.append(f"{duration(eta)} left")
    return ", ".join(parts)


def _live(progress: Progress) -> None:
    progress.changed.wait()
    if not progress.views:
        return
    from rich.console import Console
    from rich.live import Live

    console = Console(stderr=True)
    announced = 0
    with Live(console=console, auto_refresh=False, transient=True) as live:
        while not progress.finished.wait(REFRESH_S):
            for view in progress.views[announced:]:
                announced += 1
                for note in view.notes:
                    live.console.print(printable(note), style="yellow", highlight=False)
            live.update(_display(progress), refresh=True)


def _display(progress: Progress) -> "RenderableType":
    """A row a request that runs, a line for those that wait or are done, the last issues."""
    from rich.console import Group
    from rich.text import Text

    now = time.monotonic()
    running = [view for view in progress.views if view.status == "running"]
    lines: list[RenderableType] = [_row(view, now) for view in running[:ROWS]]
    rest = _rest(progress, len(running))
    if rest:
        lines.append(Text(rest, style="dim"))
    issues = [issue for view in running for issue in list(view.recent)]
    lines += [Text("  " + printable(issue), style="yellow") for issue in issues[-ISSUES:]]
    return Group(*lines)


def _rest(progress: Progress, running: int) -> str:
    ended = len(progress.views) - running
    parts = [f"{ended} requests ended"] if ended else []
    if running > ROWS:
        parts.append(f"{running - ROWS} more running")
    if (waiting := len(progress.planned) - len(progress.views)) > 0:
        parts.append(f"{waiting} waiting")
    return "  " + ", ".join(parts) if parts else ""


def _row(view: RunView, now: float) -> "RenderableType":
    from rich.console import Group
    from rich.progress_bar import ProgressBar
    from rich.table import Table
    from rich.text import Text

    bar = Table.grid(padding=(0, 1))
    bar.add_row(
        Text(printable(view.name), style="bold"),
        ProgressBar(total=view.tasks, completed=view.done, width=30),
        f"{view.done}/{view.tasks}",
        f"elapsed {duration(now - view.started)}",
    )
    return Group(bar, Text("  " + plain_line(view, now)))
