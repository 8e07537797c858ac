"""How often a task is attempted."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class AttemptPlan:
    """k attempts under a registered strategy (`avg` completes all, `pass` stops at success)."""

    k: int = 1
    strategy: str = "avg"

    def to_json(self) -> dict[str, Any]:
        return {"k": self.k, "strategy": self.strategy}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "AttemptPlan":
        return cls(int(data["k"]), str(data["strategy"]))
