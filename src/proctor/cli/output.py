"""What commands print: JSON for programs on stdout, text for people, refusals that help."""

import json
import os
import sys
from typing import Any

from proctor.kernel.errors import ProctorError


def prepare_streams() -> None:
    """A console that cannot show a character gets a replacement; it never fails a command."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="replace")


def say(text: str = "", *, error: bool = False) -> None:
    """Print a line for people; control characters of hostile texts are shown, not obeyed."""
    stream = sys.stderr if error else sys.stdout
    stream.write(printable(text) + "\n")
    stream.flush()


def printable(text: str) -> str:
    """`text` without control characters other than newline and tab."""
    return "".join(
        ch if ch in "\n\t" or (ch >= " " and not "\x7f" <= ch <= "\x9f") else f"\\x{ord(ch):02x}"
        for ch in text
    )


def emit(document: Any) -> None:
    """One JSON document on stdout, in ASCII, so that it survives any console encoding."""
    sys.stdout.write(json.dumps(document, indent=2, allow_nan=False) + "\n")
    sys.stdout.flush()


def refuse(error: ProctorError, as_json: bool) -> int:
    """Say why nothing ran; exit code 2."""
    if as_json:
        emit(refusal(type(error).code, error.message, error.hint))
    say(f"proctor: {error.message}", error=True)
    if error.hint:
        say(f"  hint: {error.hint}", error=True)
    return 2


def refusal(code: str, message: str, hint: str | None) -> dict[str, Any]:
    """The `--json` document of a refused command."""
    return {
        "status": "refused",
        "error": {"code": code, "message": message, "hint": hint},
        "runs": [],
    }


def relative(path: str) -> str:
    """`path` as people would type it from here."""
    try:
        short = os.path.relpath(path)
    except ValueError:
        return path
    return path if short.startswith("..") else short
