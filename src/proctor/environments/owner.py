"""Who made a temporary root: told by its name from the first moment, and by a file inside.

The name carries the process and when it started, so that a root is marked the moment it exists,
even when the driver is killed before it could write the file.
"""

import os
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from proctor.environments import proctable
from proctor.kernel import jsontext

MARKER = ".proctor-owner.json"
_NAME = re.compile(r"proctor-([0-9]+)-([0-9]+)-[0-9a-f]{12}")


@dataclass(frozen=True, slots=True)
class Owner:
    """A process that may own temporary roots. `started_ticks` tells it from a later namesake,
    `namespace` (of process ids) from one that has the same id elsewhere on the machine."""

    pid: int
    started_ticks: int
    boot_id: str
    namespace: str = ""

    @classmethod
    def this_process(cls) -> "Owner":
        """The process that runs this code."""
        return _owner(os.getpid())

    def new_name(self) -> str:
        """A fresh name for a root of this owner."""
        return f"proctor-{self.pid}-{self.started_ticks}-{_random_name()}"

    def group_name(self, name: str) -> str:
        """The name of a control group: it has no file that could say more about its owner."""
        return f"{name}.{self.namespace}.{self.boot_id}"

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "Owner | None":
        """The owner that a marker or a label tells of; None where it tells of none."""
        pid, ticks = data.get("pid"), data.get("started_ticks")
        boot, namespace = data.get("boot_id"), data.get("pid_namespace", "")
        if type(pid) is int and type(ticks) is int and isinstance(boot, str):
            return cls(pid, ticks, boot, str(namespace))
        return None

    def to_json(self) -> dict[str, Any]:
        """What `from_json` reads."""
        return {
            "pid": self.pid,
            "started_ticks": self.started_ticks,
            "boot_id": self.boot_id,
            "pid_namespace": self.namespace,
        }

    def marker(self, provider: str, labels: Mapping[str, str]) -> bytes:
        """The content of the marker file."""
        record = {"provider": provider, "labels": dict(labels), **self.to_json()}
        return jsontext.pretty(record).encode()


_random_names: list[str] = []


def _random_name() -> str:
    """Twelve hexadecimal digits that nobody can foretell; drawn a hundred at a time."""
    while True:
        try:
            return _random_names.pop()
        except IndexError:
            drawn = secrets.token_hex(600)
            _random_names.extend(drawn[at : at + 12] for at in range(0, len(drawn), 12))


@cache
def _owner(pid: int) -> Owner:
    return Owner(
        pid, proctable.start_ticks(pid) or 0, proctable.boot_id(), proctable.pid_namespace()
    )


def owner_in_name(name: str) -> tuple[int, int] | None:
    """(pid, start in ticks) of the owner of a root with this name; None for other names."""
    match = _NAME.fullmatch(name)
    return (int(match[1]), int(match[2])) if match else None


def group_in_name(name: str) -> Owner | None:
    """The owner of a control group with this name; None for other names."""
    root, _, rest = name.partition(".")
    namespace, _, boot = rest.partition(".")
    found = owner_in_name(root)
    if found is None or not namespace.isdecimal() or not boot:
        return None
    return Owner(*found, boot, namespace)
