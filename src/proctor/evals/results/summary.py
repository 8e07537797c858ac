"""`summary.json` for machines and `summary.md` for people."""

from collections.abc import Mapping
from typing import Any

from proctor.evals.metrics.table import metric_tables
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
        "abandoned_threads": report.abandoned_threads,
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
    lines.append(metric_tables(report.metrics).rstrip())
    if report.issue_codes:
        lines += ["", "| issue | attempts |", "|---|---|"]
        lines += [f"| {code} | {count} |" for code, count in sorted(report.issue_codes.items())]
    if report.abandoned_threads:
        lines += ["", f"{report.abandoned_threads} blocking calls overran their limit and still "
                  "ran at the end; what they do now changes nothing here."]  # fmt: skip
    return "\n".join(lines) + "\n"
