"""Every provider passes the suite that ships with proctor."""

from proctor.environments.contract import Environment, EnvironmentSpec, Resources
from proctor.environments.local import LocalEnvironment
from proctor.environments.network import NetworkMode, NetworkPhases, NetworkPolicy
from proctor.testing.conformance.environment import EnvironmentConformance

OFFLINE = NetworkPolicy(NetworkMode.NO_NETWORK)
LISTED = NetworkPolicy(NetworkMode.ALLOWLIST, ("example.org", "*.example.org", "10.0.0.0/8"))


class TestLocal(EnvironmentConformance):
    def environment(self) -> Environment:
        return LocalEnvironment()

    def unsupported(self) -> list[EnvironmentSpec]:
        return [
            EnvironmentSpec(absolute_paths=True),
            EnvironmentSpec(network=NetworkPhases(run=OFFLINE)),
            EnvironmentSpec(network=NetworkPhases(evaluation=LISTED)),
            EnvironmentSpec(workdir="/app"),
            EnvironmentSpec(copies=(("/etc/hosts", "/app/hosts"),)),
            EnvironmentSpec(copies=(("/etc/hosts", "../hosts"),), resources=Resources(cpus=1.5)),
        ]
