"""Network policy: a mode and, for `allowlist`, the hosts it lets through."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class NetworkMode(StrEnum):
    """`public` is what the host itself reaches; `no-network` is nothing but the model gateway."""

    PUBLIC = "public"
    NO_NETWORK = "no-network"
    ALLOWLIST = "allowlist"


@dataclass(frozen=True, slots=True)
class NetworkPolicy:
    """One phase's policy. `hosts` only with `allowlist`: names, `*.` wildcards, IPs, CIDR."""

    mode: NetworkMode = NetworkMode.PUBLIC
    hosts: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        out: dict[str, Any] = {"mode": self.mode.value}
        if self.hosts:
            out["hosts"] = list(self.hosts)
        return out

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "NetworkPolicy":
        return cls(NetworkMode(data["mode"]), tuple(data.get("hosts", ())))


PUBLIC = NetworkPolicy()


@dataclass(frozen=True, slots=True)
class NetworkPhases:
    """The policy of each phase: trusted set-up, the agent's run, evaluation."""

    baseline: NetworkPolicy = PUBLIC
    run: NetworkPolicy = PUBLIC
    evaluation: NetworkPolicy = PUBLIC

    @property
    def switches(self) -> bool:
        """Whether the policy changes while the environment lives."""
        return not (self.baseline == self.run == self.evaluation)

    @property
    def policies(self) -> tuple[NetworkPolicy, ...]:
        """Those of baseline, run and evaluation."""
        return (self.baseline, self.run, self.evaluation)

    def to_json(self) -> dict[str, Any]:
        return {
            "baseline": self.baseline.to_json(),
            "run": self.run.to_json(),
            "evaluation": self.evaluation.to_json(),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "NetworkPhases":
        return cls(*(NetworkPolicy.from_json(data[k]) for k in ("baseline", "run", "evaluation")))


def lists_hosts(phases: NetworkPhases) -> bool:
    """Whether some phase has an allow-list."""
    return any(policy.mode is NetworkMode.ALLOWLIST for policy in phases.policies)


def needs_switching(phases: NetworkPhases) -> bool:
    """Whether a sandbox needs a firewall of its own; else one policy is fixed when it opens."""
    return phases.switches or lists_hosts(phases)
