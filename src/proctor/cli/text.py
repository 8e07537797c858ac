"""Runs as text for people."""

from proctor.cli.output import relative
from proctor.evals.metrics.series import Series
from proctor.evals.report import RunReport
from proctor.models.contract import Usage


def report_lines(report: RunReport) -> list[str]:
    """How a run ended, in a few lines."""
    counts = report.counts
    lines = [
        f"{report.name}: {report.status}",
        f"  {counts.tasks} tasks: {counts.normal} normal, {counts.error} error, "
        f"{counts.fatal} fatal, {counts.interrupted} interrupted; "
        f"{counts.attempts} attempts in {duration(report.wall_s)}"
        + (f" ({counts.reused_attempts} kept)" if counts.reused_attempts else ""),
    ]
    if report.error:
        lines.append(f"  {report.error}")
    primary = report.metrics.primary
    for metric, by_reducer in report.metrics.series.items():
        for name, series in by_reducer.items():
            if metric == primary.metric or name.startswith("avg"):
                lines.append("  " + series_line(metric, name, series))
    if report.metrics.evaluation_failed:
        lines.append("  a task ended fatal: there is no official value, only a reference value")
    if report.usage.requests:
        lines.append(f"  model: {usage_text(report.usage)}")
    for code, count in sorted(report.issue_codes.items(), key=lambda item: -item[1])[:8]:
        lines.append(f"  issue {code}: {count}")
    lines.append(f"  run directory: {relative(report.run_dir)}")
    return lines


def series_line(metric: str, name: str, series: Series) -> str:
    """One number with everything that belongs beside it."""
    label = f"{metric} {name}".ljust(22)
    if series.value is not None:
        text = f"{label} {series.value:.4f}"
        if series.ci95 is not None:
            text += f"  95 % [{series.ci95[0]:.4f}, {series.ci95[1]:.4f}]"
    elif series.reference_value is not None:
        text = f"{label} no value; reference {series.reference_value:.4f}"
    else:
        text = f"{label} no value"
    coverage = f"  on {series.evaluated}/{series.total} tasks"
    return text + coverage + (" (partial)" if series.partial else "")


def usage_text(usage: Usage) -> str:
    """Requests, tokens and money."""
    text = (
        f"{usage.requests} requests, {usage.input_tokens} input and "
        f"{usage.output_tokens} output tokens"
    )
    return text if usage.cost_usd is None else f"{text}, ${usage.cost_usd:f}"


def duration(seconds: float) -> str:
    """`4.2 s`, `3 min 20 s`, `2 h 5 min`."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(int(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min"
