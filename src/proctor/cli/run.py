"""`proctor run`, `proctor resume` and `proctor rescore`."""

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from proctor.cli.dotenv import load_dotenv
from proctor.cli.live import MODES, make_renderer, restore_terminal
from proctor.cli.output import emit, keep_secrets, one_line, relative, say, typed
from proctor.cli.settings import build_settings, changed_settings, request_of
from proctor.cli.text import counted, problem_lines, report_lines
from proctor.evals import api
from proctor.evals.launches.document import document_of, read_document
from proctor.evals.options import nearest
from proctor.evals.prepare import Earlier
from proctor.evals.progress import Progress, RunView
from proctor.evals.report import COMPLETED, RunReport, document, exit_code
from proctor.evals.stopping import Stop
from proctor.kernel.errors import OptionError


def run(
    file: str | None,
    flags: Mapping[str, Any],
    assignments: Sequence[str],
    earlier: tuple[bool, str | None, bool],
    progress: str | None,
    as_json: bool,
) -> int:
    """Run a request; the exit code says how it ended. `earlier`: reuse, reuse from, anyway."""
    load_dotenv()
    keep_secrets()
    settings = build_settings(file, flags, assignments)
    keep_secrets(settings.values)
    request, taken = request_of(settings), _earlier(*earlier)
    try:
        outcome = with_progress(progress, lambda **kw: [api.run(request, earlier=taken, **kw)])
    except OptionError as error:
        raise settings.in_words_of_the_person(error) from error
    return conclude(outcome, as_json)


def _earlier(reuse: bool, source: str | None, anyway: bool) -> Earlier | None:
    if anyway and not (reuse or source):
        raise OptionError("--reuse-anyway needs --reuse or --reuse-from RUN")
    return Earlier(source, anyway) if reuse or source else None


def rescore(run_dir: str, assignments: Sequence[str], progress: str | None, as_json: bool) -> int:
    """Grade a run's stored answers again, into a new run."""
    load_dotenv()
    keep_secrets()
    place = os.path.abspath(run_dir)
    _go_where_it_started(api.load(place).info)
    changes = changed_settings(place, assignments)
    outcome = with_progress(progress, lambda **kw: [api.rescore(place, changes=changes, **kw)])
    return conclude(outcome, as_json)


def resume(
    run_dir: str,
    concurrency: int | None,
    timeout: float | None,
    progress: str | None,
    as_json: bool,
) -> int:
    """Continue a run, or a launch by its document, in place."""
    load_dotenv()
    keep_secrets()
    changes = {
        key: value
        for key, value in (("task_concurrency", concurrency), ("timeout_s", timeout))
        if value is not None
    }
    place = os.path.abspath(run_dir)
    if place.endswith(".json"):
        _go_where_it_started(read_document(place))
        outcome = with_progress(
            progress, lambda **kw: api.resume_launch(place, changes=changes, **kw)
        )
        return conclude(outcome, as_json, launch=True)
    _go_where_it_started(api.load(place).info)
    outcome = with_progress(progress, lambda **kw: [api.resume(place, changes=changes, **kw)])
    return conclude(outcome, as_json)


def _go_where_it_started(info: Mapping[str, Any]) -> None:
    """Relative paths of a request mean what they meant when it was first run."""
    folder = info.get("working_directory")
    if not isinstance(folder, str) or not os.path.isdir(folder):
        return
    if not os.path.samefile(folder, os.getcwd()):
        say(f"proctor: paths are taken from {folder}, where it was started", error=True)
        os.chdir(folder)


NAMES_SHOWN = 20
"""Names of requests on one line."""

Outcome = tuple[list[RunReport], list[RunView]]
"""How runs ended, and what was seen of them; a request may have no view."""


def with_progress(mode: str | None, work: Callable[..., list[RunReport]]) -> Outcome:
    """Do `work` while a renderer shows its progress on stderr."""
    chosen = mode or os.environ.get("PROCTOR_PROGRESS") or "auto"
    if chosen not in MODES:
        raise OptionError(f"unknown --progress {chosen!r}", hint=nearest(chosen, MODES))
    progress, stop = Progress(), Stop()
    renderer = make_renderer(chosen, progress, stop)
    renderer.start()
    try:
        reports = work(progress=progress, stop=stop, before_exit=restore_terminal)
    finally:
        progress.stop()
        renderer.join()
    return reports, list(progress.views)


def conclude(outcome: Outcome, as_json: bool, *, launch: bool = False) -> int:
    """Print how it ended and give the exit code. `launch`: the runs are requests of one."""
    reports, views = outcome
    if as_json:
        emit(document(reports))
    for report in reports:
        view = next((view for view in views if view.run_dir == report.run_dir), None)
        for line in (*outcome_lines(report, view), *_next_steps(report)):
            say(line, error=as_json)
    if launch and len(reports) > 1:
        for line in launch_lines(reports):
            say(line, error=as_json)
    return exit_code(reports)


def outcome_lines(report: RunReport, view: RunView | None) -> list[str]:
    """How a run ended: numbers, then what went wrong."""
    examples = view.examples if view is not None else {}
    lines = [*report_lines(report), *problem_lines(report, examples)]
    return [*lines, f"  run directory: {relative(report.run_dir)}"] if report.run_dir else lines


def launch_lines(reports: Sequence[RunReport]) -> list[str]:
    """How the requests of a launch ended, on few lines, and how to go on with all of them."""
    by_status: dict[str, list[str]] = {}
    for report in reports:
        status = "without a valid score" if report.exit_code == 1 else report.status
        by_status.setdefault(status, []).append(one_line(report.name))
    counts = ", ".join(f"{len(names)} {status}" for status, names in by_status.items())
    lines = ["", f"{counted(len(reports), 'request')}: {counts}"]
    for status, names in by_status.items():
        if status != COMPLETED:
            more = len(names) - NAMES_SHOWN
            rest = f" and {more} more" if more > 0 else ""
            lines.append(f"  {status}: {', '.join(names[:NAMES_SHOWN])}{rest}")
    document = next((p for r in reports if (p := document_of(r.run_dir)) is not None), None)
    if document is not None and any(report.exit_code for report in reports):
        lines.append(f"  go on with all of them:  proctor resume {typed(document)}")
    return lines


def _next_steps(report: RunReport) -> list[str]:
    if not report.run_dir:
        return []
    place = typed(report.run_dir)
    lines = ["", f"  look at it:  proctor show {place}"]
    if report.exit_code != 0:
        lines.append(f"  go on:       proctor resume {place}")
    return lines
