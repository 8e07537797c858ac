"""Known secrets are taken out of what errors and results say before it becomes an event.

What a model asks for is left as it is: its arguments are executed, and must be the same after a
restart.
"""

from collections.abc import Mapping
from typing import TypeVar

from msgspec.structs import replace

from proctor.agent.core import commands as cmd
from proctor.kernel.redact import Redactor

_SAID: Mapping[type[cmd.Command], tuple[str, ...]] = {
    cmd.EndAttempt: ("text", "evidence", "objection"),
    cmd.Settle: ("text", "evidence", "handover"),
    cmd.CloseAction: ("reason",),
    cmd.CloseTurn: ("reason",),
    cmd.Close: ("reason",),
    cmd.GiveUp: ("reason",),
    cmd.Diverge: ("found",),
    cmd.Judge: ("checks",),
}
C = TypeVar("C", bound=cmd.Command)


def redacted(redactor: Redactor, command: C) -> C:
    """The command without any known secret in what was said."""
    names = _SAID.get(type(command))
    if names is None:
        return command
    given = {name: getattr(command, name) for name in names}
    clean = {name: redactor.facts(value) for name, value in given.items()}
    return command if clean == given else replace(command, **clean)
