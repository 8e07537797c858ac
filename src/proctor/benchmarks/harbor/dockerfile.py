"""Reading a Dockerfile into its instructions: continuations, comments, here-documents, words.

What the instructions mean is in `proctor.benchmarks.harbor.recipe`.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from proctor.kernel import jsontext

_DIRECTIVE = re.compile(r"#\s*([A-Za-z][A-Za-z0-9]*)\s*=\s*(.*?)\s*")
_HEREDOC = re.compile(r"<<-?\s*([\"']?)([A-Za-z_][A-Za-z0-9_]*)\1")
_TAKES_HEREDOC = frozenset(["RUN", "COPY", "ADD"])
_VARIABLE = re.compile(r"\$(?:([A-Za-z_]\w*)|\{([A-Za-z_]\w*)(?:(:[-+])([^{}]*))?\})", re.ASCII)


class DockerfileError(ValueError):
    """A Dockerfile that cannot be read, with the line."""


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction: its line number, its name in capitals, and the rest with continuations
    joined. `heredoc` says that lines of a here-document belong to it."""

    line: int
    name: str
    rest: str
    heredoc: bool = False

    @property
    def text(self) -> str:
        """The instruction on one line, bounded, for messages and plans."""
        whole = " ".join(f"{self.name} {self.rest}".split())
        return whole if len(whole) <= 300 else whole[:299] + "…"


def instructions(text: str) -> list[Instruction]:
    """The instructions of a Dockerfile, in order. Raises DockerfileError."""
    lines = text.removeprefix("\ufeff").replace("\r\n", "\n").split("\n")
    escape = _escape_character(lines)
    found: list[Instruction] = []
    at = 0
    while at < len(lines):
        start = at
        if not lines[at].strip() or lines[at].strip().startswith("#"):
            at += 1
            continue
        joined, at = _joined(lines, at, escape)
        name, rest = (*joined.split(maxsplit=1), "")[:2]
        name = name.upper()
        if not name.isalpha():
            raise DockerfileError(f"line {start + 1}: not an instruction: {joined[:60]!r}")
        delimiters = _heredocs(name, rest)
        for delimiter in delimiters:
            at = _after_heredoc(lines, at, delimiter, start)
        found.append(Instruction(start + 1, name, rest.strip(), bool(delimiters)))
    return found


def _escape_character(lines: list[str]) -> str:
    for line in lines:
        directive = _DIRECTIVE.fullmatch(line.strip())
        if directive is None:
            break
        if directive[1].lower() == "escape":
            return directive[2]
    return "\\"


def _joined(lines: list[str], at: int, escape: str) -> tuple[str, int]:
    """The logical line that begins at `at`, and where the next one begins."""
    pieces: list[str] = []
    while at < len(lines):
        line = lines[at].rstrip()
        at += 1
        bare = line.strip()
        if pieces and (not bare or bare.startswith("#")):
            continue  # comments and blank lines inside a continuation vanish
        if not line.endswith(escape):
            pieces.append(line)
            break
        pieces.append(line[: -len(escape)])
    return "".join(pieces).strip() or escape, at


def _heredocs(name: str, rest: str) -> list[str]:
    if name not in _TAKES_HEREDOC:
        return []
    return [match[2] for match in _HEREDOC.finditer(rest)]


def _after_heredoc(lines: list[str], at: int, delimiter: str, start: int) -> int:
    for n in range(at, len(lines)):
        if lines[n].strip() == delimiter:
            return n + 1
    raise DockerfileError(f"line {start + 1}: the here-document {delimiter!r} never ends")


def words(text: str) -> list[str]:
    """The words of an instruction: split at blanks outside quotes, quotes kept."""
    found = re.findall(r"(?:\"(?:\\.|[^\"\\])*\"|'[^']*'|\\.|[^\s\"'\\]|[\"'\\])+", text)
    return [str(word) for word in found]


def arguments(rest: str) -> tuple[list[str], list[str]]:
    """(flags, operands) of COPY or ADD, in the plain or the JSON form; still with variables."""
    flags: list[str] = []
    text = rest.strip()
    while match := re.match(r"(--[a-z-]+(?:=\S*)?)\s+", text):
        flags.append(match[1])
        text = text[match.end() :]
    if text.startswith("["):
        try:
            operands = jsontext.loads(text)
        except jsontext.JsonError:
            operands = None
        if isinstance(operands, list) and all(isinstance(item, str) for item in operands):
            return flags, operands
    return flags, words(text)


def pairs(rest: str) -> list[tuple[str, str]]:
    """The variables of ENV or ARG, in the form `K=V …` or the old form `K V`."""
    items = words(rest)
    if items and "=" not in items[0]:
        key, _, value = rest.strip().partition(" ")
        return [(key, value.strip())]
    return [(item.partition("=")[0], item.partition("=")[2]) for item in items]


def expand(word: str, variables: Mapping[str, str]) -> str:
    """A word with its quotes removed and its variables filled in (unknown ones are empty)."""
    out: list[str] = []
    at = 0
    quote = ""
    while at < len(word):
        char = word[at]
        if char == "\\" and quote != "'" and at + 1 < len(word):
            keep = quote == '"' and word[at + 1] not in '"$\\'
            out.append(word[at : at + 2] if keep else word[at + 1])
            at += 2
        elif char in "\"'" and quote in ("", char):
            quote = "" if quote else char
            at += 1
        elif char == "$" and quote != "'" and (match := _VARIABLE.match(word, at)):
            out.append(_value(match, variables.get, lambda text: expand(text, variables)))
            at = match.end()
        else:
            out.append(char)
            at += 1
    return "".join(out)


def _value(
    match: re.Match[str], lookup: Callable[[str], str | None], inner: Callable[[str], str]
) -> str:
    value = lookup(match[1] or match[2])
    if match[3] == ":-" and not value:
        return inner(match[4])
    if match[3] == ":+":
        return inner(match[4]) if value else ""
    return value or ""
