"""Events of older versions, read as if they had been written today.

An event's body never changes on disk. When its schema changes, the new version number comes with a
step from the version before; reading applies as many steps as it takes.
"""

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from proctor.store.journal.errors import UnreadableEvent

Step: TypeAlias = Callable[[Mapping[str, Any]], Mapping[str, Any]]
"""From a body of one version to a body of the next."""


class Upgrades:
    """`newest`: kind → version that this program writes. `steps`: (kind, version) → step from it.

    A kind that is not in `newest` is handed on as it is. Raises ValueError for a step that is
    missing between version 1 and the newest.
    """

    def __init__(
        self,
        newest: Mapping[str, int] | None = None,
        steps: Mapping[tuple[str, int], Step] | None = None,
    ) -> None:
        self._newest = dict(newest or {})
        self._steps = dict(steps or {})
        for kind, version in self._newest.items():
            for old in range(1, version):
                if (kind, old) not in self._steps:
                    raise ValueError(f"no step from version {old} of event {kind!r} to the next")

    def concerns(self, kind: str, version: int) -> bool:
        """Whether an event is not of the newest version."""
        return self._newest.get(kind, version) != version

    def apply(
        self, kind: str, version: int, body: Mapping[str, Any]
    ) -> tuple[int, Mapping[str, Any]]:
        """The newest version and its body. Raises UnreadableEvent."""
        newest = self._newest.get(kind, version)
        if version > newest:
            raise UnreadableEvent(
                f"event {kind!r} has version {version}; this proctor knows up to {newest}",
                hint="update proctor: a newer one wrote this journal",
            )
        for old in range(version, newest):
            body = self._steps[kind, old](body)
        return newest, body


AS_WRITTEN = Upgrades()
"""No upgrades."""
