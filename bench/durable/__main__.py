"""Durable steps beside other systems, and the same kill: scripts/bench durable

    python -m bench.durable [--quick] [--only NAME …] [--repeats 3] [--sqlite] [--json FILE]

    steps     one run of 300 steps, and 64 runs of 20: steps a second, CPU a step, stored bytes ÷
              the bytes of the results (400 a step)
    kill      SIGKILL after the effect and before its result is durable, then a start as the
              system's guide says; the effects are counted by another process

1 when an effect class of ours lets more than one effect happen unasked (`pure` promises none).
"""

import argparse
import contextlib
import json
import statistics
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from bench.durable.kills import Killed, kill
from bench.durable.systems import POSTGRESQL, SQLITE, SYSTEMS, Costs, System, steps
from bench.figures import table
from bench.measured import CaseFailed, circumstances
from bench.noop import say
from bench.peers.installed import NotInstalled
from proctor.testing.postgresql import NoPostgresql, temporary_postgresql

SHAPES = ((1, 300), (64, 20))
QUICK = ((1, 30), (8, 5))


@dataclass(frozen=True, slots=True)
class Case:
    """One system on one database in one variant."""

    system: System
    database: str
    variant: str

    @property
    def title(self) -> str:
        return f"{self.system.title}, {self.variant}, {self.database}"


def cases(systems: list[System], urls: dict[str, str | None], kind: str) -> Iterator[Case]:
    """Every case of `kind` (steps, effects) on the databases that are there."""
    for database in urls:
        for system in systems:
            if database in system.databases:
                for variant in getattr(system, kind):
                    yield Case(system, database, variant)


def ready(only: list[str]) -> list[System]:
    """The systems that run here, ours always."""
    found = []
    for system in SYSTEMS:
        if system.peer is not None and only and system.peer.name not in only:
            continue
        try:
            system.python()
        except NotInstalled as error:
            say(f"{system.title}: {error}")
        else:
            found.append(system)
    return found


def median(found: list[Costs]) -> Costs:
    """Field by field."""
    fields = ("per_s", "cpu_ms", "server_ms", "stored")
    return Costs(*(statistics.median(getattr(one, name) for one in found) for name in fields))


Rates = dict[tuple[Case, tuple[int, int]], list[Costs]]


def rates(systems: list[System], urls: dict[str, str | None], shapes: Any, repeats: int) -> Rates:
    """All cases take turns, `repeats` times."""
    found: Rates = {}
    for number in range(repeats):
        for shape in shapes:
            for case in cases(systems, urls, "steps"):
                try:
                    costs = steps(case.system, urls[case.database], case.variant, shape)
                except CaseFailed as error:
                    say(f"{case.title}: {error}")
                    continue
                found.setdefault((case, shape), []).append(costs)
        say(f"steps: repeat {number + 1}/{repeats}")
    return found


def rates_table(found: Rates) -> str:
    """One line a case; then theirs ÷ ours (our class that promises as much: `idempotent`)."""
    middle = {key: median(costs) for key, costs in found.items()}
    rows = []
    for (case, shape), costs in sorted(middle.items(), key=lambda item: item[0][1]):
        ours = middle.get((Case(SYSTEMS[0], case.database, "idempotent"), shape))
        ratio = "" if ours is None else f"{costs.cpu_ms / ours.cpu_ms:.1f}"
        faster = "" if ours is None else f"{ours.per_s / costs.per_s:.1f}"
        rows.append([
            f"{case.title}, {shape[0]} × {shape[1]}", f"{costs.per_s:.0f}", f"{costs.cpu_ms:.2f}",
            f"{costs.server_ms:.2f}", f"{costs.stored:.1f}", faster, ratio,
        ])  # fmt: skip
    head = [
        "system, variant, database, runs × steps", "steps/s", "CPU ms", "server ms", "stored ÷",
        "ours faster ×", "CPU ÷ ours",
    ]  # fmt: skip
    return table(head, rows)


def kills(systems: list[System], urls: dict[str, str | None]) -> dict[Case, Killed]:
    """Every case once."""
    found = {}
    for case in cases(systems, urls, "effects"):
        try:
            found[case] = kill(case.system, urls[case.database], case.variant)
        except CaseFailed as error:
            say(f"{case.title}: {error}")
    return found


def kills_table(found: dict[Case, Killed]) -> str:
    """One line a case."""
    rows = [[case.title, str(k.effects), k.ended] for case, k in found.items()]
    return table(["killed after the effect", "effects", "then"], rows)


def kept(found: dict[Case, Killed]) -> bool:
    """One effect for each class that promises it; `non_repeatable` stopped and told."""
    ours = {case: killed for case, killed in found.items() if case.system.peer is None}
    return bool(ours) and all(
        (killed.effects == 1 or case.variant == "pure")
        and killed.told == (case.variant == "non_repeatable")
        for case, killed in ours.items()
    )


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="durable", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="few steps, once each")
    parser.add_argument("--repeats", type=int)
    names = [system.peer.name for system in SYSTEMS if system.peer]
    parser.add_argument("--only", nargs="+", default=[], choices=["proctor", *names])
    parser.add_argument("--sqlite", action="store_true", help="without PostgreSQL")
    parser.add_argument("--kills", action="store_true", help="only the kills")
    parser.add_argument("--json", type=Path, help="also write every figure here")
    args = parser.parse_args()
    args.repeats = args.repeats or (1 if args.quick else 3)
    return args


def document(rated: Rates, killed: dict[Case, Killed]) -> dict[str, Any]:
    """Every figure."""
    return {
        "circumstances": circumstances(),
        "settings": {system.title: system.settings for system in SYSTEMS},
        "steps": [
            {"case": case.title, "runs": shape[0], "steps": shape[1],
             "samples": [asdict(one) for one in costs]}
            for (case, shape), costs in rated.items()
        ],
        "kills": [{"case": case.title, **asdict(one)} for case, one in killed.items()],
    }  # fmt: skip


def main() -> int:
    """Print the tables; 1 when a promise about effects is not kept."""
    args = arguments()
    systems = ready(args.only)
    with contextlib.ExitStack() as stack:
        urls: dict[str, str | None] = {SQLITE: None}
        if not args.sqlite:
            try:
                urls[POSTGRESQL] = stack.enter_context(temporary_postgresql(durable=True))
            except NoPostgresql as error:
                say(f"PostgreSQL: {error}")
        shapes = QUICK if args.quick else SHAPES
        rated = {} if args.kills else rates(systems, urls, shapes, args.repeats)
        killed = kills(systems, urls)
    for system in systems:
        sys.stdout.write(f"{system.title}: {system.settings}\n")
    if rated:
        sys.stdout.write(f"\n{rates_table(rated)}\n")
    sys.stdout.write(f"\n{kills_table(killed)}\n")
    if args.json is not None:
        args.json.write_text(json.dumps(document(rated, killed), indent=2) + "\n", "utf-8")
    return 0 if kept(killed) else 1


if __name__ == "__main__":
    sys.exit(main())
