"""The process runner; cases B17 and B23."""

import asyncio
import hashlib
import math
import os
import resource
import signal
import tempfile
import time
import tracemalloc
from concurrent.futures import ThreadPoolExecutor

import pytest

from proctor.environments import proctable
from proctor.environments.limits import clamp_timeout
from proctor.environments.process import run_process
from proctor.kernel.errors import EnvironmentFault

CAP = 100_000


pytestmark = pytest.mark.usefixtures("leak_free")


def run(*argv, **more):
    more.setdefault("timeout_s", 60)
    return asyncio.run(run_process(list(argv), **more))


def sh(script, **more):
    return run("sh", "-c", script, **more)


# --- B17


def test_a_background_child_does_not_delay_the_result():
    began = time.monotonic()
    result = sh("sleep 60 & echo $$; echo hi", timeout_s=30)
    assert time.monotonic() - began < 2.0
    group, word = result.stdout.split()
    assert (result.exit_code, word, result.timed_out, result.lingering) == (0, "hi", False, True)
    assert proctable.live_members(int(group)) == []


def test_waiting_for_the_child_ends_at_the_limit():
    began = time.monotonic()
    result = sh("echo $$; sleep 60 & wait", timeout_s=1)
    assert 1.0 <= time.monotonic() - began < 5.0
    assert (result.timed_out, result.exit_code) == (True, None)
    assert proctable.live_members(int(result.stdout)) == []


def test_reading_stdin_sees_the_end_at_once():
    result = sh("cat; echo end", timeout_s=20)
    assert (result.stdout, result.exit_code, result.timed_out) == ("end\n", 0, False)


# --- B23


def test_odd_bytes_are_replaced():
    assert sh(r"printf 'fo\200\377o'", output_limit_bytes=CAP).stdout == "fo\ufffd\ufffdo"


def test_a_character_cut_by_the_reader_is_whole():
    # Two writes with a reader in between: the first ends inside the character.
    script = r"printf '\342'; until [ -e go ]; do :; done; printf '\202\254'"

    async def body(folder):
        task = asyncio.create_task(
            run_process(["sh", "-c", script], cwd=folder, output_limit_bytes=CAP)
        )
        await run_process(["sh", "-c", "touch go"], cwd=folder)
        return await task

    with tempfile.TemporaryDirectory() as folder:
        assert asyncio.run(body(folder)).stdout == "€"


@pytest.mark.slow
def test_endless_output_with_a_limit_that_a_model_chose():
    began = time.monotonic()
    result = run("yes", timeout_s=clamp_timeout(-1, 5.0), output_limit_bytes=CAP)
    assert result.timed_out
    assert 5.0 <= time.monotonic() - began < 12.0
    assert result.stdout.startswith("y\ny\n")
    assert len(result.stdout) < CAP + 100


@pytest.mark.parametrize("odd", [-1, 0, math.nan, math.inf])
def test_odd_limits_end_at_the_ceiling(odd):
    assert run("yes", timeout_s=clamp_timeout(odd, 0.2), output_limit_bytes=100).timed_out


def test_a_flood_without_newlines_is_bounded():
    # 300 MB; the first and the last 50 KB are told apart from the rest.
    script = "printf %50000s | tr ' ' a; head -c 299900000 /dev/zero; printf %50000s | tr ' ' z;"
    tracemalloc.start()
    try:
        result = sh(script + "exit 3", output_limit_bytes=CAP)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert result.exit_code == 3
    assert result.stdout == "a" * 50_000 + "\n[… 299900000 bytes dropped …]\n" + "z" * 50_000
    assert (result.truncated, result.dropped_bytes) == (True, 299_900_000)
    assert peak < 2_000_000


# --- results


def test_exit_codes_signals_and_both_streams():
    result = sh("echo out; echo err >&2; exit 3")
    assert (result.exit_code, result.stdout, result.stderr, result.ok) == (
        3,
        "out\n",
        "err\n",
        False,
    )
    assert sh("kill -SEGV $$").exit_code == -signal.SIGSEGV
    assert sh("exit 0").ok


def test_a_program_that_cannot_run(tmp_path):
    assert run("proctor-no-such-program").exit_code == 127
    assert run(str(tmp_path)).exit_code == 126
    (tmp_path / "text").write_text("no program")
    (tmp_path / "text").chmod(0o755)
    assert run(str(tmp_path / "text")).exit_code == 126
    missing = run("true", cwd=str(tmp_path / "none"))
    assert missing.exit_code == 127
    assert str(tmp_path / "none") in missing.stderr
    assert run("true", "x" * 200_000).exit_code == 126
    assert run("true", "nul\0byte").exit_code == 126
    assert run("true", "lone \ud800").exit_code == 126
    assert run("true", env={"A=B": "1"}).exit_code == 126


def test_a_timeout_must_be_above_zero():
    with pytest.raises(ValueError, match="timeout_s"):
        run("true", timeout_s=0)
    with pytest.raises(ValueError, match="timeout_s"):
        run("true", timeout_s=math.nan)


