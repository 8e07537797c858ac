"""Path patterns and ignore files: gitignore syntax (.gitignore, .harborignore), .dockerignore.

Patterns come with task folders and may be hostile: matching takes time proportional to the
lengths of pattern and path, with no backtracking between wildcards.
"""

import fnmatch
import re
from collections.abc import Sequence
from dataclasses import dataclass

_ANY = re.compile(".", re.DOTALL)
_MAX_RULES = 1_000
_MAX_PATTERN_CHARS = 4_096


class PathPattern:
    """A pattern over whole path segments: `*`, `?` and `[…]` stay within one, `**` spans any
    number of them (at the end: at least one), a backslash escapes."""

    def __init__(self, pattern: str) -> None:
        segments: list[re.Pattern[str] | None] = []
        for part in pattern.split("/"):
            if part == "**":
                if segments[-1:] != [None]:
                    segments.append(None)
            else:
                segments.append(_segment(part))
        if segments[-1] is None:
            segments.append(_ANY)
        self._segments = segments

    def matches(self, parts: Sequence[str]) -> bool:
        """Whether the pattern matches the path made of `parts`, all of it."""
        at = here = 0
        retry_at, retry_here = -1, 0
        while here < len(parts):
            if at < len(self._segments) and self._segments[at] is None:
                at, retry_at, retry_here = at + 1, at + 1, here
            elif at < len(self._segments) and self._fits(at, parts[here]):
                at, here = at + 1, here + 1
            elif retry_at >= 0:
                # The last `**` takes one segment more; earlier ones never need to.
                retry_here += 1
                at, here = retry_at, retry_here
            else:
                return False
        return at == len(self._segments)

    def _fits(self, at: int, part: str) -> bool:
        segment = self._segments[at]
        return segment is _ANY or (segment is not None and segment.match(part) is not None)


def _segment(part: str) -> re.Pattern[str]:
    # fnmatch knows no escapes and writes a negated class as [!…].
    plain = re.sub(r"\\(.)", lambda m: f"[{m[1]}]" if m[1] in "*?[" else m[1], part)
    plain = re.sub(r"\[\^(?=.+\])", "[!", plain)
    return re.compile(fnmatch.translate(plain))


@dataclass(frozen=True, slots=True)
class _Rule:
    pattern: PathPattern
    negated: bool
    folders_only: bool = False


def _lines(text: str) -> list[str]:
    """The lines of an ignore file. Raises ValueError when it is out of all proportion."""
    lines = [line for line in text.split("\n") if line.strip()]
    if len(lines) > _MAX_RULES or any(len(line) > _MAX_PATTERN_CHARS for line in lines):
        raise ValueError(
            f"an ignore file has more than {_MAX_RULES:,} rules, or one of more than "
            f"{_MAX_PATTERN_CHARS:,} characters"
        )
    return lines


class GitIgnore:
    """The rules of one ignore file, for paths relative to the folder that holds it.

    The last matching rule decides. A path below an ignored folder stays ignored, whatever a
    later `!` rule says.
    """

    def __init__(self, text: str) -> None:
        self._rules = [r for line in _lines(text) if (r := _git_rule(line)) is not None]

    def ignores(self, path: str) -> bool:
        """Whether the file at the relative POSIX `path` is ignored."""
        parts = path.split("/")
        return any(
            self._matches(parts[: n + 1], folder=n + 1 < len(parts)) for n in range(len(parts))
        )

    def _matches(self, parts: Sequence[str], *, folder: bool) -> bool:
        for rule in reversed(self._rules):
            if (folder or not rule.folders_only) and rule.pattern.matches(parts):
                return not rule.negated
        return False


def _git_rule(line: str) -> _Rule | None:
    pattern = line.rstrip("\r")
    stripped = pattern.rstrip(" ")
    if stripped.endswith("\\") and stripped != pattern:
        stripped += " "  # an escaped blank at the end belongs to the name
    pattern = stripped
    if not pattern or pattern.startswith("#"):
        return None
    negated = pattern.startswith("!")
    pattern = pattern.removeprefix("!")
    folders_only = pattern.endswith("/")
    pattern = pattern.rstrip("/")
    if not pattern:
        return None
    if "/" not in pattern:
        pattern = "**/" + pattern
    return _Rule(PathPattern(pattern.removeprefix("/")), negated, folders_only)


class DockerIgnore:
    """The rules of a .dockerignore file, for paths relative to the build context.

    Patterns start at the root of the context and also match everything below what they name;
    the last matching rule decides, so `!` can take a file out of an ignored folder.
    """

    def __init__(self, text: str = "") -> None:
        self._rules: list[_Rule] = []
        for line in _lines(text.removeprefix("\ufeff")):
            pattern = line.strip()
            if pattern.startswith("#"):
                continue
            negated = pattern.startswith("!")
            pattern = pattern.removeprefix("!").strip().strip("/").removeprefix("./")
            if pattern not in ("", "."):
                self._rules.append(_Rule(PathPattern(pattern), negated))

    def __bool__(self) -> bool:
        return bool(self._rules)

    def ignores(self, path: str) -> bool:
        """Whether the file at the relative POSIX `path` stays out of the build context."""
        parts = path.split("/")
        prefixes = [parts[: n + 1] for n in range(len(parts))]
        for rule in reversed(self._rules):
            if any(rule.pattern.matches(prefix) for prefix in prefixes):
                return not rule.negated
        return False
