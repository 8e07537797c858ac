"""`summary.json` for machines and `summary.md` for people."""

from collections.abc import Mapping
from typing import Any

from proctor.evals.metrics.series import Series
from proctor.evals.report import RunReport
from proctor.evals.results.records import SUMMARY_SCHEMA


def summary_json(report: RunReport, info: Mapping[str, Any]) -> dict[str, Any]:
    """Everything a reader needs without opening the records."""
    return {
        "schema_version": SUMMARY_SCHEMA,
        "run_id": info["run_id"],
        "status": report.status,
        "error": report.error,
        "components": {
            name: component["id"] if component and "id" in component else component
            for name, component in info["components"].items()
        },
        "counts": report.counts.to_json(),
        **report.metrics.summary_json(),
        "issues": dict(sorted(report.issue_codes.items())),
        "usage": {**report.usage.to_json(), "wall_s": round(report.wall_s, 3)},
    }


def summary_text(report: RunReport, info: Mapping[str, Any]) -> str:
    """The summary as Markdown."""
    components = info["components"]
    model = components["model"]["name"] if components["model"] else "none"
    counts = report.counts
    lines = [
        f"# {components['benchmark']['id']} · {components['harness']['id']} · {model}",
        "",
        f"Run `{info['run_id']}`: **{report.status}**"
        + (f" ({report.error.splitlines()[0]})" if report.error else ""),
        "",
        f"{counts.tasks} tasks: {counts.normal} normal, {counts.error} with errors, "
        f"{counts.fatal} fatal, {counts.interrupted} interrupted; {counts.attempts} attempts"
        + (f" ({counts.reused_attempts} kept from before)" if counts.reused_attempts else ""),
        "",
    ]
    if report.metrics.evaluation_failed:
        lines += [
            "The evaluation failed: a task ended fatal, so there is no official value. "
            "Reference values are over the valid tasks only.",
            "",
        ]
    lines += [
        "| metric | reducer | value | 95 % interval | coverage | reference |",
        "|---|---|---|---|---|---|",
    ]
    for metric, by_reducer in report.metrics.series.items():
        lines += [_row(metric, name, series) for name, series in by_reducer.items()]
    if report.metrics.categories:
        lines += ["", "| category | value | coverage |", "|---|---|---|"]
        lines += [_category(report, name) for name in report.metrics.categories]
    if report.issue_codes:
        lines += ["", "| issue | attempts |", "|---|---|"]
        lines += [f"| {code} | {count} |" for code, count in sorted(report.issue_codes.items())]
    return "\n".join(lines) + "\n"


def _row(metric: str, name: str, series: Series) -> str:
    interval = "" if series.ci95 is None else f"{series.ci95[0]:.4f} to {series.ci95[1]:.4f}"
    coverage = f"{series.evaluated}/{series.total}" + (" partial" if series.partial else "")
    return (
        f"| {metric} | {name} | {number(series.value)} | {interval} | {coverage} "
        f"| {number(series.reference_value)} |"
    )


def _category(report: RunReport, name: str) -> str:
    primary = report.metrics.primary
    series = report.metrics.category(name)[primary.metric][primary.reducer]
    safe = name.replace("|", "\\|").replace("\n", " ")
    return f"| {safe} | {number(series.value)} | {series.evaluated}/{series.total} |"


def number(value: float | None) -> str:
    """Four decimals, or a dash where there is no value."""
    return "–" if value is None else f"{value:.4f}"
