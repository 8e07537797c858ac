"""What benchmarks measure with: each instrument against a load that is known."""

import asyncio
import os
import sys
import time

import pytest
from bench.figures import Limit, Spread, table
from bench.loop import CallbackProbe, CollectorProbe, LagSampler
from bench.measured import CaseFailed, look_at, run, strace, traced_syncs
from bench.own import Span, count_syncs, peak_rss_kib

# The same promise is tested without it too, so that its absence leaves nothing unproved.
needs_strace = pytest.mark.skipif(strace() is None, reason="strace is not installed or not allowed")


def spin(seconds: float) -> None:
    """Use the processor for so long."""
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass


def test_a_tree_is_counted_without_following_links(tmp_path):
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "one").write_bytes(b"x" * 100)
    (tmp_path / "a" / "b" / "two").write_bytes(b"x" * 23)
    (tmp_path / "loop").symlink_to(tmp_path / "a")
    seen = look_at(tmp_path / "a")
    assert (seen.files, seen.folders, seen.size_bytes) == (2, 1, 123)
    assert look_at(tmp_path).folders == 2


def test_folders_stay_until_the_process_ends_and_killed_ones_leave_nothing(tmp_path):
    code = (
        "from bench.measured import scratch\n"
        "with scratch() as folder: (folder / 'f').write_text('x')\n"
        "print(folder.joinpath('f').exists(), flush=True)\n"
    )
    cache = tmp_path / "cache"
    env = {"PROCTOR_BENCH_CACHE": str(cache)}
    killed = code + "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"
    with pytest.raises(CaseFailed, match="ended with -9"):
        run([sys.executable, "-c", killed], tmp_path, env)
    assert [p.name.split("-")[0] for p in cache.iterdir()] == ["scratch"]
    run([sys.executable, "-c", code], tmp_path, env)
    assert (tmp_path / "out").read_text() == "True\n"
    assert list(cache.iterdir()) == []


def test_a_program_is_measured_from_outside_and_from_inside(tmp_path):
    code = (
        "import sys; from bench.own import Span, report; s = Span(); x = bytearray(40_000_000)\n"
        "open('file', 'wb').write(b'x' * 5000); report(sys.argv[1], s.end())"
    )
    ended = run([sys.executable, "-c", code, "{report}"], tmp_path)
    assert ended.own["written_bytes"] >= 5000
    assert ended.own["rss_kib"] > 40_000
    assert 0 < ended.own["user_s"] + ended.own["system_s"] <= ended.cpu_s + 0.02


def test_peak_memory_is_the_programs_own_not_its_parents(tmp_path):
    held = bytearray(60_000_000)
    code = "import sys; from bench.own import Span, report; report(sys.argv[1], Span().end())"
    ended = run([sys.executable, "-c", code, "{report}"], tmp_path)
    assert ended.own["rss_kib"] < 40_000 < len(held) / 1024 < peak_rss_kib()


def test_a_program_that_fails_says_how(tmp_path):
    with pytest.raises(CaseFailed, match=r"ended with 3: went wrong"):
        run([sys.executable, "-c", "import sys; print('went wrong'); sys.exit(3)"], tmp_path)


def test_syncs_are_read_from_what_strace_prints():
    printed = """\
% time     seconds  usecs/call     calls    errors syscall
------ ----------- ----------- --------- --------- ----------------
 86.49    0.000032          32       401           fsync
 13.51    0.000005           5         2         1 fdatasync
  0.00    0.000000           0        77           write
------ ----------- ----------- --------- --------- ----------------
100.00    0.000037          18       480         1 total
"""
    assert traced_syncs(printed) == 403
    assert traced_syncs("") == 0


@needs_strace
def test_strace_counts_the_syncs_of_all_threads(tmp_path):
    code = (
        "import os, threading; fd = os.open('f', os.O_CREAT | os.O_WRONLY)\n"
        "os.fsync(fd); t = threading.Thread(target=os.fdatasync, args=(fd,)); t.start(); t.join()"
    )
    run([*strace(), sys.executable, "-c", code], tmp_path)
    assert traced_syncs((tmp_path / "err").read_text()) == 2


