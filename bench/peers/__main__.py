"""The no-op work side by side with other systems, in one run, as ratios.

    python -m bench.peers [--quick] [--repeats 2] [--tasks 200 1000] [--concurrency 16]
                          [--only NAME …] [--json FILE]

Each peer is installed, at a pinned version, into a virtual environment of its own below the cache
(PROCTOR_BENCH_CACHE, else `.bench` in the checkout), driven through its public API, and compared
with the mode of ours that does the same work: `model` (one call of an in-process model, graded in
the driver), `reuse` (graded in the task's environment) or `none` (graded in the driver).
A peer that cannot be installed or run here is named with the reason; the others are measured.
"""

import argparse
import json
import os
import sys
from pathlib import Path

from bench.measured import (
    CaseFailed,
    Ended,
    Tree,
    look_at,
    run,
    scratch,
    strace,
    traced_syncs,
)
from bench.noop import count_syncs, once, say
from bench.noop_figures import Case
from bench.peers import report
from bench.peers.comparison import Comparison, Side
from bench.peers.installed import PEERS, NotInstalled, Peer, interpreter, size_of
from bench.start import cpu_s

SYNC_TASKS = (20, 60)
OURS = "proctor"


def drive(
    peer: Peer, python: Path, tasks: int, concurrency: int, *, traced: bool = False
) -> tuple[Ended, Tree, str]:
    """One run of a peer in an empty folder, which is also its home."""
    with scratch() as folder:
        home = folder / "home"
        home.mkdir()
        argv = [str(python), "-m", peer.module, str(tasks), str(concurrency), "{report}"]
        before = (strace() or ()) if traced else ()
        env = {"HOME": str(home), "XDG_CACHE_HOME": str(home), **peer.env}
        ended = run([*before, *argv], folder, env)
        return ended, look_at(folder / "results"), (folder / "err").read_text("utf-8", "replace")


def syncs_of(peer: Peer, python: Path) -> float | None:
    """Syncs a task, counted by strace; None where it does not run."""
    if strace() is None:
        return None
    few, many = (traced_syncs(drive(peer, python, n, 16, traced=True)[2]) for n in SYNC_TASKS)
    return (many - few) / (SYNC_TASKS[1] - SYNC_TASKS[0])


def ready(names: list[str], found: Comparison) -> dict[str, Path]:
    """The interpreters of the peers that work here; the first small run warms their caches."""
    pythons: dict[str, Path] = {}
    for peer in PEERS:
        if names and peer.name not in names:
            continue
        say(f"{peer.title}: installing, or found")
        try:
            python = interpreter(peer)
            drive(peer, python, 4, 4)
        except (NotInstalled, CaseFailed) as error:
            found.missing.append(f"{peer.title}: {error}")
            say(found.missing[-1])
            continue
        pythons[peer.name] = python
        found.theirs[peer.title] = (peer, Side(peer.title))
        found.ours.setdefault(peer.compared_with, Side(f"{OURS}, {peer.compared_with}"))
    return pythons


def measure(args: argparse.Namespace) -> Comparison:
    """Ours and theirs in turn, so that a busy moment meets both."""
    found = Comparison(concurrency=args.concurrency)
    pythons = ready(args.only, found)
    for number in range(1, args.repeats + 1):
        for tasks in args.tasks:
            for mode, side in found.ours.items():
                sample, _ = once(Case(mode, tasks, args.concurrency))
                side.runs[tasks].append((sample.ended, sample.left))
            for peer, side in found.theirs.values():
                ended, tree, _ = drive(peer, pythons[peer.name], tasks, args.concurrency)
                side.runs[tasks].append((ended, tree))
            say(f"repeat {number}/{args.repeats}: {tasks} tasks")
    if not args.quick:
        _once_each(found, pythons)
    found.circumstances["load_average_at_end"] = [round(v, 2) for v in os.getloadavg()]
    return found


def _once_each(found: Comparison, pythons: dict[str, Path]) -> None:
    """What does not vary: syncs, size of the installation; and the CPU of an import."""
    for mode, side in found.ours.items():
        side.syncs = count_syncs(mode)[0]
        side.import_s = cpu_s([sys.executable, "-c", "import proctor"], repeats=5)
    for peer, side in found.theirs.values():
        python = pythons[peer.name]
        side.syncs = syncs_of(peer, python)
        side.size = size_of(python)
        side.import_s = cpu_s([str(python), "-c", f"import {peer.package}"], repeats=3)
        say(f"{peer.title}: syncs, size, import")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="peers", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="50 and 200 tasks, once each")
    parser.add_argument("--repeats", type=int)
    parser.add_argument("--tasks", type=int, nargs="+")
    parser.add_argument("--concurrency", type=int, default=16)
    parser.add_argument("--only", nargs="+", default=[], choices=[peer.name for peer in PEERS])
    parser.add_argument("--json", type=Path, help="also write every figure here")
    args = parser.parse_args()
    args.repeats = args.repeats or (1 if args.quick else 2)
    args.tasks = args.tasks or ((50, 200) if args.quick else (200, 1_000))
    return args


def main() -> int:
    """Print the tables; 1 when the promise against the best peer is not kept."""
    args = arguments()
    found = measure(args)
    sys.stdout.write(report.text(found) + "\n")
    if args.json is not None:
        args.json.write_text(json.dumps(report.to_json(found), indent=2) + "\n", "utf-8")
    return 0 if all(limit.kept for limit in report.promises(found)) else 1


if __name__ == "__main__":
    sys.exit(main())
