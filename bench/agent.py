"""The agent runtime's figures, whole: python -m bench.agent [--url URL | --postgresql]

    64 runs      actions through `Agents`, coordinator and all: one call a turn, four a turn, and
                 one with a policy that is awaited as a model is (its request is durable first);
                 and one call a turn of a tool that waits for nothing and says so (`Tool.at_once`)
    one run      300 of the same actions one after the other, and of the tool that waits for
                 nothing; beside it bare write + fdatasync
    bytes        the closed file ÷ the bytes of the arguments and results (400 each an action)
    opening      a run of 10,000 events: from its log alone, and from its last snapshot (CPU)

The tool is idempotent and does nothing, so every action has a barrier before it; the policy is a
script. SQLite on the disk of the benchmarks' cache; with --url or --postgresql a server, whose CPU
is not in the figures. Rates are medians of rounds in which all take turns.
"""

import argparse
import asyncio
import contextlib
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from bench.figures import Limit, concluded
from bench.journal import bare_syncs
from bench.measured import circumstances, scratch
from proctor.agent.api import Agents
from proctor.agent.context import Message
from proctor.agent.core.locks import Access, Mode
from proctor.agent.core.view import View
from proctor.agent.driving.loading import load_view
from proctor.agent.driving.snapshots import keep_snapshot
from proctor.agent.policy import Policy, Proposal, TurnContext
from proctor.agent.setup import Setup, Timing
from proctor.agent.tools import Arguments, Effect, Tool, Toolbox, ToolContext, ToolResult
from proctor.models.contract import ToolCall
from proctor.store.journal.opening import open_journal
from proctor.store.journal.stored import StoredJournal
from proctor.testing.postgresql import temporary_postgresql

TEXT = "x" * 400
EVENTS = 10_000
ONE_RUN = 300
Opener = Callable[[], StoredJournal]


class Touch(Tool):
    """Changes one place and says so, without leaving the process."""

    name = "touch"
    effect = Effect.IDEMPOTENT

    def resources(self, arguments: Arguments) -> Sequence[Access]:
        return (Access(Mode.WRITE, f"place/{arguments['place']}"),)

    async def execute(self, op_key: str, arguments: Arguments, context: ToolContext) -> ToolResult:
        return ToolResult(TEXT)


class TouchNow(Touch):
    """The same, executed without a task."""

    def at_once(self, op_key: str, arguments: Arguments, context: ToolContext) -> ToolResult | None:
        return ToolResult(TEXT)


class Script(Policy):
    """`turns` turns of `calls` calls, then the end."""

    def __init__(self, turns: int, calls: int) -> None:
        self._turns = turns
        self._calls = calls

    def _turn(self, context: TurnContext) -> Proposal:
        if context.turn > self._turns:
            return Proposal("done")
        return Proposal(
            "",
            tuple(
                ToolCall(f"c{place}", "touch", {"place": place, "text": TEXT})
                for place in range(self._calls)
            ),
        )

    async def propose(self, messages: Sequence[Message], context: TurnContext) -> Proposal:
        return self._turn(context)


class AtOnce(Script):
    """The same, known without asking anybody."""

    def at_once(self, messages: Sequence[Message], context: TurnContext) -> Proposal | None:
        return self._turn(context)


def agents_of(
    journal: StoredJournal, turns: int, calls: int, kind: type[Script], tool: type[Tool] = Touch
) -> Agents:
    timing = Timing(lease_ttl_s=600.0)
    return Agents(Setup(journal, lambda task: kind(turns, calls), Toolbox([tool()]), timing=timing))


async def driven(agents: Agents, run_id: str) -> View:
    """Drive a run to its end; the benchmark expects no other."""
    await agents.submit("touch", run_id=run_id)
    view = await agents.drive(run_id)
    if view.state != "done":
        raise SystemExit(f"{run_id} is {view.state}: {view.aim_reason}")
    return view


async def measured(
    journal: StoredJournal,
    prefix: str,
    runs: int,
    turns: int,
    calls: int = 1,
    kind: type[Script] = AtOnce,
    tool: type[Tool] = Touch,
) -> tuple[float, float, float]:
    """Actions per second of `runs` runs at once, CPU ms and events an action."""
    agents = agents_of(journal, turns, calls, kind, tool)
    started, cpu = time.perf_counter(), time.process_time()
    views = await asyncio.gather(*(driven(agents, f"{prefix}{n}") for n in range(runs)))
    took, cpu = time.perf_counter() - started, time.process_time() - cpu
    count = sum(len(view.actions) for view in views)
    events = sum(view.version for view in views)
    return count / took, cpu / count * 1000, events / count


