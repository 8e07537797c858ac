"""What commands print: JSON for programs on stdout, text for people, refusals that help."""

import json
import os
import re
import shlex
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, TextIO

from proctor.kernel.errors import ProctorError, UsageError
from proctor.kernel.redact import Redactor, secret_settings, secret_values

REFUSED = 2
COULD_NOT_RUN = 3
INTERRUPTED = 130

_UNSAFE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f"  # terminal commands
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # turn the direction of what follows
    "\u2028\u2029\ud800-\udfff]"  # other line ends; halves of characters
)

_document: TextIO | None = None
"""Where the one JSON document goes while everything else is kept away from stdout."""


_redactor = Redactor()
"""Knows the secrets of this process: what is printed is often kept, in the log of a CI job."""


class OutputLost(Exception):
    """What should have been printed could not be written."""


def prepare_streams() -> None:
    """A console that cannot show a character gets a replacement, and a closed stream is none:
    neither fails a command."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:  # otherwise the next file opened would be taken for it
            os.open(os.devnull, os.O_RDWR)
    sys.stdout = sys.stdout or open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stderr = sys.stderr or open(2, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(encoding=sys._xoptions.get("proctor_console"), errors="replace")


def keep_secrets(settings: Any = None) -> None:
    """From now on, print neither the secrets of the environment nor those of `settings`."""
    global _redactor
    _redactor = Redactor([*secret_values(os.environ), *secret_settings(settings)])


@contextmanager
def only_the_document() -> Iterator[None]:
    """Nothing but `emit` reaches stdout in this block: what plug-ins print goes to stderr."""
    global _document
    if not _is_file(sys.stdout, 1) or not _is_file(sys.stderr, 2):  # an embedding program's own
        _document, sys.stdout = sys.stdout, sys.stderr
        try:
            yield
        finally:
            sys.stdout, _document = _document, None
        return
    sys.stdout.flush()
    kept = os.dup(1)
    os.dup2(2, 1)
    _document = open(kept, "w", encoding="ascii", closefd=False)  # noqa: SIM115
    try:
        yield
    finally:
        with suppress(OSError):
            sys.stdout.flush()
        _document = None
        os.dup2(kept, 1)
        os.close(kept)


def _is_file(stream: TextIO, number: int) -> bool:
    try:
        return stream.fileno() == number
    except (OSError, AttributeError, ValueError):
        return False


def say(text: str = "", *, error: bool = False) -> None:
    """Print a line for people; control characters of hostile texts are shown, not obeyed."""
    line = printable(_redactor.text(text)) + "\n"
    _write(sys.stderr if error else sys.stdout, line, matters=not error)


def emit(document: Any) -> None:
    """One JSON document on stdout, in ASCII, so that it survives any console encoding."""
    text = json.dumps(_redactor.facts(document), indent=2, allow_nan=False)
    _write(_document or sys.stdout, text + "\n", matters=True)


def _write(stream: TextIO, text: str, *, matters: bool) -> None:
    try:
        stream.write(text)
        stream.flush()
    except BrokenPipeError:  # the reader has seen enough: no failure
        _discard_further(stream)
    except OSError as error:
        _discard_further(stream)
        if matters:
            raise OutputLost(error.strerror or str(error)) from None


def _discard_further(stream: TextIO) -> None:
    """What is still in the buffer, and all that follows, goes nowhere."""
    if not hasattr(stream, "fileno"):
        return
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)
    stream.flush()


def public(text: str) -> str:
    """`text` without known secrets, for what does not go through `say`."""
    return _redactor.text(text)


def printable(text: str) -> str:
    """`text` in which every character that a terminal would obey is written out as `\\x1b`."""
    if not text.isascii():
        with suppress(UnicodeEncodeError):  # bytes of a name that are no text
            text = text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    return _UNSAFE.sub(_written_out, text)


def one_line(text: str) -> str:
    """`text` as one line that cannot pass for two: newlines and tabs are written out too."""
    return printable(text).replace("\n", "\\n").replace("\t", "\\t")


def _written_out(match: re.Match[str]) -> str:
    code = ord(match[0])
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}"


def refuse(error: ProctorError, as_json: bool) -> int:
    """Say why nothing ran; exit code 2."""
    if as_json:
        emit(refusal(type(error).code, error.message, error.hint))
    _complain(error)
    return REFUSED


def refusal(code: str, message: str, hint: str | None) -> dict[str, Any]:
    """The `--json` document of a refused command."""
    return _without_runs("refused", code, message, hint)


def give_up(error: ProctorError, as_json: bool) -> int:
    """Say why the command could not go on; exit code 3."""
    if as_json:
        emit(_without_runs("failed", type(error).code, error.message, error.hint))
    _complain(error)
    return COULD_NOT_RUN


def interrupted(as_json: bool, signum: int | None = None) -> int:
    """A signal came before anything ran; exit code 130, after SIGTERM 143."""
    if as_json:
        emit({"status": "interrupted", "runs": []})
    say("proctor: interrupted", error=True)
    return INTERRUPTED if signum is None else 128 + signum


def defect(error: BaseException, as_json: bool) -> int:
    """A fault of proctor itself, with what is needed to report it; exit code 3."""
    say("".join(traceback.format_exception(error)).rstrip(), error=True)
    message = f"{type(error).__name__}: {str(error)[:300]}"
    hint = "this is a defect of proctor: please report it with the lines above"
    if as_json:
        emit(_without_runs("failed", "defect", message, hint))
    say(f"proctor: {message}\n  hint: {hint}", error=True)
    return COULD_NOT_RUN


def lost(error: OutputLost) -> int:
    """Standard output cannot be written; exit code 3, since the result did not get out."""
    say(f"proctor: cannot write to standard output: {error}", error=True)
    return COULD_NOT_RUN


def _without_runs(status: str, code: str, message: str, hint: str | None) -> dict[str, Any]:
    error = {"code": code, "message": message, "hint": hint}
    return {"status": status, "error": error, "runs": []}


def _complain(error: ProctorError) -> None:
    say(f"proctor: {error.message}", error=True)
    if error.hint:
        say(f"  hint: {error.hint}", error=True)


def working_directory() -> str:
    """The working directory. Raises UsageError where it has been removed."""
    try:
        return os.getcwd()
    except FileNotFoundError:
        raise UsageError(
            "the working directory does not exist any more", hint="change to another one: cd"
        ) from None


def relative(path: str) -> str:
    """`path` as people would type it from here."""
    try:
        short = os.path.relpath(path)
    except (ValueError, OSError):
        return path
    return path if short.startswith("..") else short


def typed(path: str) -> str:
    """`path` as a word of a shell command that works from here."""
    return shlex.quote(relative(path))
