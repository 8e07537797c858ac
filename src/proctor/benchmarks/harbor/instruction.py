"""instruction.md: the prompt, without the canary that keeps a data set out of training."""

import re

_CANARY_COMMENT = re.compile(
    r"\s*<!--(?:(?!-->).)*canary(?:(?!-->).)*-->[ \t]*(?:\r?\n|$)", re.I | re.S
)
_CANARY_LINE = re.compile(r"[ \t]*#[^\n]*canary[^\n]*(?:\n|$)", re.I)
_BLANK_LINES = re.compile(r"(?:[ \t\r]*\n)*")


def strip_canary(text: str) -> str:
    """`text` without its leading canary lines (HTML comments, or lines that begin with `#`,
    that contain the word "canary") and the blank lines after them."""
    at = 0
    while match := _CANARY_COMMENT.match(text, at) or _CANARY_LINE.match(text, at):
        at = match.end()
    if at == 0:
        return text
    blank = _BLANK_LINES.match(text, at)
    return text[blank.end() if blank else at :]
