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


def _view(progress: Progress) -> RunView | None:
    """The view once there is one; None when the run ended before."""
    progress.changed.wait()
    return progress.view


def _plain(progress: Progress) -> None:
    view = _view(progress)
    if view is None:
        return
    say(f"{view.name}: {view.tasks} tasks × {view.k}, {view.run_dir}", error=True)
    while not progress.finished.wait(PLAIN_EVERY_S):
        say(plain_line(view, time.monotonic()), error=True)
    say(plain_line(view, time.monotonic()), error=True)


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
    return "  " + ", ".join(parts)


def _live(progress: Progress) -> None:
    view = _view(progress)
    if view is None:
        return
    from rich.console import Console
    from rich.live import Live

    console = Console(stderr=True)
    with Live(_display(view), console=console, auto_refresh=False, transient=True) as live:
        while not progress.finished.wait(REFRESH_S):
            live.update(_display(view), refresh=True)


def _display(view: RunView) -> "RenderableType":
    from rich.console import Group
    from rich.progress_bar import ProgressBar
    from rich.table import Table
    from rich.text import Text

    now = time.monotonic()
    head = Text(printable(view.name), style="bold")
    bar = Table.grid(padding=(0, 1))
    bar.add_row(
        ProgressBar(total=view.tasks, completed=view.done, width=40),
        f"{view.done}/{view.tasks}",
        f"elapsed {duration(now - view.started)}",
    )
    lines: list[RenderableType] = [head, bar, Text(plain_line(view, now))]
    lines += [Text("  " + printable(issue), style="yellow") for issue in list(view.recent)]
    return Group(*lines)
