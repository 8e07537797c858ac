"""Progress on a real terminal, in a pipe, and none; the terminal is left as it was found."""

import re

import pytest
from tests.acceptance.command import answering, proctor, table
from tests.acceptance.terminal import Terminal

HIDE, SHOW, CTRL_C = b"\x1b[?25l", b"\x1b[?25h", b"\x03"
ESCAPE = b"\x1b"
USUAL = (24, 100)
STUBBORN = """
import asyncio, os
async def agent(task, session, model):
    os.write(os.open({bell!r}, os.O_WRONLY), b"x")
    while True:
        try:
            await asyncio.sleep(600)
        except asyncio.CancelledError:
            continue
"""


def cursor_is_back(seen: bytes) -> bool:
    return HIDE in seen and seen.rfind(SHOW) > seen.rfind(HIDE)


def screen(seen: bytes) -> str:
    """The text without what moves, colours and erases."""
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", seen.decode("utf-8")).replace("\r\n", "\n")


def gated(bell, gate) -> list[str]:
    """An agent that rings and goes on when the gate is there."""
    return answering(f"echo > {bell.path}; until [ -e {gate} ]; do sleep 0.05; done; cat")


def test_a_terminal_has_a_live_display_that_goes_away(rows, bell, tmp_path):
    gate = tmp_path / "gate"
    terminal = Terminal(*table(rows, *gated(bell, gate)), cwd=tmp_path)
    bell.wait()
    terminal.wait_for(b"3 running")
    assert HIDE in terminal.seen
    assert "0/3 tasks" in screen(terminal.seen)
    gate.touch()
    assert terminal.end() == 0
    assert cursor_is_back(terminal.seen)
    after = screen(terminal.seen[terminal.seen.rfind(SHOW) :])
    assert after.strip().startswith("table · command · none: completed\n")
    assert "running" not in after


def test_ctrl_c_stops_in_order_and_gives_the_cursor_back(rows, bell, tmp_path):
    terminal = Terminal(*table(rows, *answering(f"echo > {bell.path}; sleep 60")), cwd=tmp_path)
    bell.wait()
    terminal.wait_for(b"3 running")
    terminal.type(CTRL_C)
    assert terminal.end() == 130
    assert cursor_is_back(terminal.seen)
    assert "go on:       proctor resume results/" in screen(terminal.seen)


def test_a_second_ctrl_c_gives_the_cursor_back_too(rows, bell, tmp_path):
    (tmp_path / "stubborn.py").write_text(STUBBORN.format(bell=str(bell.path)))
    words = table(rows, "--harness", "python", "-p", "harness.callable=stubborn.py:agent")
    terminal = Terminal(*words, cwd=tmp_path)
    bell.wait()
    terminal.wait_for(HIDE)
    terminal.type(CTRL_C)
    terminal.wait_for(b"once more exits at once")
    terminal.type(CTRL_C)
    assert terminal.end() == 130
    assert cursor_is_back(terminal.seen)
    assert "go on" not in screen(terminal.seen)  # it had no time for a report


@pytest.mark.parametrize(
    ("words", "variables"),
    [
        (["--progress", "plain"], {}),
        (["--progress", "none"], {}),
        ([], {"TERM": "dumb"}),
        ([], {"PROCTOR_PROGRESS": "plain"}),
    ],
)
def test_plain_lines_and_none_use_no_terminal_commands(words, variables, rows, tmp_path):
    terminal = Terminal(*table(rows, "--harness", "nop", *words), cwd=tmp_path, **variables)
    assert terminal.end() == 0
    assert ESCAPE not in terminal.seen
    introduced = "3 tasks × 1 attempt, results/" in screen(terminal.seen)
    assert introduced == ("none" not in words)
    assert "correct avg@1          0.0000" in screen(terminal.seen)


def test_progress_none_says_nothing_on_stderr(rows, tmp_path):
    words = table(rows, "--harness", "nop", "--progress", "none")
    assert proctor(*words, cwd=tmp_path).err == ""
    assert proctor(*words, cwd=tmp_path).out.startswith("table · nop · none: completed\n")


def test_a_pipe_gets_plain_lines(rows, tmp_path):
    done = proctor(*table(rows, "--harness", "nop"), cwd=tmp_path)
    first, caution = done.err.splitlines()
    assert "3 tasks × 1 attempt" in first
    assert "no isolation" in caution
    assert "\x1b" not in done.out + done.err


@pytest.mark.parametrize(
    ("size", "variables"),
    [
        ((2, 12), {}),
        ((24, 100), {"LC_ALL": "C", "PYTHONUTF8": "0"}),
        ((24, 100), {"NO_COLOR": "1"}),
    ],
    ids=["tiny", "ascii", "no colours"],
)
def test_an_issue_is_shown_on_any_terminal_and_cannot_command_it(
    size, variables, rows, bell, tmp_path
):
    gate = tmp_path / "gate"
    (tmp_path / "loud.py").write_text(
        "import asyncio, os\n"
        "async def agent(task, session, model):\n"
        "    if task.id == 't1':\n"
        "        raise ValueError('\\x1b]0;owned\\x07 ✓ ' + 'very ' * 99 + 'long')\n"
        f"    os.write(os.open({str(bell.path)!r}, os.O_WRONLY), b'x')\n"
        f"    while not os.path.exists({str(gate)!r}):\n"
        "        await asyncio.sleep(0.05)\n"
        "    return task.input\n"
    )
    words = table(rows, "--harness", "python", "-p", "harness.callable=loud.py:agent")
    terminal = Terminal(*words, cwd=tmp_path, size=size, **variables)
    bell.wait()
    terminal.wait_for(HIDE)
    if size == USUAL:
        terminal.wait_for(b"t1 #1: run: ValueError: \\x1b]0;owned")
    gate.touch()
    assert terminal.end() == 1
    assert b"\x1b]0;" not in terminal.seen
    assert b"\x07" not in terminal.seen
    assert cursor_is_back(terminal.seen)
