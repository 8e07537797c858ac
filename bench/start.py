"""What it costs to start proctor: import, `--help`, `version`, and the time until a task starts.

    python -m bench.start [--repeats 15] [--json FILE]

CPU times (user + system) are medians of fresh processes with warm caches, after a first run that
is not counted; beside them python's own start. The time to the first task is wall time, from just
before the process of `proctor run` is made to the moment its first harness is asked to start; it
therefore depends on what else the machine does, and the bare interpreter's wall time stands beside.
"""

import argparse
import os
import statistics
import sys
import time
from pathlib import Path

from bench.figures import Limit, Spread, concluded
from bench.measured import circumstances, run, scratch, usual_environment

REPEATS = 15
TASKS = 200


def cpu_s(argv: list[str], repeats: int = REPEATS) -> float:
    """Median CPU seconds of a process and its children."""
    return statistics.median([_once(argv) for _ in range(repeats + 1)][1:])


def _once(argv: list[str]) -> float:
    silent = [(os.POSIX_SPAWN_OPEN, fd, os.devnull, os.O_WRONLY, 0) for fd in (1, 2)]
    pid = os.posix_spawn(argv[0], argv, usual_environment(), file_actions=silent)
    _, status, used = os.wait4(pid, 0)
    if os.waitstatus_to_exitcode(status) != 0:
        raise SystemExit(f"{' '.join(argv)} failed with {os.waitstatus_to_exitcode(status)}")
    return used.ru_utime + used.ru_stime


def _run_command(tasks: int, stamp: Path) -> list[str]:
    argv = [sys.executable, "-m", "proctor", "run", "--progress", "none", "--json"]
    argv += ["--benchmark", "bench.noop_work:Constant", "-p", f"benchmark.tasks={tasks}"]
    return [*argv, "--harness", "bench.first_task:Stamp", "-p", f"harness.path={stamp}"]


def first_task_s() -> float:
    """Seconds from launch to the start of the first task, of a run of 200 tasks."""
    with scratch() as folder:
        stamp = folder / "started"
        argv = _run_command(TASKS, stamp)
        launched = time.monotonic()
        run(argv, folder)
        return float(stamp.read_text("ascii")) - launched


def one_task_cpu_s(repeats: int) -> float:
    """Median CPU seconds of a whole run of one task: what of the start is not waiting."""
    used = []
    for _ in range(repeats + 1):
        with scratch() as folder:
            used.append(run(_run_command(1, folder / "started"), folder).cpu_s)
    return statistics.median(used[1:])


def bare_wall_s() -> float:
    """Seconds from launch to the first statement of a bare interpreter."""
    with scratch() as folder:
        launched = time.monotonic()
        run([sys.executable, "-c", "import time; print(time.monotonic())"], folder)
        return float((folder / "out").read_text("ascii")) - launched


def first_task(repeats: int) -> tuple[Spread, Spread]:
    """Wall times to a bare interpreter's first statement and to the first task, in turn."""
    pairs = [(bare_wall_s(), first_task_s()) for _ in range(repeats + 1)][1:]
    return Spread.of([bare for bare, _ in pairs]), Spread.of([ours for _, ours in pairs])


def figures(repeats: int) -> list[Limit]:
    """All figures with their limits."""
    python = sys.executable
    proctor = [python, "-m", "proctor"]
    bare, first = first_task(repeats)
    return [
        Limit("CPU of a bare interpreter", cpu_s([python, "-c", "pass"], repeats), None, "s"),
        Limit(
            "CPU of `import proctor`", cpu_s([python, "-c", "import proctor"], repeats), 0.1, "s"
        ),
        Limit("CPU of `proctor --help`", cpu_s([*proctor, "--help"], repeats), 0.2, "s"),
        Limit("CPU of `proctor version`", cpu_s([*proctor, "version"], repeats), None, "s"),
        Limit("CPU of a run of one task", one_task_cpu_s(repeats), None, "s"),
        Limit("launch to a bare interpreter's first line", bare.median, None, "s"),
        Limit("launch to the first task, median", first.median, 0.6, "s"),
        Limit("launch to the first task, fastest", first.low, None, "s"),
        Limit("launch to the first task, slowest", first.high, None, "s"),
    ]


def main() -> int:
    """Print the table; 1 when a limit is not kept."""
    parser = argparse.ArgumentParser(prog="start", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--repeats", type=int, default=REPEATS)
    parser.add_argument("--json", type=Path, help="also write every figure here")
    args = parser.parse_args()
    found = figures(args.repeats)
    return concluded(found, circumstances(), args.json)


if __name__ == "__main__":
    sys.exit(main())
