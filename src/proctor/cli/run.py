"""`proctor run` and `proctor resume`."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from proctor.cli.live import make_renderer, restore_terminal
from proctor.cli.output import emit, relative, say
from proctor.cli.settings import build_request, changed_options, load_dotenv
from proctor.cli.text import report_lines
from proctor.evals import api
from proctor.evals.prepare import Earlier
from proctor.evals.progress import Progress
from proctor.evals.report import RunReport, document, exit_code
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
    request = build_request(file, flags, assignments)
    taken = _earlier(*earlier)
    reports = with_progress(progress, as_json, lambda **kw: [api.run(request, earlier=taken, **kw)])
    return conclude(reports, as_json)


def _earlier(reuse: bool, source: str | None, anyway: bool) -> Earlier | None:
    if anyway and not (reuse or source):
        raise OptionError("--reuse-anyway needs --reuse or --reuse-from RUN")
    return Earlier(source, anyway) if reuse or source else None


def rescore(run_dir: str, assignments: Sequence[str], progress: str | None, as_json: bool) -> int:
    """Grade a run's stored answers again, into a new run."""
    load_dotenv()
    changes = changed_options(run_dir, assignments)
    reports = with_progress(
        progress, as_json, lambda **kw: [api.rescore(run_dir, changes=changes, **kw)]
    )
    return conclude(reports, as_json)


def resume(
    run_dir: str,
    concurrency: int | None,
    timeout: float | None,
    progress: str | None,
    as_json: bool,
) -> int:
    """Continue a run, or a launch by its document, in place."""
    load_dotenv()
    changes = {
        key: value
        for key, value in (("task_concurrency", concurrency), ("timeout_s", timeout))
        if value is not None
    }
    if run_dir.endswith(".json"):
        reports = with_progress(
            progress, as_json, lambda **kw: api.resume_launch(run_dir, changes=changes, **kw)
        )
        return conclude(reports, as_json)
    reports = with_progress(
        progress, as_json, lambda **kw: [api.resume(run_dir, changes=changes, **kw)]
    )
    return conclude(reports, as_json)


def with_progress(
    mode: str | None, as_json: bool, work: Callable[..., list[RunReport]]
) -> list[RunReport]:
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
        progress.stop()
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
    return exit_code(reports)


def _next_steps(report: RunReport) -> list[str]:
    if not report.run_dir:
        return []
    place = relative(report.run_dir)
    lines = ["", f"  look at it:  proctor show {place}"]
    if report.exit_code != 0:
        lines.append(f"  go on:       proctor resume {place}")
    return lines
