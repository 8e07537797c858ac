"""`.env`: what is taken, what is passed over, what is refused."""

import os

import pytest

from proctor.cli.dotenv import load_dotenv
from proctor.kernel.errors import OptionError


@pytest.fixture
def variables(folder, monkeypatch):
    """Load a `.env` and give the variables that it set."""

    def load(text: str | bytes) -> dict[str, str]:
        data = text.encode() if isinstance(text, str) else text
        (folder / ".env").write_bytes(data)
        before = dict(os.environ)
        try:
            load_dotenv()
            return {k: v for k, v in os.environ.items() if before.get(k) != v}
        finally:
            os.environ.clear()
            os.environ.update(before)

    return load


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("X=1", "1"),
        ("X = 1 ", "1"),
        ("  export X=1", "1"),
        ("export  X = a b ", "a b"),
        ("X='a b'", "a b"),
        ('X="a b"', "a b"),
        ('X="it\'s"', "it's"),
        ("X='a' # note", "a"),
        ("X=a # note", "a"),
        ("X=a#b", "a#b"),
        ("X=a=b", "a=b"),
        ("X='a", "'a"),
        ("X=$HOME", "$HOME"),
        ("X=", ""),
        ("X=''", ""),
        ("X=é✓", "é✓"),
        ("\ufeffX=1", "1"),
        ("X=1\r", "1"),
    ],
)
def test_a_line(line, value, variables):
    assert variables(line + "\n") == {"X": value}


def test_comments_and_blank_lines_say_nothing(variables, capsys):
    assert variables("# X=1\n\n   \n  # more\n") == {}
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("line", ["secret", "1X=2", "X-Y=2", "=2", "X\0=1", "X=\0"])
def test_another_line_is_told_without_its_content_and_passed_over(line, variables, capsys):
    assert variables(f"{line}\nY=2\n") == {"Y": "2"}
    assert capsys.readouterr().err == ".env, line 1: not NAME=VALUE, passed over\n"


def test_what_is_set_already_stays(variables, monkeypatch):
    monkeypatch.setenv("X", "mine")
    assert variables("X=file\nY=file\n") == {"Y": "file"}


def test_no_file_and_a_folder_of_this_name_are_no_fault(folder):
    load_dotenv()
    (folder / ".env").mkdir()
    load_dotenv()


def test_a_file_that_is_no_text_is_refused(variables):
    with pytest.raises(OptionError, match="not UTF-8 at byte 2"):
        variables(b"X=\xff\n")
