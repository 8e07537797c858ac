"""The report as Markdown tables, for `summary.md`."""

from collections.abc import Iterator, Sequence

from proctor.evals.metrics.report import MetricReport
from proctor.evals.metrics.series import Series

_COUNTS = ("tasks", "evaluated", "unavailable", "invalidated", "errors")
_NUMBERS = ("value", "reference", "95 % interval")


def metric_tables(report: MetricReport) -> str:
    """All series, then the primary one per category; says what keeps a value from being whole.

    Names come from plug-ins and data and are escaped. Ends with a newline.
    """
    lines = [*_notes(report), *_header(("metric", "reducer"))]
    for metric, by_reducer in report.series.items():
        lines += [_row((metric, reducer), series) for reducer, series in by_reducer.items()]
    if report.categories:
        shown = f"{report.primary.metric} · {report.primary.reducer}"
        lines += ["", f"Per category, {_plain(shown)}:", "", *_header(("category",))]
        for name, table in report.categories.items():
            lines.append(_row((name,), table[report.primary.metric][report.primary.reducer]))
    return "\n".join(lines) + "\n"


def _notes(report: MetricReport) -> Iterator[str]:
    primary = report.primary_series
    if report.evaluation_failed:
        yield (
            f"**Evaluation failed**: {primary.invalidated} of {primary.total} tasks ended fatal, "
            "so there is no official value. The reference is over the valid tasks only."
        )
        yield ""
    elif primary.partial:
        yield (
            f"**Partial**: {primary.evaluated} of {primary.total} tasks are evaluated for "
            f"{_plain(report.primary.metric)} {report.primary.reducer}."
        )
        yield ""


def _header(names: Sequence[str]) -> list[str]:
    columns = (*names, *_NUMBERS, *_COUNTS)
    marks = ["---"] * len(names) + ["---:"] * (len(columns) - len(names))
    return [f"| {' | '.join(columns)} |", f"| {' | '.join(marks)} |"]


def _row(names: Sequence[str], series: Series) -> str:
    value = _number(series.value)
    if series.partial and series.value is not None:
        value += " (partial)"
    interval = "–"
    if series.ci95 is not None:
        interval = f"{_number(series.ci95[0])} to {_number(series.ci95[1])}"
    counts = (
        series.total, series.evaluated, series.unavailable, series.invalidated, series.error,
    )  # fmt: skip
    cells = [*map(_plain, names), value, _number(series.reference_value), interval]
    return f"| {' | '.join([*cells, *map(str, counts)])} |"


def _number(value: float | None) -> str:
    """Six significant digits; a dash where there is none."""
    return "–" if value is None else f"{value:.6g}"


_ESCAPES = str.maketrans({mark: "\\" + mark for mark in "\\`*_{}[]<>#|~!&"})


def _plain(name: str) -> str:
    """A name as plain text in one Markdown cell, whatever characters it has."""
    text = "".join(ch if ch.isprintable() else " " for ch in name)
    return text.translate(_ESCAPES)
