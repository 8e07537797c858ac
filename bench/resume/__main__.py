"""Resume of a run of which one task is left: CPU, memory and bytes, beside other systems.

    python -m bench.resume [--tasks 5000] [--only NAME …] [--repeats 3]

Each system makes its own unfinished run first (not measured), then continues it in a process of
its own (measured whole, start and imports included). AgentCompass takes minutes to make thousands
of tasks: it is compared at 500 with ours at 500.
"""

import argparse
import shutil
import statistics
import sys
from typing import NamedTuple

from bench.measured import CaseFailed, Ended, look_at, run, scratch
from bench.noop import say
from bench.peers.installed import PEERS, NotInstalled, interpreter

LIMIT_CPU_S = 1.0
MODULES = {
    "inspect-ai": "bench.resume.inspect_case",
    "agentcompass": "bench.resume.agentcompass_case",
}
MOST_TASKS = {"agentcompass": 500}


class Resumed(NamedTuple):
    """The medians of one system: CPU seconds, peak MiB, bytes written, bytes on disk after."""

    title: str
    tasks: int
    cpu_s: float
    peak_mib: float
    written: float
    size: float


def measure(title: str, python: str, module: str, tasks: int, repeats: int,
            env: dict[str, str] | None = None) -> Resumed:  # fmt: skip
    """Prepare once, resume copies of it."""
    with scratch() as folder:
        argv = [python, "-m", module]
        home = folder / "home"
        home.mkdir()
        env = {"HOME": str(home), "XDG_CACHE_HOME": str(home), **(env or {})}
        run([*argv, "prepare", str(tasks), "{report}"], folder, env)
        (folder / "report.json").unlink()
        ends: list[Ended] = []
        size = 0.0
        for number in range(repeats):
            # The same path each time: a run directory may know its own place.
            kept = folder.with_name(f"{folder.name}-kept")
            if number == 0:
                shutil.copytree(folder, kept, symlinks=True)
            else:
                shutil.rmtree(folder)
                shutil.copytree(kept, folder, symlinks=True)
            ends.append(run([*argv, "resume", str(tasks), "{report}"], folder, env))
            size = float(look_at(folder / "results").size_bytes)
        shutil.rmtree(kept)
        return Resumed(
            title,
            tasks,
            statistics.median(e.cpu_s for e in ends),
            statistics.median(e.own["rss_kib"] / 1024 for e in ends),
            statistics.median(e.own["written_bytes"] for e in ends),
            size,
        )


def pairs(args: argparse.Namespace) -> list[tuple[Resumed, Resumed | None]]:
    """(ours, theirs) for each peer that runs here; ours alone when none does."""
    found: list[tuple[Resumed, Resumed | None]] = []
    for peer in PEERS:
        module = MODULES.get(peer.name)
        if module is None or (args.only and peer.name not in args.only):
            continue
        tasks = min(args.tasks, MOST_TASKS.get(peer.name, args.tasks))
        try:
            python = str(interpreter(peer))
            theirs = measure(peer.title, python, module, tasks, args.repeats, peer.env)
        except (NotInstalled, CaseFailed) as error:
            say(f"{peer.title}: {error}")
            continue
        ours = measure("proctor", sys.executable, "bench.resume.own_case", tasks, args.repeats)
        found.append((ours, theirs))
    if not found:
        ours = measure("proctor", sys.executable, "bench.resume.own_case", args.tasks, args.repeats)
        found.append((ours, None))
    return found


def line(row: Resumed) -> str:
    """One line of the table."""
    return (
        f"{row.title:22} {row.tasks:6}  CPU {row.cpu_s:7.2f} s  peak {row.peak_mib:6.0f} MiB  "
        f"written {row.written / 1e6:8.2f} MB  on disk {row.size / 1e6:8.2f} MB\n"
    )


def ratios(ours: Resumed, theirs: Resumed) -> str:
    """Theirs over ours: more than 1 means that ours needs less."""
    pairs = ((n, getattr(theirs, n) / getattr(ours, n)) for n in ("cpu_s", "peak_mib", "written"))
    return "  theirs ÷ ours: " + ", ".join(f"{name} {ratio:.1f}" for name, ratio in pairs) + "\n"


def main() -> int:
    """Print the table; 1 when ours needs more than its limit."""
    parser = argparse.ArgumentParser(prog="resume", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--tasks", type=int, default=5000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--only", nargs="+", default=[], choices=sorted(MODULES))
    args = parser.parse_args()
    kept = True
    for ours, theirs in pairs(args):
        sys.stdout.write(line(ours))
        if theirs is not None:
            sys.stdout.write(line(theirs))
            sys.stdout.write(ratios(ours, theirs))
        if ours.tasks <= 5000:
            kept &= ours.cpu_s <= LIMIT_CPU_S
    verdict = "kept" if kept else "NOT KEPT"
    sys.stdout.write(
        f"resume of up to 5,000 tasks in at most {LIMIT_CPU_S:g} s of CPU: {verdict}\n"
    )
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main())
