"""The providers that scenarios run on, and whether they work here."""

from dataclasses import dataclass

from tests import engines

from proctor.environments.bubblewrap import BubblewrapEnvironment
from proctor.environments.contract import Environment, EnvironmentSpec, Resources
from proctor.environments.local import LocalEnvironment
from proctor.environments.netns.sandbox import problem as switching_problem
from proctor.environments.network import NetworkMode, NetworkPhases, NetworkPolicy

PUBLIC = NetworkPolicy()
ANY = Resources()
NOTHING = NetworkPolicy(NetworkMode.NO_NETWORK)
LISTED = NetworkPolicy(NetworkMode.ALLOWLIST, ("example.org", "198.51.100.0/24"))


@dataclass(frozen=True, slots=True)
class Provider:
    """A provider by its name in tests: `docker` and `podman` are two engines of one."""

    name: str

    def missing(self) -> str:
        """Why it cannot be used here; empty when it can."""
        if self.name in engines.ADDRESSES:
            there, reason = engines.missing(self.name)
            return "" if there else reason
        if self.name == "bubblewrap":
            return "; ".join(BubblewrapEnvironment().requirements()) or switching_problem()
        return ""

    def environment(self) -> Environment:
        """A new provider."""
        if self.name in engines.ADDRESSES:
            from proctor.environments.docker import DockerEnvironment, DockerOptions

            engines.ensure_image(self.name)
            options = DockerOptions(host=engines.address(self.name), image=engines.IMAGE)
            return DockerEnvironment(options)
        return BubblewrapEnvironment() if self.name == "bubblewrap" else LocalEnvironment()

    def spec(self, *policies: NetworkPolicy, resources: Resources = ANY) -> EnvironmentSpec:
        """What it can honour of baseline, run and evaluation policy, and of the wishes."""
        if self.name == "local":
            return EnvironmentSpec(resources=resources)
        return EnvironmentSpec(
            absolute_paths=True, network=NetworkPhases(*policies), resources=resources
        )
