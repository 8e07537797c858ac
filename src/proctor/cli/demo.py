"""`proctor demo`: the built-in sample evaluation, offline."""

from proctor.benchmarks import samples
from proctor.cli.output import emit, relative, say
from proctor.cli.run import with_progress
from proctor.cli.text import report_lines
from proctor.evals import api
from proctor.evals.options import validate
from proctor.evals.report import RunReport, document
from proctor.evals.request import RunRequest

HARNESSES = ("oracle", "nop")


def demo(results: str, progress: str | None, as_json: bool) -> int:
    """Run the samples with the agent that knows the solutions and the one that does nothing."""
    say("Twelve or so small tasks, each graded by its own tests, with two agents:", error=as_json)
    say("  oracle runs the reference solution, so it should score 1;", error=as_json)
    say("  nop does nothing, so it should score 0.\n", error=as_json)
    reports = [_run(harness, results, progress, as_json) for harness in HARNESSES]
    if as_json:
        emit(document(reports))
    for line in _next_steps(reports[0]):
        say(line, error=as_json)
    oracle, nop = (report.metrics.primary.value for report in reports)
    return 0 if (oracle, nop) == (1.0, 0.0) else 1


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
    [report] = with_progress(progress, as_json, lambda **kw: [api.run(request, **kw)])
    for line in [*report_lines(report), ""]:
        say(line, error=as_json)
    return report


def _next_steps(report: RunReport) -> list[str]:
    place = relative(report.run_dir)
    return [
        "What next:",
        f"  look at a run        proctor show {place}",
        "  your own rows        proctor run --benchmark table --data rows.jsonl \\",
        "                         --harness command -p harness.command='python3 agent.py'",
        "  what there is        proctor list benchmarks",
        "  the same from Python proctor.run({...}); see docs/quickstart.md",
    ]
