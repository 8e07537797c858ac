"""Only processes that are found again get the signal."""

import os
import signal
import subprocess
from contextlib import ExitStack

from proctor.environments import proctable
from proctor.environments.killing import kill_found


def test_those_that_are_not_found_again_live_on():
    with ExitStack() as stack:
        members = [stack.enter_context(subprocess.Popen(["sleep", "600"])) for _ in range(3)]
        for member in members:
            stack.callback(member.kill)
        stranger, *meant = members
        before = set(os.listdir("/proc/self/fd"))
        asked = []

        def again():
            asked.append(1)
            return [member.pid for member in meant] + [1]

        kill_found([member.pid for member in members], again)
        assert [member.wait(60) for member in meant] == [-signal.SIGKILL] * 2
        assert proctable.runs(stranger.pid)
        assert asked == [1]
        assert set(os.listdir("/proc/self/fd")) == before


def test_nobody_is_asked_about_those_that_are_gone():
    gone = subprocess.Popen(["true"])
    gone.wait()
    kill_found([gone.pid], lambda: 1 // 0)
    kill_found([], lambda: 1 // 0)
