"""What a task costs when there is nothing to do: CPU, memory, disk, syncs, event-loop lag.

    python -m bench.noop [--quick] [--repeats 2] [--tasks 200 1000 …] [--concurrency 1 16 …]
                         [--modes reuse none] [--no-loop] [--json FILE]

Each case is a run in a process of its own: constant tasks, harness `nop`, environment `local`. Mode
`none` runs at one concurrency only, and cases of more than 10,000 tasks once. The event loop is
watched in a run of its own, once a case (above 10,000 tasks at the highest concurrency only).
Repeats are interleaved, so that a busy moment of the machine meets all cases alike, and every
repeat also makes the bare system calls of records as a floor to compare with. Printed are medians
(smallest–largest). What the runs leave is removed at the end: 4 GB for the whole matrix.

Needs Linux. PROCTOR_BENCH_CACHE chooses the disk; on one in memory what is left is our own CPU.
"""

import argparse
import json
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from bench import noop_report
from bench.measured import (
    Ended,
    look_at,
    run,
    scratch,
    strace,
    traced_syncs,
)
from bench.noop_figures import Case, Figures, Sample

TASKS = (200, 1_000, 5_000, 20_000)
CONCURRENCY = (1, 16, 64, 256)
MODES = ("reuse", "none")
MANY_TASKS = 10_000
BARE_RECORDS = 1_000
SYNC_TASKS = (100, 300)


def once(case: Case, *options: str, before: Sequence[str] = ()) -> tuple[Sample, str]:
    """Run a case; `before` goes in front of the command. Also what that wrote to stderr."""
    with scratch() as folder:
        argv = [sys.executable, "-m", "bench.noop_case", str(case.tasks), str(case.concurrency)]
        ended = run([*before, *argv, case.mode, "{report}", *options], folder)
        return Sample(ended, look_at(folder / "results")), (folder / "err").read_text("utf-8")


def bare(records: int = BARE_RECORDS) -> Ended:
    """The bare system calls of `records` records."""
    with scratch() as folder:
        return run([sys.executable, "-m", "bench.bare_case", str(records), "{report}"], folder)


def count_syncs(mode: str) -> tuple[float, str]:
    """Syncs a task, and who counted: the kernel's calls where strace runs, else Python's."""
    counts = []
    tracer = strace()
    for tasks in SYNC_TASKS:
        case = Case(mode, tasks, 16)
        if tracer is not None:
            _, table = once(case, before=tracer)
            counts.append(traced_syncs(table))
        else:
            sample, _ = once(case, "--syncs")
            counts.append(sample.ended.own["syncs"])
    (few, few_syncs), (many, many_syncs) = zip(SYNC_TASKS, counts, strict=True)
    who = "strace -c -f" if tracer is not None else "os.fsync wrapped in the process"
    return (many_syncs - few_syncs) / (many - few), who


def say(text: str) -> None:
    """Progress, for whoever waits."""
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


def measure(cases: Sequence[Case], repeats: int, loop: bool) -> Figures:
    """Run everything, repeat by repeat."""
    figures = Figures()
    most = max(case.concurrency for case in cases)
    for mode in dict.fromkeys(case.mode for case in cases):
        figures.syncs[mode], figures.counted_by = count_syncs(mode)
    for number in range(1, repeats + 1):
        figures.bare.append(bare())
        for case in cases:
            if number > 1 and case.tasks > MANY_TASKS:
                continue
            started = time.perf_counter()
            sample, _ = once(case)
            figures.samples[case].append(sample)
            if loop and number == 1 and (case.tasks <= MANY_TASKS or case.concurrency == most):
                watched, _ = once(case, "--loop")
                figures.loops[case].append(watched.ended.own)
            took = time.perf_counter() - started
            say(f"repeat {number}/{repeats}: {case.mode} {case.tasks} tasks × "
                f"{case.concurrency}: {took:.1f} s")  # fmt: skip
        figures.bare.append(bare())
    figures.circumstances["load_average_at_end"] = [round(v, 2) for v in os.getloadavg()]
    return figures


def cases_of(args: argparse.Namespace) -> list[Case]:
    """The cells of the matrix that were asked for."""
    least = min((c for c in args.concurrency if c > 1), default=1)
    return [
        Case(mode, tasks, concurrency)
        for mode in args.modes
        for tasks in args.tasks
        for concurrency in (args.concurrency if mode == args.modes[0] else (least,))
    ]


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="noop", description=(__doc__ or "").strip().splitlines()[0]
    )
    parser.add_argument("--quick", action="store_true", help="200 and 2,000 tasks × 16, once each")
    parser.add_argument("--repeats", type=int)
    parser.add_argument("--tasks", type=int, nargs="+")
    parser.add_argument("--concurrency", type=int, nargs="+")
    parser.add_argument("--modes", choices=["reuse", "none", "model"], nargs="+")
    parser.add_argument("--no-loop", action="store_true", help="do not watch the event loop")
    parser.add_argument("--json", type=Path, help="also write every figure here")
    args = parser.parse_args()
    args.repeats = args.repeats or (1 if args.quick else 2)
    args.tasks = args.tasks or ((200, 2_000) if args.quick else TASKS)
    args.concurrency = args.concurrency or ((16,) if args.quick else CONCURRENCY)
    args.modes = args.modes or MODES
    return args


def main() -> int:
    """Print the tables; 1 when a promise is not kept."""
    args = arguments()
    figures = measure(cases_of(args), args.repeats, not args.no_loop)
    sys.stdout.write(noop_report.text(figures) + "\n")
    if args.json is not None:
        document = noop_report.to_json(figures)
        args.json.write_text(json.dumps(document, indent=2) + "\n", "utf-8")
    return 0 if all(limit.kept for limit in noop_report.promises(figures)) else 1


if __name__ == "__main__":
    sys.exit(main())
