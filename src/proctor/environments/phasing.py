"""`-p environment.network…`: a run's own network policies in place of a task's."""

from typing import Literal, TypeAlias

from pydantic import BaseModel, ConfigDict

from proctor.environments.network import NetworkMode, NetworkPhases, NetworkPolicy
from proctor.environments.proxy.allowed import unusable

PHASES = ("baseline", "run", "evaluation")
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
    """A task's policies as the options change them. A mode alone is that of the agent's run;
    `hosts` are those of every allow-list, in place of the task's. Idempotent."""
    chosen = network if isinstance(network, PhaseModes) else PhaseModes(run=network)
    modes = (chosen.baseline, chosen.run, chosen.evaluation)
    changed = (_policy(p, m, hosts) for p, m in zip(phases.policies, modes, strict=True))
    return NetworkPhases(*changed)


def host_problems(phases: NetworkPhases) -> list[str]:
    """What is wrong with the allow-lists themselves, whoever enforces them."""
    listed = dict.fromkeys(host for policy in phases.policies for host in policy.hosts)
    found = [
        f"the allow-list of a network phase holds {host!r}: neither a host name, *.NAME, "
        "an address nor a network"
        for host in unusable(listed)
    ]
    if any(p.mode is NetworkMode.ALLOWLIST and not p.hosts for p in phases.policies):
        found.append("an allow-list without hosts: -p environment.allowed_hosts='[\"HOST\"]'")
    return found


def all_phases(mode: NetworkMode) -> str:
    """The flags that set one policy for all phases, for messages."""
    return " ".join(f"-p environment.network.{p}={mode.value}" for p in PHASES)


def _policy(policy: NetworkPolicy, mode: Mode | None, hosts: tuple[str, ...]) -> NetworkPolicy:
    chosen = policy.mode if mode is None else NetworkMode(mode)
    if chosen is not NetworkMode.ALLOWLIST:
        return NetworkPolicy(chosen)
    return NetworkPolicy(chosen, hosts or policy.hosts)
