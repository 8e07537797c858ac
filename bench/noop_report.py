"""The figures of bench/noop.py as tables for people and as one JSON document."""

from collections.abc import Callable, Iterable
from typing import Any

from bench.figures import Limit, Spread, limits_table, table
from bench.noop_figures import Case, Figures, Sample

Pick = Callable[[Sample], float]

MEASURED_FROM = 16
"""The promises hold from this concurrency on."""


def spread(figures: Figures, case: Case, pick: Pick) -> Spread:
    """A figure of a case over its repeats."""
    return Spread.of([pick(sample) for sample in figures.samples[case]])


def cpu_ms(case: Case) -> Pick:
    """CPU of the whole process, start and end of the run included, a task."""
    return lambda sample: sample.ended.cpu_s * 1000 / case.tasks


def rss_kib(sample: Sample) -> float:
    return float(sample.ended.own["rss_kib"])


def growth_kib(figures: Figures, case: Case) -> float | None:
    """Peak memory over that of the smallest case of the same kind, a task more."""
    least = min(
        (c for c in figures.samples if (c.mode, c.concurrency) == (case.mode, case.concurrency)),
        key=lambda c: c.tasks,
    )
    if least.tasks == case.tasks:
        return None
    more = spread(figures, case, rss_kib).median - spread(figures, least, rss_kib).median
    return more / (case.tasks - least.tasks)


def bare_spread(figures: Figures, key: str) -> Spread:
    """CPU or wall time (ms) of one record's bare system calls."""
    picks: dict[str, Callable[[dict[str, Any]], float]] = {
        "cpu": lambda own: own["user_s"] + own["system_s"],
        "system": lambda own: own["system_s"],
        "wall": lambda own: own["wall_s"],
    }
    return Spread.of([picks[key](e.own) * 1000 / e.own["records"] for e in figures.bare])


def text(figures: Figures) -> str:
    """All tables."""
    return "\n\n".join(
        [
            "No-op tasks. CPU and wall time in ms a task; median (smallest–largest).\n"
            + _cost_table(figures),
            "Memory and disk, a task.\n" + _size_table(figures),
            *([_loop_text(figures)] if figures.loops else []),
            _bare_text(figures),
            limits_table(promises(figures)),
            ", ".join(f"{k} {v}" for k, v in figures.circumstances.items()),
        ]
    )


def _name(case: Case) -> str:
    return f"{case.mode} {case.tasks} × {case.concurrency}"


def _cost_table(figures: Figures) -> str:
    floor = bare_spread(figures, "cpu").median
    rows = []
    for case, samples in figures.samples.items():
        cpu = spread(figures, case, cpu_ms(case))
        user = Spread.of([s.ended.user_s * 1000 / case.tasks for s in samples])
        system = Spread.of([s.ended.system_s * 1000 / case.tasks for s in samples])
        wall = Spread.of([s.ended.wall_s * 1000 / case.tasks for s in samples])
        ratio = f"{cpu.median / floor:.2f}"
        rows.append([_name(case), cpu.text(), user.text(), system.text(), wall.text(), ratio])
    return table(["mode, tasks × at once", "CPU", "user", "system", "wall", "CPU / bare"], rows)


def _size_table(figures: Figures) -> str:
    rows = []
    for case, samples in figures.samples.items():
        rss = spread(figures, case, rss_kib)
        growth = growth_kib(figures, case)
        left, own = samples[-1].left, samples[-1].ended.own
        rows.append(
            [
                _name(case),
                f"{rss.median / 1024:.1f}",
                "" if growth is None else f"{growth:.2f}",
                f"{left.size_bytes / case.tasks:.0f}",
                f"{own['written_bytes'] / case.tasks:.0f}",
                f"{left.allocated_bytes / case.tasks:.0f}",
                f"{left.files / case.tasks:.2f}",
                f"{left.folders / case.tasks:.2f}",
            ]
        )
    head = ["mode, tasks × at once", "peak MiB", "KiB more", "bytes", "written", "on disk",
            "files", "folders"]  # fmt: skip
    return table(head, rows)


