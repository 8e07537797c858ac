"""The journal's figures, beside the disk's own: python -m bench.journal [--url URL] [--json FILE]

    one run      appends with a barrier, one after the other; beside it bare write + fdatasync
    64 runs      actions: an intent (barrier) and its result (lazy), each with action and attempt;
                 CPU of our process (loop and journal's threads), and of the PostgreSQL server
    bytes        the closed file ÷ the bytes of the events' bodies (400 each)
    opening      a run of 10,000 events: whole log, and the last snapshot with what followed;
                 CPU of reading and decoding the log

SQLite on the disk of the benchmarks' cache; with --url, PostgreSQL (whose disk is not measured);
with --postgresql, a server of its own. A rate is the median of rounds in which all take turns.
"""

import argparse
import asyncio
import contextlib
import json
import os
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from bench.figures import Limit, concluded
from bench.journal_server import server_cpu_s, server_pid
from bench.measured import circumstances, scratch
from proctor.store.journal.contract import (
    Appended,
    AppendResult,
    Durability,
    Event,
    NewRun,
    Row,
    Snapshot,
)
from proctor.store.journal.opening import open_journal
from proctor.store.journal.stored import StoredJournal
from proctor.testing.postgresql import temporary_postgresql

NOW = datetime.now(UTC)
BODY = {"text": "x" * 389}  # 400 bytes as JSON
EVENTS = 10_000
RUNS, ACTIONS = 64, 30
Opener = Callable[[], StoredJournal]


def bare_syncs(folder: Path, seconds: float) -> float:
    """Appends of 512 bytes with fdatasync, per second."""
    path = folder / "bare"
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    count, end = 0, time.perf_counter() + seconds
    started = time.perf_counter()
    while time.perf_counter() < end:
        os.write(fd, b"x" * 512)
        os.fdatasync(fd)
        count += 1
    took = time.perf_counter() - started
    os.close(fd)
    return count / took


def event(name: str) -> Event:
    return Event(name, "step.done", 1, BODY, NOW)


def done(result: AppendResult) -> int:
    """The version; the benchmark expects no conflict."""
    if not isinstance(result, Appended):
        raise SystemExit(f"not appended: {result}")
    return result.version


async def claimed(journal: StoredJournal, run_id: str) -> int:
    """A new run's fence."""
    done(await journal.create_run(NewRun(run_id, NOW)))
    lease = await journal.claim(run_id, "bench", 3600)
    if lease is None:
        raise SystemExit(f"{run_id} is held by another")
    return lease.fence


async def steps(journal: StoredJournal, run_id: str, seconds: float) -> tuple[float, float]:
    """Durable steps of one run per second, and CPU seconds a step."""
    fence, version = await claimed(journal, run_id), 0
    started, cpu = time.perf_counter(), time.process_time()
    while time.perf_counter() - started < seconds:
        version = done(await journal.append(run_id, version, fence, [event(f"{run_id}-{version}")]))
    cpu = time.process_time() - cpu
    return version / (time.perf_counter() - started), cpu / version


async def actions(journal: StoredJournal, run_id: str, count: int) -> None:
    """`count` actions of one run: an intent with a barrier and a lazy result each."""
    fence, version = await claimed(journal, run_id), 0
    for number in range(count):
        name = f"a{number}"
        key = {"action_id": name}
        attempt = {"action_id": name, "number": 1}
        intent = [
            Row("action", key, {"op_key": f"{run_id}/{name}", "tool": "shell", "effect":
                "non_repeatable", "arguments_digest": "sha256:0", "state": "running"}),
            Row("attempt", attempt, {"fence": fence, "state": "running", "started_seq": version + 1,
                "started_at": NOW}),
        ]  # fmt: skip
        result = [
            Row("action", key, {"state": "done"}),
            Row("attempt", attempt, {"state": "ok", "ended_seq": version + 2, "ended_at": NOW}),
        ]
        version = done(await journal.append(run_id, version, fence, [event(f"i{number}")], intent))
        version = done(
            await journal.append(
                run_id, version, fence, [event(f"r{number}")], result, Durability.LAZY
            )
        )


async def many(journal: StoredJournal, prefix: str, runs: int, count: int) -> tuple[float, float]:
    """Actions per second of `runs` runs at once, and CPU seconds an action."""
    started, cpu = time.perf_counter(), time.process_time()
    await asyncio.gather(*(actions(journal, f"{prefix}{n}", count) for n in range(runs)))
    took, cpu = time.perf_counter() - started, time.process_time() - cpu
    return runs * count / took, cpu / (runs * count)


async def fill(journal: StoredJournal, run_id: str) -> int:
    """A run of 10,000 events with a snapshot of 400 kB 100 events before its end; its payload."""
    fence, version = await claimed(journal, run_id), 0
    while version < EVENTS:
        batch = [event(f"{run_id}-{version + n}") for n in range(100)]
        version = done(
            await journal.append(run_id, version, fence, batch, durability=Durability.LAZY)
        )
        if version == EVENTS - 100:
            view = {"actions": [{"id": f"a{n}", "state": "done", **BODY} for n in range(1000)]}
            await journal.save_snapshot(run_id, fence, Snapshot(version, "bench", view))
    return EVENTS * len(json.dumps(BODY, separators=(",", ":")))


async def opened_whole(opener: Opener, run_id: str) -> tuple[float, float]:
    """Seconds to open the journal and read the run's log, and CPU seconds of the reading."""
    started = time.perf_counter()
    async with opener() as journal:
        cpu = time.process_time()
        found = await journal.read_events(run_id)
        took, cpu = time.perf_counter() - started, time.process_time() - cpu
    if len(found) != EVENTS:
        raise SystemExit(f"{len(found)} events instead of {EVENTS}")
    return took, cpu


