"""`proctor run` and `proctor resume`."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from proctor.cli.live import make_renderer, restore_terminal
from proctor.cli.output import emit, relative, say
from proctor.cli.settings import build_request, load_dotenv
from proctor.cli.text import report_lines
from proctor.evals import api
from proctor.evals.progress import Progress
from proctor.evals.report import RunReport, document
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
    request = build_request(file, flags, assignments)
    report = with_progress(progress, as_json, lambda **kw: api.run(request, **kw))
    return conclude([report], as_json)


def resume(
    run_dir: str,
    concurrency: int | None,
    timeout: float | None,
    progress: str | None,
    as_json: bool,
) -> int:
    """Continue a run in place."""
    load_dotenv()
    changes = {
        key: value
        for key, value in (("task_concurrency", concurrency), ("timeout_s", timeout))
        if value is not None
    }
    report = with_progress(
        progress, as_json, lambda **kw: api.resume(run_dir, changes=changes, **kw)
    )
    return conclude([report], as_json)


def with_progress(mode: str | None, as_json: bool, work: Callable[..., RunReport]) -> RunReport:
    """Do `work` while a renderer shows its progress on stderr."""
    chosen = mode or "auto"
    if chosen not in ("auto", "plain", "none"):
        raise OptionError(f"unknown --progress {chosen!r}", hint="auto, plain or none")
    progress = Progress()
    renderer = make_renderer(chosen, progress)
    renderer.start()
    try:
        return work(progress=progress, before_exit=restore_terminal)
    finally:
        progress.stop(progress.view.status if progress.view is not None else "refused")
        renderer.join()


def conclude(reports: list[RunReport], as_json: bool) -> int:
    """Print how it ended and give the exit code."""
    if as_json:
        emit(document(reports))
    for report in reports:
        for line in report_lines(report):
            say(line, error=as_json)
        for line in _next_steps(report):
            say(line, error=as_json)
    return max(report.exit_code for report in reports)


def _next_steps(report: RunReport) -> list[str]:
    place = relative(report.run_dir)
    lines = ["", f"  look at it:  proctor show {place}"]
    if report.exit_code != 0:
        lines.append(f"  go on:       proctor resume {place}")
    return lines