def _loop_text(figures: Figures) -> str:
    rows = []
    for case, found in figures.loops.items():
        lags = [
            Spread.of([own["lag_ms"][name] for own in found]).text(1)
            for name in ("p50", "p99", "p99.9", "max", "own p99.9")
        ]
        worst = max((own["callbacks"] for own in found), key=lambda c: float(c["longest_ms"]))
        slow = Spread.of([own["callbacks"]["slow"] for own in found])
        collected = Spread.of([own["collector"]["longest_ms"] for own in found])
        rows.append(
            [_name(case), *lags, f"{worst['longest_ms']:.1f}", slow.text(0), collected.text(1)]
        )
    head = ["mode, tasks × at once", "lag p50", "p99", "p99.9", "max", "own p99.9",
            "longest", "slow", "GC"]  # fmt: skip
    return (
        "Event loop, ms: lag weighted by time, its part that is the loop's own CPU; the longest "
        "callback's\nCPU; how many took more than 20 ms of CPU; the longest garbage collection.\n"
        + table(head, rows)
    )


def _bare_text(figures: Figures) -> str:
    wall = bare_spread(figures, "wall").text()
    speed = Spread.of([ended.own["python_s"] * 1000 for ended in figures.bare])
    lines = [
        f"Bare system calls of one durable record, one after the other: CPU "
        f"{bare_spread(figures, 'cpu').text()} ms (system {bare_spread(figures, 'system').text()})"
        f", wall {wall} ms.",
        f"A fixed piece of pure Python beside it: CPU {speed.text(1)} ms; its spread is the "
        "machine's, not ours.",
        *[
            f"Syncs a task, mode {mode}: {value:g} (counted by {figures.counted_by})."
            for mode, value in figures.syncs.items()
        ],
    ]
    return "\n".join(lines)


def promises(figures: Figures) -> list[Limit]:
    """What the targets say of the cases that were run."""
    found: list[Limit] = []
    for mode in figures.syncs:
        cases = [c for c in figures.samples if c.mode == mode and c.concurrency >= MEASURED_FROM]
        if cases:
            found += _promises_of(figures, mode, cases)
    return found


def _promises_of(figures: Figures, mode: str, cases: list[Case]) -> list[Limit]:
    most = [c for c in cases if c.tasks == max(c.tasks for c in cases)]
    cpu = _worst(most, lambda c: spread(figures, c, cpu_ms(c)).median)
    growth = [g for c in most if (g := growth_kib(figures, c)) is not None]
    size = _worst(cases, lambda c: figures.samples[c][-1].left.size_bytes / c.tasks)
    ours = mode == "reuse"  # the promises name this mode; the other rows are for comparison
    found = [
        Limit(f"{mode}: CPU a task, at most tasks", cpu, 2.0 if ours else None, "ms"),
        Limit(f"{mode}: syncs a task", figures.syncs[mode], 2.0 if ours else None, "calls"),
        Limit(f"{mode}: bytes of files a task", size, 3_072 if ours else None, "bytes"),
    ]
    if growth:
        found.append(Limit(f"{mode}: memory a task more", max(growth), 4.0, "KiB"))
    busiest = [c for c in most if c.concurrency == max(c.concurrency for c in most)]
    for case in busiest:
        if case in figures.loops:
            found += _loop_promises(figures, case)
    return found


def _loop_promises(figures: Figures, case: Case) -> list[Limit]:
    found = figures.loops[case]
    lag = Spread.of([own["lag_ms"]["p99.9"] for own in found]).median
    longest = Spread.of([own["callbacks"]["longest_ms"] for own in found]).median
    return [
        Limit(f"{_name(case)}: lag p99.9", lag, 20.0, "ms"),
        Limit(f"{_name(case)}: longest callback, CPU", longest, 20.0, "ms"),
    ]


def _worst(cases: Iterable[Case], figure: Callable[[Case], float]) -> float:
    return max(figure(case) for case in cases)


def to_json(figures: Figures) -> dict[str, Any]:
    """Every single figure, so that other tables can be made of them."""
    return {
        "circumstances": figures.circumstances,
        "bare": [ended.own for ended in figures.bare],
        "syncs_per_task": figures.syncs,
        "syncs_counted_by": figures.counted_by,
        "cases": [
            {
                "mode": case.mode,
                "tasks": case.tasks,
                "concurrency": case.concurrency,
                "runs": [_run_json(sample) for sample in samples],
                "loop": figures.loops.get(case, []),
            }
            for case, samples in figures.samples.items()
        ],
        "promises": [limit.to_json() for limit in promises(figures)],
    }


def _run_json(sample: Sample) -> dict[str, Any]:
    ended, left = sample.ended, sample.left
    return {
        "process": {"wall_s": ended.wall_s, "user_s": ended.user_s, "system_s": ended.system_s},
        "run": ended.own,
        "files": left.files,
        "folders": left.folders,
        "size_bytes": left.size_bytes,
        "allocated_bytes": left.allocated_bytes,
    }
