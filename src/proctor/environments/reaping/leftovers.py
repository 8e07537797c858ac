"""What a driver owns, and whether that driver still lives.

A source knows one kind of thing: how to list those that carry an owner's mark, and how to remove
one. The things of this host are known here; a provider with others gives its own source from
`Environment.owned()`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol

from proctor.environments import proctable
from proctor.environments.owner import Owner

SPARED_LABELS = ("kept", "resumable")
"""What carries one of these labels stays although its owner is dead, until somebody asks."""


class State(StrEnum):
    """Of the owner of something: only what belongs to dead owners is ever removed."""

    ALIVE = "alive"
    DEAD = "dead"
    UNKNOWN = "unknown"
    """It ran in another pid namespace or on another machine: this one cannot tell."""


@dataclass(frozen=True, slots=True)
class Leftover:
    """One thing that a driver owns. `where` is how its source finds it again."""

    kind: str
    name: str
    owner: Owner | None
    provider: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    where: str = ""

    @property
    def state(self) -> State:
        """Whether its owner lives."""
        return State.UNKNOWN if self.owner is None else state_of(self.owner)

    @property
    def spared(self) -> bool:
        """Whether somebody asked to keep it."""
        return any(self.labels.get(name) for name in SPARED_LABELS)

    def to_json(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "name": self.name,
            "provider": self.provider,
            "state": self.state.value,
            "spared": self.spared,
            "pid": self.owner.pid if self.owner is not None else None,
            "labels": dict(self.labels),
        }


class Source(Protocol):
    """One kind of thing. `rank` orders removal: processes (0) before what they use."""

    rank: int

    async def list_owned(self) -> list[Leftover]:
        """Everything of this kind with an owner's mark. Raises EnvironmentFault."""
        ...

    async def remove(self, item: Leftover) -> None:
        """Remove one; nothing happens when it is gone. Raises EnvironmentFault or OSError."""
        ...


def state_of(owner: Owner) -> State:
    """Whether a driver lives.

    A process with its id that started at the same tick is taken for it, whatever else is said. It
    is dead only for sure: it ran before this boot, or its pid namespace is ours and it is not
    there.
    """
    if proctable.start_ticks(owner.pid) == owner.started_ticks:
        return State.ALIVE
    boot, namespace = proctable.boot_id(), proctable.pid_namespace()
    if boot and owner.boot_id and owner.boot_id != boot:
        return State.DEAD
    if owner.boot_id and owner.namespace == namespace:
        return State.DEAD
    return State.UNKNOWN
