"""Who may do what: rules by tool name and arguments, and what an approval is bound to."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import Any

from proctor.kernel import jsontext
from proctor.kernel.digest import of_json


class Ruling(StrEnum):
    """What a rule says about a call."""

    ALLOW = "allow"
    ASK = "ask"
    DENY = "deny"


@dataclass(frozen=True, slots=True)
class Rule:
    """`pattern` is a shell pattern over the tool's name; `when` narrows it by the arguments."""

    pattern: str
    ruling: Ruling
    when: Callable[[Mapping[str, Any]], bool] | None = None


@dataclass(frozen=True, slots=True)
class Permissions:
    """The first rule that fits decides, else `default`. `epoch` rises with every change: what was
    approved under an older one is asked again. `ask_expires_s`: how long an approval is waited
    for, None for ever."""

    rules: tuple[Rule, ...] = ()
    default: Ruling = Ruling.ALLOW
    epoch: int = 0
    ask_expires_s: float | None = None

    def ruling(self, tool: str, arguments: Mapping[str, Any]) -> Ruling:
        """What these rules say about a call. A `when` that raises denies."""
        for rule in self.rules:
            if not fnmatchcase(tool, rule.pattern):
                continue
            try:
                fits = rule.when is None or rule.when(jsontext.copied(arguments))
            except Exception:  # noqa: BLE001 - the arguments are an agent's
                return Ruling.DENY
            if fits:
                return rule.ruling
        return self.default


def subject(
    tool: str, version: str, arguments: Mapping[str, Any], revision: str, epoch: int
) -> str:
    """The digest that an approval is bound to; `revision` is the tool's word for the state of the
    resource."""
    return of_json([tool, version, arguments, revision, epoch])
