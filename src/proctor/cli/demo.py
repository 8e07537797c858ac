"""`proctor demo`: the built-in sample evaluation, offline."""

from proctor.benchmarks import samples
from proctor.cli.output import emit, say, typed
from proctor.cli.run import outcome_lines, with_progress
from proctor.cli.settings import results_dir
from proctor.evals import api
from proctor.evals.options import validate
from proctor.evals.report import COMPLETED, RunReport, document
from proctor.evals.request import RunRequest

EXPECTED = {"oracle": 1.0, "nop": 0.0}


def demo(results: str | None, progress: str | None, as_json: bool) -> int:
    """Run the samples with the agent that knows the solutions and the one that does nothing.

    Exit code 1 when a score is not the expected one; otherwise as for `run`.
    """
    place = results_dir(results)
    say(
        "Small tasks of several kinds, each graded by its own tests, with two agents:",
        error=as_json,
    )
    say("  oracle runs the reference solution, so it should score 1;", error=as_json)
    say("  nop does nothing, so it should score 0.\n", error=as_json)
    reports: list[RunReport] = []
    for harness in EXPECTED:
        reports.append(_run(harness, place, progress, as_json))
        if reports[-1].status != COMPLETED:
            break
    if as_json:
        emit(document(reports))
    if any(report.status != COMPLETED for report in reports):
        return max(report.exit_code for report in reports)
    for line in _next_steps(reports[0]):
        say(line, error=as_json)
    scores = [report.metrics.primary.value for report in reports]
    return 0 if scores == list(EXPECTED.values()) else 1


def _run(harness: str, results: str, progress: str | None, as_json: bool) -> RunReport:
    request = validate(
        RunRequest,
        {
            "name": f"samples · {harness}",
            "benchmark": {"id": "harbor", "data": str(samples.path())},
            "harness": harness,
            "runtime": {"results_dir": results, "task_concurrency": 4},
        },
        "",
    )
    [report], views = with_progress(progress, lambda **kw: [api.run(request, **kw)])
    for line in [*outcome_lines(report, next(iter(views), None)), ""]:
        say(line, error=as_json)
    return report


def _next_steps(report: RunReport) -> list[str]:
    return [
        "What next:",
        f"  look at a run        proctor show {typed(report.run_dir)}",
        "  your own rows        proctor run --benchmark table --data rows.jsonl \\",
        "                         --harness command -p harness.command=\"python3 '$PWD/agent.py'\"",
        "  what there is        proctor list benchmarks",
        "  the same from Python proctor.run({...}); see docs/quickstart.md",
    ]
