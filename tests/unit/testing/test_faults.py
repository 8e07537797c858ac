"""Failing at an exact moment."""

import errno
import os
import signal
import subprocess
import sys

import pytest

from proctor.kernel import faults
from proctor.kernel.faults import fault_point
from proctor.testing.faults import FaultPlan, injected, main


def test_without_a_plan_points_are_inert():
    assert not faults.active()
    fault_point("anything")


def test_the_chosen_hit_of_a_point_fails_once():
    with injected(FaultPlan("enospc", "a", hit=2)) as injector:
        assert faults.active()
        fault_point("a")
        fault_point("b")
        with pytest.raises(OSError, match="No space left") as caught:
            fault_point("a")
        assert caught.value.errno == errno.ENOSPC
        fault_point("a")
        assert injector.hits == 3
    assert not faults.active()
    fault_point("a")


def test_hits_of_all_points_are_counted_together():
    with injected(FaultPlan("enospc", hit=3)):
        fault_point("a")
        fault_point("b")
        with pytest.raises(OSError, match="No space left"):
            fault_point("c")


def test_every_hit_is_recorded_in_order(tmp_path):
    with injected(FaultPlan("record", record_to=str(tmp_path / "points"))):
        for name in ("a.begin", "b.begin", "a.begin"):
            fault_point(name)
    assert (tmp_path / "points").read_text() == "a.begin\nb.begin\na.begin\n"


def test_the_hook_is_removed_when_the_block_fails():
    with pytest.raises(ZeroDivisionError), injected(FaultPlan("enospc", "a")):
        raise ZeroDivisionError
    assert not faults.active()


KILLED = """
import os, sys
from proctor.kernel.faults import fault_point
from proctor.testing.faults import FaultPlan, injected
with injected(FaultPlan("kill", "a")):
    os.write(1, b"before ")
    try:
        fault_point("a")
    finally:
        os.write(1, b"after")
"""


def test_a_kill_runs_nothing_more():
    done = subprocess.run(
        [sys.executable, "-c", KILLED], capture_output=True, check=False, timeout=60
    )
    assert done.returncode == -signal.SIGKILL
    assert done.stdout == b"before "


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--at", "a", "--do", "kill"], "give the arguments of proctor after --"),
        (["--at", "a", "--do", "kill", "--"], "give the arguments of proctor after --"),
        (["--do", "kill", "--", "version"], "needs --at NAME or --hit-any N"),
        (["--at", "a", "--do", "explode", "--", "version"], "expected kill, enospc or record"),
        (["--do", "record", "--", "version"], "expected kill, enospc or record"),
        (["--at", "a", "--", "version"], "--do"),
        (["--at", "a", "--hit-any", "3", "--do", "kill", "--", "version"], "not allowed with"),
        (["--at", "a", "--hit", "0", "--do", "kill", "--", "version"], "hits count from 1"),
        (["--at", "a", "--hit", "x", "--do", "kill", "--", "version"], "invalid"),
    ],
)
def test_wrong_arguments_are_told(arguments, message, capsys):
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 2
    assert message in capsys.readouterr().err


def test_the_command_line_runs_under_the_plan(tmp_path, capfd):
    assert main(["--do", f"record={tmp_path / 'points'}", "--", "version"]) == 0
    assert "proctor" in capfd.readouterr().out
    assert os.path.getsize(tmp_path / "points") == 0
    assert main(["--hit-any", "1", "--do", "enospc", "--", "no-such-command"]) == 2