async def opened_at_snapshot(opener: Opener, run_id: str) -> float:
    """Seconds to open the journal and read the run's snapshot and what followed."""
    started = time.perf_counter()
    async with opener() as journal:
        snapshot = await journal.load_snapshot(run_id)
        tail = await journal.read_events(run_id, snapshot.seq if snapshot else 0)
        took = time.perf_counter() - started
    if len(tail) != 100:
        raise SystemExit(f"{len(tail)} events instead of 100")
    return took


def stored_ratio(folder: Path) -> float:
    """Bytes of a closed file of small steps ÷ their payload."""
    path = folder / "bytes.sqlite"

    async def write() -> int:
        async with open_journal(path) as journal:
            return await fill_steps(journal)

    payload = asyncio.run(write())
    return path.stat().st_size / payload


async def fill_steps(journal: StoredJournal) -> int:
    """1,600 steps of 16 runs, one event each; their payload."""

    async def run(name: str) -> None:
        fence, version = await claimed(journal, name), 0
        while version < 100:
            version = done(
                await journal.append(
                    name, version, fence, [event(f"{name}-{version}")], durability=Durability.LAZY
                )
            )

    await asyncio.gather(*(run(f"run-{n}") for n in range(16)))
    return 1600 * len(json.dumps(BODY, separators=(",", ":")))


@dataclass(slots=True)
class Rounds:
    """What each round measured: rates a second, CPU seconds."""

    bare: list[float] = field(default_factory=list)
    one: list[tuple[float, float]] = field(default_factory=list)
    several: list[tuple[float, float]] = field(default_factory=list)
    server_s: list[float] = field(default_factory=list)


async def rates(opener: Opener, folder: Path | None, server: int | None, rounds: int) -> Rounds:
    """One run and many runs in turn, beside the disk under `folder`. `server`: whose CPU counts."""
    stamp, found = f"{time.time_ns():x}", Rounds()
    async with opener() as journal:
        for number in range(rounds):
            if folder is not None:
                found.bare.append(await asyncio.to_thread(bare_syncs, folder, 0.5))
            found.one.append(await steps(journal, f"{stamp}-one-{number}", 0.7))
            before = server_cpu_s(server) if server else 0.0
            found.several.append(await many(journal, f"{stamp}-{number}-", RUNS, ACTIONS))
            if server:
                found.server_s.append((server_cpu_s(server) - before) / (RUNS * ACTIONS))
    return found


def rate_limits(found: Rounds) -> list[Limit]:
    """The medians beside what is promised."""
    disk = statistics.median(found.bare) if found.bare else None
    floor = None if disk is None else min(0.6 * disk, 1000.0)
    one, one_s = (statistics.median(values) for values in zip(*found.one, strict=True))
    several, several_s = (statistics.median(values) for values in zip(*found.several, strict=True))
    best = max(rate for rate, _ in found.several)
    limits = [] if disk is None else [Limit("bare write + fdatasync", disk, None, "1/s")]
    limits += [
        Limit("durable steps, one run", one, floor, "1/s", at_least=True),
        Limit("CPU a step, one run", one_s * 1000, None, "ms"),
        Limit("durable actions, 64 runs", several, 3000, "1/s", at_least=True),
        Limit("durable actions, 64 runs, best round", best, None, "1/s"),
        Limit("CPU an action, 64 runs", several_s * 1000, 0.25, "ms"),
    ]
    if found.server_s:
        server_s = statistics.median(found.server_s)
        limits.append(Limit("CPU of the server an action", server_s * 1000, None, "ms"))
    return limits


def openings(opener: Opener) -> list[Limit]:
    """The time to open a long run."""
    name = f"{time.time_ns():x}-long"

    async def write() -> None:
        async with opener() as journal:
            await fill(journal, name)

    asyncio.run(write())
    opened = [asyncio.run(opened_whole(opener, name)) for _ in range(3)]
    whole, cpu_s = (statistics.median(values) for values in zip(*opened, strict=True))
    short = [asyncio.run(opened_at_snapshot(opener, name)) for _ in range(3)]
    return [
        Limit("open 10,000 events", whole * 1000, 500, "ms"),
        Limit("CPU of reading 10,000 events", cpu_s * 1000, 100, "ms"),
        Limit("open with a snapshot", statistics.median(short) * 1000, 50, "ms"),
    ]


def main() -> int:
    """Print the table; 1 when a limit is not kept."""
    parser = argparse.ArgumentParser(prog="journal", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--url", help="a PostgreSQL database instead of SQLite")
    parser.add_argument("--postgresql", action="store_true", help="a PostgreSQL of its own")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path, help="also write every figure here")
    args = parser.parse_args()
    with scratch() as folder, contextlib.ExitStack() as stack:
        url = stack.enter_context(temporary_postgresql(durable=True)) if args.postgresql else None
        where = args.url or url or folder / "journal.sqlite"
        in_file = isinstance(where, Path)

        def opener() -> StoredJournal:
            return open_journal(where)

        server = server_pid(url) if url else None
        rounds = asyncio.run(rates(opener, folder if in_file else None, server, args.rounds))
        found = rate_limits(rounds)
        if in_file:
            found.append(Limit("stored bytes ÷ payload", stored_ratio(folder), 3, "×"))
        found += openings(opener)
    return concluded(found, circumstances(), args.json)


if __name__ == "__main__":
    sys.exit(main())
