"""`-p environment.network…`: a run's own network policies in place of a task's."""

from typing import Literal, TypeAlias

from pydantic import BaseModel, ConfigDict

from proctor.environments.network import NetworkMode, NetworkPhases, NetworkPolicy

Mode: TypeAlias = Literal["public", "no-network", "allowlist"]


class PhaseModes(BaseModel):
    """The mode of single phases; those that are not given stay the task's."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    baseline: Mode | None = None
    run: Mode | None = None
    evaluation: Mode | None = None


def phased(
    phases: NetworkPhases, network: Mode | PhaseModes | None, hosts: tuple[str, ...]
) -> NetworkPhases:
    """A task's policies as the options change them. A mode alone is that of every phase; `hosts`
    are those of every allow-list, in place of the task's. Idempotent."""
    modes = (
        (network.baseline, network.run, network.evaluation)
        if isinstance(network, PhaseModes)
        else (network, network, network)
    )
    changed = (_policy(p, m, hosts) for p, m in zip(phases.policies, modes, strict=True))
    return NetworkPhases(*changed)


def _policy(policy: NetworkPolicy, mode: Mode | None, hosts: tuple[str, ...]) -> NetworkPolicy:
    chosen = policy.mode if mode is None else NetworkMode(mode)
    if chosen is not NetworkMode.ALLOWLIST:
        return NetworkPolicy(chosen)
    return NetworkPolicy(chosen, hosts or policy.hosts)
