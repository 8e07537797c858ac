"""A barrier reaches the disk before it answers, and nothing else waits for the disk.

Seen from outside: the system calls of a writing process between its marks.
"""

import asyncio
import re
import shutil
import subprocess
import sys

import pytest

from proctor.store.journal.sqlite import open_sqlite
from proctor.testing.conformance.journal_base import contents, event, put

WRITER = """
import asyncio, os, sys
from proctor.store.journal.contract import Durability, Snapshot
from proctor.store.journal.sqlite import open_sqlite
from proctor.testing.conformance.journal_base import event, message, owned, put

def mark(name):
    os.write(1, b"MARK " + name.encode())

async def main():
    journal = open_sqlite(sys.argv[1])
    lease = await owned(journal)
    mark("lazy")
    for version in range(20):
        await put(journal, lease, version, event(str(version)))
    await journal.save_snapshot("r", lease.fence, Snapshot(20, "1", {}))
    await journal.put_blob(b"x" * 1_000_000)
    mark("barrier")
    for version in range(20, 30):
        await put(journal, lease, version, event(str(version)), durability=Durability.BARRIER)
    mark("acknowledged")
    await journal.inbox_add(message("r", "m"))
    await journal.inbox_add(message("r", "m"))
    lease = await journal.renew(lease, 60)
    await journal.sync()
    mark("repeated")
    await put(journal, lease, 30, event("30"))
    await put(journal, lease, 30, event("30"), durability=Durability.BARRIER)
    mark("group")
    runs = [await owned(journal, f"r{n}") for n in range(16)]
    mark("together")
    await asyncio.gather(
        *(put(journal, run, 0, event("a"), durability=Durability.BARRIER) for run in runs)
    )
    mark("end")
    await journal.close()

asyncio.run(main())
"""


@pytest.fixture(scope="module")
def synced(need, tmp_path_factory):
    """Mark → how many times the log was synced until the next mark."""
    need(shutil.which("strace"), "strace is needed to see system calls")
    folder = tmp_path_factory.mktemp("barriers")
    trace = folder / "trace"
    command = [
        "strace", "-f", "-y", "-o", trace, "-e", "trace=fsync,fdatasync,write",
        sys.executable, "-c", WRITER, folder / "journal.sqlite",
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    need("ptrace" not in done.stderr.lower(), f"strace cannot trace here: {done.stderr[:200]}")
    assert done.returncode == 0, done.stderr
    counts, current = {}, "before"
    for line in trace.read_text("utf-8", "replace").splitlines():
        if found := re.search(r'write\(1<.*"MARK (\w+)"', line):
            current = found[1]
        elif re.search(r"f(data)?sync\(\d+<[^>]*-wal>", line):
            counts[current] = counts.get(current, 0) + 1
    assert counts["before"] >= 2
    return counts


def test_lazy_calls_wait_for_no_disk(synced):
    assert "lazy" not in synced


def test_each_barrier_reaches_the_disk(synced):
    assert synced["barrier"] == 10


def test_what_is_acknowledged_reaches_the_disk(synced):
    assert synced["acknowledged"] == 4  # the same message again included


def test_a_lazy_append_that_is_repeated_with_a_barrier_reaches_the_disk(synced):
    assert synced["repeated"] == 1


def test_barriers_of_many_runs_share_their_way_to_the_disk(synced):
    assert 1 <= synced["together"] <= 4


FAILING = """
import asyncio, sys
from proctor.kernel.errors import StorageError
from proctor.store.journal.contract import CommitUnknown, Durability
from proctor.store.journal.sqlite import open_sqlite
from proctor.testing.conformance.journal_base import contents, event, owned, put

async def main():
    async with open_sqlite(sys.argv[1]) as journal:
        lease = await owned(journal)
        version = 0
        while True:
            given = ("r", version, lease.fence, [event(str(version))])
            answer = await journal.append(*given, durability=Durability.BARRIER)
            if isinstance(answer, CommitUnknown):
                break
            version = answer.version
        try:
            await journal.append(*given)
        except StorageError as error:
            assert "open the journal again" in error.hint, error.hint
            assert len(await contents(journal)) == version
            sys.stdout.write(f"{version} {error}")

asyncio.run(main())
"""


def test_after_a_failed_sync_nothing_more_is_promised(need, tmp_path):
    need(shutil.which("strace"), "strace is needed to make a system call fail")
    path = tmp_path / "journal.sqlite"
    command = [
        "strace", "-f", "-o", tmp_path / "trace", "-e", "trace=fdatasync",
        "-e", "inject=fdatasync:error=EIO:when=14", sys.executable, "-c", FAILING, path,
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    need("ptrace" not in done.stderr.lower(), f"strace cannot trace here: {done.stderr[:200]}")
    assert done.returncode == 0, done.stderr
    version, _, said = done.stdout.partition(" ")
    assert "the disk failed while syncing" in said

    async def case():
        async with open_sqlite(path) as journal:
            row = await journal.run_row("r")
            assert row.version in (int(version), int(version) + 1)
            lease = await journal.claim("r", "two", 60, dead_owner=row.owner)
            await put(journal, lease, row.version, event("next"))
            found = await contents(journal)
            assert [seq for seq, _ in found] == list(range(1, row.version + 2))

    asyncio.run(case())
