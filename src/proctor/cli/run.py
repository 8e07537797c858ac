"""`proctor run` and `proctor resume`."""

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from proctor.cli.dotenv import load_dotenv
from proctor.cli.live import MODES, make_renderer, restore_terminal
from proctor.cli.output import emit, keep_secrets, relative, say, typed
from proctor.cli.settings import build_settings, request_of
from proctor.cli.text import problem_lines, report_lines
from proctor.evals import api
from proctor.evals.options import nearest
from proctor.evals.progress import Progress, RunView
from proctor.evals.report import RunReport, document
from proctor.evals.stopping import Stop
from proctor.kernel.errors import OptionError


def run(
    file: str | None,
    flags: Mapping[str, Any],
    assignments: Sequence[str],
    progress: str | None,
    as_json: bool,
) -> int:
    """Run a request; the exit code says how it ended."""
    load_dotenv()
    keep_secrets()
    settings = build_settings(file, flags, assignments)
    keep_secrets(settings.values)
    request = request_of(settings)
    try:
        report, view = with_progress(progress, lambda **kw: api.run(request, **kw))
    except OptionError as error:
        raise settings.in_words_of_the_person(error) from error
    return conclude(report, view, as_json)


def resume(
    run_dir: str,
    concurrency: int | None,
    timeout: float | None,
    progress: str | None,
    as_json: bool,
) -> int:
    """Continue a run in place."""
    load_dotenv()
    keep_secrets()
    changes = {
        key: value
        for key, value in (("task_concurrency", concurrency), ("timeout_s", timeout))
        if value is not None
    }
    place = os.path.abspath(run_dir)
    _go_where_it_started(place)
    report, view = with_progress(progress, lambda **kw: api.resume(place, changes=changes, **kw))
    return conclude(report, view, as_json)


def _go_where_it_started(run_dir: str) -> None:
    """Relative paths of a request mean what they meant when it was first run."""
    folder = api.load(run_dir).info.get("working_directory")
    if not isinstance(folder, str) or not os.path.isdir(folder):
        return
    if not os.path.samefile(folder, os.getcwd()):
        say(f"proctor: paths are taken from {folder}, where the run was started", error=True)
        os.chdir(folder)


def with_progress(
    mode: str | None, work: Callable[..., RunReport]
) -> tuple[RunReport, RunView | None]:
    """Do `work` while a renderer shows its progress on stderr."""
    chosen = mode or os.environ.get("PROCTOR_PROGRESS") or "auto"
    if chosen not in MODES:
        raise OptionError(f"unknown --progress {chosen!r}", hint=nearest(chosen, MODES))
    progress, stop = Progress(), Stop()
    renderer = make_renderer(chosen, progress, stop)
    renderer.start()
    try:
        report = work(progress=progress, stop=stop, before_exit=restore_terminal)
    finally:
        progress.stop(progress.view.status if progress.view is not None else "refused")
        renderer.join()
    return report, progress.view


def conclude(report: RunReport, view: RunView | None, as_json: bool) -> int:
    """Print how it ended and give the exit code."""
    if as_json:
        emit(document([report]))
    for line in (*outcome_lines(report, view), *_next_steps(report)):
        say(line, error=as_json)
    return report.exit_code


def outcome_lines(report: RunReport, view: RunView | None) -> list[str]:
    """How a run ended: numbers, then what went wrong."""
    examples = view.examples if view is not None else {}
    place = f"  run directory: {relative(report.run_dir)}"
    return [*report_lines(report), *problem_lines(report, examples), place]


def _next_steps(report: RunReport) -> list[str]:
    place = typed(report.run_dir)
    lines = ["", f"  look at it:  proctor show {place}"]
    if report.exit_code != 0:
        lines.append(f"  go on:       proctor resume {place}")
    return lines
