"""What reaches a terminal: text that is shown and never obeyed, and one document."""

import json

import pytest

from proctor.cli import output
from proctor.cli.output import emit, one_line, only_the_document, printable, say, typed


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain", "plain"),
        ("two\nlines\tand a tab", "two\nlines\tand a tab"),
        ("\x1b[2J", "\\x1b[2J"),
        ("title\x1b]0;x\x07", "title\\x1b]0;x\\x07"),
        ("C1 \x9b31m", "C1 \\x9b31m"),
        ("over\rwritten", "over\\x0dwritten"),
        ("back\x08space", "back\\x08space"),
        ("\x7f", "\\x7f"),
        ("right\u202eleft", "right\\u202eleft"),
        ("iso\u2066late\u2069", "iso\\u2066late\\u2069"),
        ("line\u2028para\u2029", "line\\u2028para\\u2029"),
        ("next\x85line", "next\\x85line"),
        ("half \ud800", "half \\ud800"),
        ("✓ é 任务 🙂", "✓ é 任务 🙂"),
    ],
)
def test_what_a_terminal_would_obey_is_written_out(text, shown):
    assert printable(text) == shown


def test_bytes_of_names_are_decoded_or_replaced():
    assert printable("R\udcc3\udca9sum\udcc3\udca9") == "Résumé"
    assert printable("\udcff") == "\ufffd"


def test_one_line_cannot_pass_for_two():
    assert one_line("a\nfatal b\t") == "a\\nfatal b\\t"


def test_say_writes_to_the_named_stream(capsys):
    say("out\x1b")
    say("err", error=True)
    assert capsys.readouterr() == ("out\\x1b\n", "err\n")


def test_only_the_document_reaches_stdout(capsys):
    with only_the_document():
        print("somebody prints")
        emit({"é": "\ud800"})
    out, err = capsys.readouterr()
    assert json.loads(out) == {"é": "\ud800"}
    assert out.isascii()
    assert err == "somebody prints\n"
    print("afterwards")
    assert capsys.readouterr().out == "afterwards\n"


def test_nothing_that_is_not_json_is_emitted(capsys):
    with pytest.raises(ValueError, match="Out of range"):
        emit({"x": float("nan")})
    assert capsys.readouterr().out == ""


class Full:
    """A stream on a full disk."""

    def write(self, text: str) -> int:
        raise OSError(28, "No space left on device")

    def flush(self) -> None: ...


def test_a_lost_document_is_an_error_and_a_lost_remark_is_not(monkeypatch):
    monkeypatch.setattr(output.sys, "stdout", Full())
    monkeypatch.setattr(output.sys, "stderr", Full())
    with pytest.raises(output.OutputLost, match="No space left on device"):
        emit({})
    say("a remark", error=True)


def test_a_path_is_typed_so_that_a_shell_takes_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert typed(str(tmp_path / "my runs" / "it's")) == "'my runs/it'\"'\"'s'"
    assert typed(str(tmp_path / "plain" / "x")) == "plain/x"
    assert typed("/elsewhere") == "/elsewhere"