async def rates(opener: Opener, folder: Path | None, rounds: int, turns: int) -> list[Limit]:
    """One run and many runs, beside the disk."""
    stamp = f"{time.time_ns():x}"
    bare: list[float] = []
    one, one_now, several, asked, wide, now = [], [], [], [], [], []
    async with opener() as journal:
        await measured(journal, f"{stamp}-warm-", 8, 5)
        for number in range(rounds):
            name = f"{stamp}-{number}"
            if folder is not None:
                bare.append(await asyncio.to_thread(bare_syncs, folder, 0.5))
            one.append((await measured(journal, f"{name}-one-", 1, ONE_RUN))[0])
            alone = await measured(journal, f"{name}-onen-", 1, ONE_RUN, tool=TouchNow)
            one_now.append(alone[0])
            several.append(await measured(journal, f"{name}-many-", 64, turns))
            asked.append(await measured(journal, f"{name}-asked-", 64, turns, kind=Script))
            now.append(await measured(journal, f"{name}-now-", 64, turns, tool=TouchNow))
            wide.append(await measured(journal, f"{name}-wide-", 64, turns // 4, 4))
    disk = statistics.median(bare) if bare else None
    floor = None if disk is None else min(0.6 * disk, 1000.0)
    found = [] if disk is None else [Limit("bare write + fdatasync", disk, None, "1/s")]
    for name, rates_seen in (("", one), (", tool at once", one_now)):
        rate = statistics.median(rates_seen)
        found.append(Limit(f"actions, one run{name}", rate, floor, "1/s", at_least=True))
    cases = {
        "one call a turn": several, "four calls a turn": wide, "policy is awaited": asked,
        "tool at once": now,
    }  # fmt: skip
    for name, figures in cases.items():
        rate, cpu, events = (statistics.median(values) for values in zip(*figures, strict=True))
        found += [
            Limit(f"actions, 64 runs, {name}", rate, 3000, "1/s", at_least=True),
            Limit(f"CPU an action, {name}", cpu, 0.25, "ms"),
            Limit(f"events an action, {name}", events, None, ""),
        ]
    return found


def stored_ratio(folder: Path) -> float:
    """Bytes of the closed file of 16 runs of 100 actions ÷ their arguments and results."""
    path = folder / "bytes.sqlite"

    async def write() -> None:
        async with open_journal(path) as journal:
            await measured(journal, "run-", 16, 100)

    asyncio.run(write())
    return path.stat().st_size / (16 * 100 * 2 * len(TEXT))


async def fill(journal: StoredJournal, run_id: str) -> None:
    """A run of at least 10,000 events, with the snapshots that its driver kept."""
    await driven(agents_of(journal, EVENTS // 4, 1, AtOnce), run_id)


async def opened(opener: Opener, run_id: str, *, whole: bool) -> float:
    """CPU ms to open the journal and the run; `whole`: without its snapshots."""
    cpu = time.process_time()
    async with opener() as journal:
        view = await load_view(journal, run_id, View() if whole else None)
        cpu = time.process_time() - cpu
    if view.version < EVENTS * 0.9:
        raise SystemExit(f"{view.version} events instead of {EVENTS}")
    return cpu * 1000 * EVENTS / view.version


async def snapshot_at(opener: Opener, run_id: str) -> None:
    """Keep a snapshot at the end of the run, as its next owner would when it leaves."""
    async with opener() as journal:
        view = await load_view(journal, run_id, View())
        row = await journal.run_row(run_id)
        if row is None or not await keep_snapshot(journal, view, row.fence):
            raise SystemExit("the snapshot was not taken")


def openings(opener: Opener) -> list[Limit]:
    """What it costs to open a long run."""
    name = f"{time.time_ns():x}-long"

    async def write() -> None:
        async with opener() as journal:
            await fill(journal, name)

    asyncio.run(write())
    whole = [asyncio.run(opened(opener, name, whole=True)) for _ in range(3)]
    asyncio.run(snapshot_at(opener, name))
    short = [asyncio.run(opened(opener, name, whole=False)) for _ in range(3)]
    return [
        Limit("open 10,000 events, CPU", statistics.median(whole), 500, "ms"),
        Limit("open with a snapshot, CPU", statistics.median(short), 50, "ms"),
    ]


def main() -> int:
    """Print the table; 1 when a limit is not kept."""
    parser = argparse.ArgumentParser(prog="agent", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--url", help="a PostgreSQL database instead of SQLite")
    parser.add_argument("--postgresql", action="store_true", help="a PostgreSQL of its own")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--turns", type=int, default=40, help="turns of each of the 64 runs")
    parser.add_argument("--no-opening", action="store_true", help="leave out the long run")
    parser.add_argument("--json", type=Path, help="also write every figure here")
    args = parser.parse_args()
    with scratch() as folder, contextlib.ExitStack() as stack:
        url = stack.enter_context(temporary_postgresql(durable=True)) if args.postgresql else None
        where = args.url or url or folder / "journal.sqlite"
        in_file = isinstance(where, Path)

        def opener() -> StoredJournal:
            return open_journal(where)

        found = asyncio.run(rates(opener, folder if in_file else None, args.rounds, args.turns))
        if in_file:
            found.append(Limit("stored bytes ÷ payload", stored_ratio(folder), 3, "×"))
        if not args.no_opening:
            found += openings(opener)
    return concluded(found, circumstances(), args.json)


if __name__ == "__main__":
    sys.exit(main())