def test_syncs_are_counted_in_the_process_where_there_is_no_strace(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "fsync", os.fsync)
    monkeypatch.setattr(os, "fdatasync", os.fdatasync)
    count = count_syncs()
    with (tmp_path / "f").open("wb") as file:
        os.fsync(file)
        os.fdatasync(file.fileno())
    assert count() == 2


def test_a_span_counts_the_processor_not_the_clock():
    span = Span()
    spin(0.05)
    found = span.end()
    assert found["user_s"] + found["system_s"] >= 0.05
    assert found["wall_s"] >= 0.05


def test_lag_is_weighted_by_time():
    """One stall of 100 ms among many quiet moments is most of the time of a short run."""

    async def stalled():
        sampler = LagSampler()
        sampling = asyncio.ensure_future(sampler.run())
        await asyncio.sleep(0.01)
        spin(0.1)
        await asyncio.sleep(0.01)
        sampling.cancel()
        return sampler.to_json()

    found = asyncio.run(stalled())
    assert found["p50"] >= 90
    assert found["max"] >= found["p99.9"] >= found["p50"]
    assert found["own p99.9"] >= 90


def test_lag_of_a_loop_that_sleeps_is_not_its_own_processor_time():
    async def blocked():
        sampler = LagSampler()
        sampling = asyncio.ensure_future(sampler.run())
        await asyncio.sleep(0.01)
        os.read(ready, 1)  # blocks without using the processor, until the other end is written
        await asyncio.sleep(0.01)
        sampling.cancel()
        return sampler.to_json()

    ready, write = os.pipe()
    pid = os.posix_spawn(
        sys.executable,
        [sys.executable, "-c", f"import os, time; time.sleep(0.1); os.write({write}, b'x')"],
        os.environ,
        file_actions=[(os.POSIX_SPAWN_DUP2, write, write)],
    )
    try:
        found = asyncio.run(blocked())
    finally:
        os.waitpid(pid, 0)
        os.close(ready)
        os.close(write)
    assert found["max"] >= 50
    assert found["own p99.9"] < 50


def test_the_longest_callback_is_named_by_its_coroutine(monkeypatch):
    monkeypatch.setattr(asyncio.Handle, "_run", asyncio.Handle._run)
    probe = CallbackProbe(slow_s=0.02)
    probe.install()

    async def greedy():
        await asyncio.sleep(0)
        spin(0.04)

    asyncio.run(greedy())
    assert "greedy" in probe.longest
    assert probe.longest_s >= 0.04
    assert probe.slow == 1
    assert probe.callbacks > 1


def test_collections_are_timed():
    import gc

    probe = CollectorProbe()
    probe.install()
    try:
        gc.collect()
    finally:
        gc.callbacks.pop()
    assert probe.total_s >= probe.longest_s > 0


def test_a_spread_shows_its_ends():
    assert Spread.of([3.0, 1.0, 2.0]).text() == "2.00 (1.00–3.00)"
    assert Spread.of([2.0]).text(1) == "2.0"


@pytest.mark.parametrize(
    ("value", "limit", "at_least", "kept"),
    [
        (2.0, 2.0, False, True),
        (2.1, 2.0, False, False),
        (7.0, 7.0, True, True),
        (6.9, 7.0, True, False),
        (99.0, None, False, True),
    ],
)
def test_a_limit_is_kept_or_not(value, limit, at_least, kept):
    found = Limit("x", value, limit, "ms", at_least)
    assert found.kept is kept
    assert ("NOT KEPT" in found.row()) is not kept


def test_columns_are_aligned():
    assert table(["name", "n"], [["a", "10"], ["long", "1"]]) == (
        "name   n\n----  --\na     10\nlong   1"
    )
