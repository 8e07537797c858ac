"""Variables of task.toml whose values come from the host: `${VAR}` and `${VAR:-default}`.

A task folder may come from anywhere, so a host variable whose name looks secret is given to it
only when the user named it (`-p benchmark.host_env='["NAME"]'`).
"""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from proctor.benchmarks.harbor.sound import MOST_VALUE_BYTES
from proctor.kernel.redact import looks_secret

_TEMPLATE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True, slots=True)
class Resolved:
    """`values` are what a command gets; `identity` is the same for digests, with secrets still
    as templates; `problems` name what is missing."""

    values: Mapping[str, str]
    identity: Mapping[str, str]
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class HostVariables:
    """The host's variables, and the secret-looking names that the user lets tasks read."""

    values: Mapping[str, str]
    allowed: Collection[str] = ()

    def resolve(self, section: str, declared: Mapping[str, str]) -> Resolved:
        """The declared variables of one section of task.toml with their templates filled in."""
        values: dict[str, str] = {}
        identity: dict[str, str] = {}
        problems: list[str] = []
        for key, text in declared.items():
            if not _NAME.fullmatch(key) or "\0" in text:
                problems.append(f"task.toml: {section}: {key!r} is not a variable that can be set")
                continue
            missing = [p for m in _TEMPLATE.finditer(text) if (p := self._missing(m)) is not None]
            problems += [f"task.toml: {section}.{key} {why}" for why in missing]
            if not missing:
                values[key] = value = _TEMPLATE.sub(self._value, text)
                if len(value.encode("utf-8", "replace")) > MOST_VALUE_BYTES:
                    problems.append(f"task.toml: {section}.{key} is too long for a variable")
                identity[key] = _TEMPLATE.sub(self._identity, text)
        return Resolved(values, identity, tuple(problems))

    def _readable(self, name: str) -> bool:
        return not looks_secret(name) or name in self.allowed

    def _missing(self, match: re.Match[str]) -> str | None:
        name, default = match[1], match[2]
        if default is not None or (name in self.values and self._readable(name)):
            return None
        if name in self.values:
            return (
                f"asks for the host variable {name}, which looks secret: let the tasks read it "
                f"with -p benchmark.host_env='[\"{name}\"]'"
            )
        return f"needs the host variable {name}, which is not set: export it, or edit task.toml"

    def _value(self, match: re.Match[str]) -> str:
        name, default = match[1], match[2]
        value = self.values.get(name) if self._readable(name) else None
        # As in a shell, `:-` also replaces an empty value.
        return default if default is not None and not value else value or ""

    def _identity(self, match: re.Match[str]) -> str:
        return match[0] if looks_secret(match[1]) else self._value(match)