def test_the_environment_is_empty_but_for_a_short_list(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-leak")
    monkeypatch.setenv("LD_LIBRARY_PATH", "/leak")
    monkeypatch.setenv("LC_ALL", "C.UTF-8")
    names = {line.partition("=")[0] for line in run("env").stdout.splitlines()}
    assert (
        {"PATH", "TERM", "LC_ALL"} <= names <= {"PATH", "TERM", "LANG", "TZ", "LC_ALL", "LC_CTYPE"}
    )
    assert run("/usr/bin/env", env={"A": "b"}).stdout == "A=b\n"


def test_closing_the_output_early_is_not_the_end():
    result = sh("exec 1>&- 2>&-; sleep 0.2; exit 5")
    assert (result.exit_code, result.stdout) == (5, "")


def test_the_driver_hands_on_no_descriptor():
    read, write = os.pipe()
    try:
        os.set_inheritable(write, True)
        listed = run("sh", "-c", "ls /proc/self/fd").stdout.split()
    finally:
        os.close(read)
        os.close(write)
    assert set(listed) == {"0", "1", "2", "3"}  # 3 is the listing itself


# --- stdin


@pytest.mark.parametrize("size", [1, 65_536, 65_537, 3_000_000])
def test_stdin_arrives_whole(size):
    data = os.urandom(size)
    result = run("sha256sum", stdin=data)
    assert result.stdout.split()[0] == hashlib.sha256(data).hexdigest()


@pytest.mark.parametrize(
    "script", ["true", "exec 0<&-; sleep 0.1", "head -c 1 >/dev/null", "sleep 0.1", "sleep 60 & :"]
)
def test_stdin_that_nobody_reads(script):
    result = sh(script, stdin=b"x" * 3_000_000, timeout_s=20)
    assert (result.exit_code, result.timed_out) == (0, False)


def test_stdin_is_fed_while_output_comes():
    data = b"y" * 2_000_000  # would block both sides if either end were not served
    assert run("cat", stdin=data, output_limit_bytes=3_000_000).stdout == data.decode()


# --- killing


def test_a_child_that_ignores_signals_and_its_children_die(tmp_path):
    script = (
        "trap '' TERM INT HUP QUIT; echo $$; sleep 60 & sh -c 'sleep 60' & wait; wait; sleep 60"
    )
    result = sh(script, timeout_s=0.5)
    assert result.timed_out
    assert proctable.live_members(int(result.stdout)) == []


def test_cancelling_kills_and_reaps(tmp_path, counts):
    async def body():
        script = "echo $$ > pid.new; mv pid.new pid; sleep 60 & wait"
        task = asyncio.create_task(run_process(["sh", "-c", script], cwd=str(tmp_path)))
        await run_process(["sh", "-c", "until [ -e pid ]; do :; done"], cwd=str(tmp_path))
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert counts.zombies() == []

    asyncio.run(body())
    assert proctable.live_members(int((tmp_path / "pid").read_text())) == []


def test_cancelling_twice_still_reaps(counts):
    async def body():
        task = asyncio.create_task(run_process(["sh", "-c", "sleep 60 & wait"]))
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert counts.zombies() == []

    asyncio.run(body())


def test_a_timeout_of_the_caller_is_a_cancellation():
    async def body():
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(run_process(["sleep", "60"]), 0.2)

    asyncio.run(body())


def test_many_at_once_in_two_loops():
    def loop(base):
        async def body():
            jobs = [run_process(["sh", "-c", f"echo {base + n}; exit {n}"]) for n in range(40)]
            return await asyncio.gather(*jobs)

        return [(r.exit_code, int(r.stdout)) for r in asyncio.run(body())]

    with ThreadPoolExecutor(2) as pool:
        results = list(pool.map(loop, (0, 100)))
    assert results == [[(n, base + n) for n in range(40)] for base in (0, 100)]


# --- odd machines


def test_without_pidfd_a_thread_waits(monkeypatch):
    monkeypatch.delattr(os, "pidfd_open")
    result = sh("sleep 60 & echo hi; exit 4")
    assert (result.exit_code, result.stdout, result.lingering) == (4, "hi\n", True)
    assert sh("echo so far; sleep 60", timeout_s=0.3).timed_out


def test_a_machine_without_descriptors_is_an_environment_fault(counts):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)

    async def body():
        resource.setrlimit(resource.RLIMIT_NOFILE, (len(counts.descriptors()) + 2, hard))
        try:
            await run_process(["true"])
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))

    with pytest.raises(EnvironmentFault) as caught:
        asyncio.run(body())
    assert caught.value.fault_code == "cannot_start"
    assert caught.value.hint


def test_a_lost_exit_status_is_not_success():
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        with pytest.raises(EnvironmentFault, match="lost"):
            run("true")
    finally:
        signal.signal(signal.SIGCHLD, before)
