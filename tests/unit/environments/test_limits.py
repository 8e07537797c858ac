import asyncio
import math
import os
import resource

import pytest

from proctor.environments.limits import ProcessLimits, clamp_timeout
from proctor.environments.process import run_process

INSPECT = """
import json, resource
names = ("DATA", "CPU", "FSIZE", "NOFILE", "NPROC", "CORE")
limits = {n: resource.getrlimit(getattr(resource, "RLIMIT_" + n)) for n in names}
print(json.dumps(limits)); print(open("/proc/self/oom_score_adj").read())
"""


def run(argv, limits, **more):
    return asyncio.run(run_process(argv, limits=limits, timeout_s=60, **more))


@pytest.mark.parametrize("odd", [None, 0, -1, -1e9, math.nan, math.inf, -math.inf, 30.1, 1e300])
def test_an_odd_timeout_becomes_the_ceiling(odd):
    assert clamp_timeout(odd, 30.0) == 30.0


def test_a_sound_timeout_is_kept():
    assert clamp_timeout(29.5, 30.0) == 29.5
    assert clamp_timeout(30, 30.0) == 30


def test_limits_reach_the_program_and_its_children():
    limits = ProcessLimits(memory_mb=300, cpu_s=7, file_size_mb=5, open_files=100, processes=20_000)
    script = ["sh", "-c", 'python3 -c "$1"; exit $?', "sh", INSPECT]
    result = run(script, limits)
    assert result.exit_code == 0, result
    facts, score = result.stdout.splitlines()[:2]
    mb = 1_048_576
    hard = resource.getrlimit(resource.RLIMIT_NPROC)[1]
    processes = 20_000 if hard == resource.RLIM_INFINITY else min(20_000, hard)
    expected = {
        "DATA": 300 * mb, "CPU": 7, "FSIZE": 5 * mb, "NOFILE": 100, "NPROC": processes, "CORE": 0,
    }  # fmt: skip
    assert eval(facts) == {name: [value, value] for name, value in expected.items()}
    assert score == "1000"


def test_memory_file_size_and_processor_time_are_bounded(tmp_path):
    eat = "x = bytearray(400_000_000)"
    assert "MemoryError" in run(["python3", "-c", eat], ProcessLimits(memory_mb=100)).stderr
    fill = "head -c 9000000 /dev/zero > big; test $(wc -c < big) -le 2097152"
    result = run(["sh", "-c", fill], ProcessLimits(file_size_mb=2), cwd=str(tmp_path))
    assert result.exit_code == 0
    assert (tmp_path / "big").stat().st_size == 2_097_152
    spin = run(["python3", "-c", "while True: pass"], ProcessLimits(cpu_s=1))
    assert spin.exit_code in (-9, -24)
    assert not spin.timed_out


def test_a_limit_above_our_own_hard_limit_is_ours():
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert hard != resource.RLIM_INFINITY
    result = run(["sh", "-c", "ulimit -n"], ProcessLimits(open_files=hard + 5))
    assert result.stdout == f"{hard}\n"
    assert resource.getrlimit(resource.RLIMIT_NOFILE) == (soft, hard)


def test_arguments_and_exit_codes_pass_the_shell_unchanged():
    limits = ProcessLimits(memory_mb=500)
    words = ["a b", "$HOME", '"; exit 9', ""]
    shown = run(["printf", "%s|", *words], limits)
    assert shown.stdout == 'a b|$HOME|"; exit 9||'
    assert run(["sh", "-c", "exit 37"], limits).exit_code == 37
    assert run(["sh", "-c", "kill -9 $$"], limits).exit_code == -9
    assert run(["proctor-no-such-program"], limits).exit_code == 127


@pytest.mark.parametrize("odd", [0, -1, 1.5, "7"])
def test_odd_limits_are_refused(odd):
    with pytest.raises(ValueError, match="memory_mb"):
        ProcessLimits(memory_mb=odd)


@pytest.mark.parametrize("shell", ["bash", "busybox", "dash"])
def test_every_usual_shell_takes_the_commands(shell, tmp_path):
    path = next((p for d in os.defpath.split(":") if os.access(p := f"{d}/{shell}", os.X_OK)), None)
    if path is None:
        pytest.skip(f"{shell} is not installed")
    (tmp_path / "sh").symlink_to(path)
    limits = ProcessLimits(memory_mb=300, cpu_s=7, file_size_mb=5, open_files=100, processes=9_000)
    script = f'{limits.commands()}\nexec "$@"'
    argv = [str(tmp_path / "sh"), "-c", script, "sh", "python3", "-c", INSPECT]
    result = run(argv, None)
    assert result.exit_code == 0, result
    limits_seen = eval(result.stdout.splitlines()[0])
    assert limits_seen["DATA"] == [300 * 1_048_576] * 2
    assert limits_seen["FSIZE"] == [5 * 1_048_576] * 2
    assert limits_seen["NPROC"] == [9_000] * 2
