"""What comes back from a command: frames, the first line, the last line, and forgeries of them."""

import random
import subprocess
from functools import partial

import pytest

from proctor.environments.contract import Resources
from proctor.environments.docker.running import Running
from proctor.environments.docker.wrapper import Output, Wrapper, parsed

END = b"proctor-ended-abc "
HELLO = b"proctor-started-abc"


def fed(data, sizes, limit=1_000, hello=None):
    """An Output that got `data` in pieces of these sizes, in turn."""
    output, at, turn = Output(limit, END, hello), 0, 0
    while at < len(data):
        size = sizes[turn % len(sizes)]
        output.feed(data[at : at + size])
        at, turn = at + size, turn + 1
    output.finish()
    return output


@pytest.mark.parametrize("sizes", [(1,), (2, 3), (7,), (19,), (1_000,)])
def test_output_ends_at_the_ending_line_however_it_is_cut(sizes):
    found = fed(b"one\nproctor-ended-ab\ntwo" + END + b"3 1\nlater", sizes)
    assert found.capture.result().text == "one\nproctor-ended-ab\ntwo"
    assert parsed(found.report) == (3, True)


@pytest.mark.parametrize("sizes", [(1,), (5,), (1_000,)])
def test_the_first_line_tells_the_process(sizes):
    found = fed(HELLO + b" 4711\nerror\n" + END + b"0 0\n", sizes, hello=HELLO)
    assert found.pid == 4711
    assert found.capture.result().text == "error\n"
    assert parsed(found.report) == (0, False)


def test_without_the_first_line_everything_is_text():
    found = fed(b"OCI runtime exec failed", (4,), hello=HELLO)
    assert (found.pid, found.report) == (None, None)
    assert found.capture.result().text == "OCI runtime exec failed"
    assert fed(HELLO + b" x\n", (1,), hello=HELLO).pid is None


def test_a_stream_that_stops_early_keeps_its_text():
    found = fed(b"text" + END[:9], (3,))
    assert found.report is None
    assert found.capture.result().text == "text" + END[:9].decode()


def test_an_ending_line_without_end_is_no_report():
    found = fed(b"text" + END + b"1" * 500, (10,))
    assert found.report == b""
    assert parsed(found.report) is None


@pytest.mark.parametrize("report", [None, b"", b"x 0", b"1", b"1 0 0", b"-1 0", b"9999 0"])
def test_reports_that_are_none(report):
    assert parsed(report) is None


def test_random_cuts_change_nothing():
    chance = random.Random(7)
    data = bytes(chance.randrange(256) for _ in range(3_000))
    whole = data + END + b"7 0\n"
    for _ in range(50):
        sizes = [chance.randrange(1, 400) for _ in range(9)]
        found = fed(whole, sizes, limit=10_000)
        assert (found.capture.result().raw or b"") == data
        assert parsed(found.report) == (7, False)


class Line:
    """A connection that was upgraded with these bytes."""

    def __init__(self, *pieces):
        self._pieces = list(pieces)
        self.reader = self
        self.closed = False

    def upgraded(self):
        return self._pieces.pop(0)

    async def read(self, _):
        return self._pieces.pop(0) if self._pieces else b""

    def close(self):
        self.closed = True


def frame(stream, data):
    return bytes([stream, 0, 0, 0]) + len(data).to_bytes(4) + data


def test_frames_are_sorted_by_stream_however_they_are_cut():
    import asyncio

    wrapper = Wrapper()
    data = (
        frame(2, wrapper.hello + b" 12\n") + frame(1, b"out") + frame(2, b"err")
        + frame(1, wrapper.end + b"0 0\n") + frame(2, wrapper.end + b"0 0\n") + frame(1, b"late")
    )  # fmt: skip
    for cut in range(len(data)):
        line = Line(data[:cut], data[cut:])
        entered = []
        running = Running("id", line, wrapper, 1_000, partial(entered.append, True))
        asyncio.run(running.follow(None))
        result = running.result(0, timed_out=False, duration_s=0.0)
        assert (result.stdout, result.stderr, running.pid) == ("out", "err", 12)
        assert running.ended is not None
        assert line.closed
        assert entered == [True]


def test_what_is_no_frame_is_the_engines_own_words():
    import asyncio

    entered, line = [], Line(b"OCI runtime exec failed: no sh\r\n")
    running = Running("id", line, Wrapper(), 1_000, partial(entered.append, True))
    asyncio.run(running.follow(None))
    assert "no sh" in running.text()
    assert entered == [True]
    assert (running.pid, running.ended) == (None, None)


@pytest.mark.parametrize("shell", ["bash", "dash", "busybox"])
@pytest.mark.parametrize(
    ("words", "script", "code", "out"),
    [
        (["echo", "a b"], False, 0, b"a b\n"),
        (["-c", "echo $0-$#; exit 3"], True, 3, b"/bin/bash-0\n"),
        (["exit", "5"], False, 127, b""),
        (["no-such-program"], False, 127, b""),
        (["/etc/passwd"], False, 126, b""),
        (["-c", "kill -9 $$"], True, 137, b""),
    ],
)
def test_the_shell_around_a_command_in_every_shell(shell, words, script, code, out, need):
    import shutil

    need(shutil.which(shell), f"{shell} is not installed")
    wrapper = Wrapper()
    argv = wrapper.argv(
        words, "/", Resources(memory_mb=2_000), script=script, has_input=True
    )[1:]  # fmt: skip
    program = [shutil.which(shell), *(["sh"] if shell == "busybox" else [])]
    done = subprocess.run(
        [*program, *argv], input=b"unread", capture_output=True, start_new_session=True, check=False
    )
    assert done.returncode == -9  # it ends its whole group, itself included
    output = Output(1_000, wrapper.end)
    output.feed(done.stdout)
    errors = Output(1_000, wrapper.end, wrapper.hello)
    errors.feed(done.stderr)
    assert output.capture.result().text.encode() == out
    assert parsed(output.report) == parsed(errors.report) == (code, False)
    assert errors.pid is not None
