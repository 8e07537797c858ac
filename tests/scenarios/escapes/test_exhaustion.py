"""Using up what the machine has: processes, memory, disk, output."""

import asyncio
import os
import shutil
import tempfile

from proctor.environments import disk
from proctor.environments.bubblewrap import BubblewrapEnvironment, BubblewrapOptions


def test_a_fork_bomb_stops_at_its_limit_and_ends_with_its_command(sandbox):
    bomb = """
import os, time
made = 0
while made < 5000:
    try:
        if os.fork() == 0: time.sleep(600)
        made += 1
    except OSError:
        break
print(made, flush=True)
time.sleep(600)
"""
    before = len([p for p in os.listdir("/proc") if p.isdecimal()])
    result = sandbox.python(bomb, timeout_s=5, wishes={"pids": 100})
    assert result.timed_out
    assert 20 < int(result.stdout or 0) < 101
    after = len([p for p in os.listdir("/proc") if p.isdecimal()])
    assert after < before + 60  # others work on this machine too


def test_filling_memory_ends_in_the_sandbox_and_is_told(sandbox):
    eat = "held = []\nwhile True: held.append(bytearray(10_000_000))"
    result = sandbox.python(eat, wishes={"memory_mb": 200})
    assert not result.ok
    assert not result.timed_out
    assert result.out_of_memory


def test_shared_memory_counts_too(sandbox):
    fill = "dd if=/dev/zero of=/dev/shm/fill bs=1M count=900 2>&1; echo end"
    before = free_memory_mb()
    result = sandbox.run(fill, wishes={"memory_mb": 200, "storage_mb": 2_000})
    assert result.stdout.endswith("end\n") or not result.ok
    assert free_memory_mb() > before - 800


def free_memory_mb() -> int:
    with open("/proc/meminfo", encoding="utf-8") as lines:
        rows = dict(line.split(":", 1) for line in lines)
    return int(rows["MemAvailable"].split()[0]) // 1024


def bubblewrap(case, need, **wishes):
    """`case(session)` in a sandbox; docker's storage is its engine's matter."""
    from proctor.environments.contract import EnvironmentSpec, Resources

    environment = BubblewrapEnvironment(BubblewrapOptions(network="no-network"))
    need(not environment.requirements(), "; ".join(environment.requirements()))

    async def body():
        spec = EnvironmentSpec(absolute_paths=True, resources=Resources(**wishes))
        async with await environment.open(spec, {"run": "escapes"}) as session:
            return await case(session)

    return asyncio.run(body())


def test_filling_the_disk_is_stopped(need):
    fill = "n=0; while :; do head -c 20000000 /dev/zero > f$n; n=$((n+1)); done"

    async def case(session):
        result = await session.exec(fill, timeout_s=60)
        return result, await session.alive()

    before = shutil.disk_usage(tempfile.gettempdir()).free
    need(before > 8_000_000_000, "there is too little room for this test")
    result, alive = bubblewrap(case, need, storage_mb=300)
    assert result.out_of_storage
    assert not result.timed_out
    assert not result.ok
    assert alive
    assert shutil.disk_usage(tempfile.gettempdir()).free > before - 2_000_000_000


def test_one_file_cannot_become_larger_than_the_limit(need):
    async def case(session):
        grown = await session.exec("head -c 400000000 /dev/zero > big; stat -c %s big")
        unlinked = "exec 9> gone; rm gone; head -c 400000000 /dev/zero >&9; stat -Lc %s /dev/fd/9"
        await session.exec("rm big")
        return grown, await session.exec(unlinked)

    for result in bubblewrap(case, need, storage_mb=300):
        # At its full size it may be ended, since the sandbox holds a little besides.
        assert result.out_of_storage or int(result.stdout.split()[-1]) <= 300 * 1_048_576


def test_what_fits_is_not_stopped(need):
    async def case(session):
        return await session.exec("head -c 100000000 /dev/zero > f; sleep 0.7; echo end")

    result = bubblewrap(case, need, storage_mb=300)
    assert (result.stdout, result.out_of_storage) == ("end\n", False)


def test_the_last_of_the_disk_is_left_alone(need, monkeypatch):
    free = shutil.disk_usage(tempfile.gettempdir()).free
    monkeypatch.setattr(disk, "FLOOR_BYTES", free + 10_000_000_000)  # as if it were nearly full
    monkeypatch.setattr(disk, "used_bytes", lambda tree: free)

    async def case(session):
        return await session.exec("echo begun; sleep 60", timeout_s=60)

    result = bubblewrap(case, need)
    assert result.out_of_storage
    assert result.stdout == "begun\n"


def test_endless_output_is_bounded(sandbox):
    flood = "import os\nwhile True: os.write(1, b'x' * 65536); os.write(2, b'y' * 65536)"
    result = sandbox.python(flood, timeout_s=2, output_limit_bytes=100_000)
    assert result.timed_out
    assert result.truncated
    assert len(result.stdout) < 101_000
    assert len(result.stderr) < 101_000
