"""The comparison as tables for people and as one JSON document."""

from collections.abc import Iterator
from typing import Any

from bench.figures import Limit, limits_table, table
from bench.peers.comparison import Comparison, Side

LESS_CPU_THAN_THE_BEST = 7.0
RATIOS = ("CPU", "peak memory", "bytes", "written", "CPU further", "syncs", "import")


def text(found: Comparison) -> str:
    """All tables, and who is missing."""
    parts = []
    if found.theirs:
        parts = [
            f"No-op work at concurrency {found.concurrency}; medians. CPU in ms: of the whole "
            "process a task, and\nof each further task; KiB: memory of each further task.\n"
            + _cost_table(found),
            "Theirs ÷ ours in the same run (more than 1: ours needs less); the promise counts the\n"
            "rows of the same work.\n" + _ratio_table(found),
            limits_table(promises(found)),
        ]
    parts += [f"Not measured: {reason}" for reason in found.missing]
    parts.append(", ".join(f"{k} {v}" for k, v in found.circumstances.items()))
    return "\n\n".join(parts)


def _sides(found: Comparison) -> list[Side]:
    return [*found.ours.values(), *(side for _, side in found.theirs.values())]


def _cost_table(found: Comparison) -> str:
    head = ["system", "tasks", "CPU", "further", "peak MiB", "KiB", "bytes", "written", "files",
            "syncs", "import s", "packages", "MB"]  # fmt: skip
    rows = []
    for side in _sides(found):
        for tasks in side.runs:
            last = tasks == max(side.runs)
            growth = side.further("rss_mib")
            rows.append(
                [
                    side.name,
                    str(tasks),
                    f"{side.median(tasks, 'cpu_s') * 1000 / tasks:.2f}",
                    _number(side.further("cpu_s"), 1000, 2) if last else "",
                    f"{side.median(tasks, 'rss_mib'):.0f}",
                    _number(growth, 1024, 1) if last else "",
                    f"{side.median(tasks, 'size_bytes') / tasks:.0f}",
                    f"{side.median(tasks, 'written_bytes') / tasks:.0f}",
                    f"{side.median(tasks, 'files') / tasks:.1f}",
                    _number(side.syncs, 1, 1) if last else "",
                    _number(side.import_s, 1, 2) if last else "",
                    str(side.size.packages) if last and side.size else "",
                    f"{side.size.megabytes:.0f}" if last and side.size else "",
                ]
            )
    return table(head, rows)


def _number(value: float | None, factor: float, digits: int) -> str:
    return "" if value is None else f"{value * factor:.{digits}f}"


def _pairs(found: Comparison) -> Iterator[tuple[str, Side, Side]]:
    for title, (peer, theirs) in found.theirs.items():
        yield title, found.ours[peer.compared_with], theirs


def _ratio(theirs: float | None, ours: float | None) -> float | None:
    return theirs / ours if theirs is not None and ours is not None and ours > 0 else None


def ratios(ours: Side, theirs: Side) -> dict[str, float | None]:
    """Theirs ÷ ours at the largest case."""
    tasks = max(theirs.runs)
    found = {
        name: _ratio(theirs.median(tasks, figure), ours.median(tasks, figure))
        for name, figure in (
            ("CPU", "cpu_s"), ("peak memory", "rss_mib"), ("bytes", "size_bytes"),
            ("written", "written_bytes"),
        )
    }  # fmt: skip
    found["CPU further"] = _ratio(theirs.further("cpu_s"), ours.further("cpu_s"))
    found["syncs"] = _ratio(theirs.syncs, ours.syncs)
    found["import"] = _ratio(theirs.import_s, ours.import_s)
    return found


def _ratio_table(found: Comparison) -> str:
    rows = []
    for title, (peer, theirs) in found.theirs.items():
        tasks = max(theirs.runs)
        for mode, ours in sorted(found.ours.items(), key=lambda o: o[0] != peer.compared_with):
            mark = " (the same work)" if mode == peer.compared_with else ""
            values = ratios(ours, theirs)
            shown = [_number(values[name], 1, 1) for name in RATIOS]
            rows.append([f"{title} ÷ {ours.name}, {tasks} tasks{mark}", *shown])
    return table(["", *RATIOS], rows)


def promises(found: Comparison) -> list[Limit]:
    """The least ratio of CPU, of both ways to count it."""
    least: list[tuple[float, str]] = []
    for title, ours, theirs in _pairs(found):
        values = ratios(ours, theirs)
        counted = [v for name in ("CPU", "CPU further") if (v := values[name]) is not None]
        if counted:
            least.append((min(counted), title))
    if not least:
        return []
    ratio, title = min(least)
    what = f"CPU of the best peer ({title}) ÷ ours"
    return [Limit(what, ratio, LESS_CPU_THAN_THE_BEST, "times", at_least=True)]


def to_json(found: Comparison) -> dict[str, Any]:
    """Every single figure."""
    return {
        "circumstances": found.circumstances,
        "concurrency": found.concurrency,
        "sides": [_side_json(side) for side in _sides(found)],
        "theirs_to_ours": {title: ratios(a, b) for title, a, b in _pairs(found)},
        "not_measured": found.missing,
        "promises": [limit.to_json() for limit in promises(found)],
    }


def _side_json(side: Side) -> dict[str, Any]:
    runs = [
        {
            "tasks": tasks,
            "user_s": ended.user_s,
            "system_s": ended.system_s,
            "wall_s": ended.wall_s,
            "run": ended.own,
            "size_bytes": tree.size_bytes,
            "files": tree.files,
        }
        for tasks, pairs in side.runs.items()
        for ended, tree in pairs
    ]
    return {
        "name": side.name,
        "runs": runs,
        "syncs_per_task": side.syncs,
        "import_s": side.import_s,
        "installed": side.size.to_json() if side.size else None,
    }
