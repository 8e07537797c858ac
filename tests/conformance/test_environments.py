"""Every provider passes the suite that ships with proctor."""

import pytest

from proctor.environments.bubblewrap import BubblewrapEnvironment
from proctor.environments.contract import Environment, EnvironmentSpec, Resources
from proctor.environments.local import LocalEnvironment
from proctor.environments.netns.sandbox import problem as switching_problem
from proctor.environments.network import NetworkMode, NetworkPhases, NetworkPolicy
from proctor.testing.conformance.environment import EnvironmentConformance
from proctor.testing.conformance.environment_network import NetworkCases, host_address

OFFLINE = NetworkPolicy(NetworkMode.NO_NETWORK)
LISTED = NetworkPolicy(NetworkMode.ALLOWLIST, ("example.org", "*.example.org", "10.0.0.0/8"))
WRONG = NetworkPolicy(NetworkMode.ALLOWLIST, ("https://example.org/",))


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


class Sandboxed(EnvironmentConformance):
    """The same for both network policies."""

    tells_lingering = False

    @pytest.fixture(autouse=True)
    def _installed(self, need):
        need(*missing())

    def environment(self) -> Environment:
        return BubblewrapEnvironment()

    def unsupported(self) -> list[EnvironmentSpec]:
        return [
            EnvironmentSpec(network=NetworkPhases(run=WRONG)),
            EnvironmentSpec(workdir="/usr/share"),
            EnvironmentSpec(copies=(("/etc/hosts", "/dev/x"),)),
            EnvironmentSpec(copies=(("/etc/hosts", "../bin/x"),)),
            EnvironmentSpec(resources=Resources(gpus=1)),
        ]


def missing() -> tuple[bool, str]:
    """What `need` takes: whether bubblewrap works here, else why not."""
    problems = BubblewrapEnvironment().requirements()
    return not problems, "; ".join(problems)


class TestBubblewrapPublic(Sandboxed):
    def spec(self) -> EnvironmentSpec:
        return EnvironmentSpec(absolute_paths=True)


class TestBubblewrapWithoutNetwork(Sandboxed):
    def spec(self) -> EnvironmentSpec:
        phases = NetworkPhases(OFFLINE, OFFLINE, OFFLINE)
        return EnvironmentSpec(absolute_paths=True, network=phases)


class TestBubblewrapSwitched(NetworkCases, Sandboxed):
    """A sandbox in a network of its own, whose policy can be switched."""

    @pytest.fixture(autouse=True)
    def _may_switch(self, need):
        need(not switching_problem(), f"network policies cannot be switched: {switching_problem()}")
        need(host_address(), "this machine has no network address besides the loopback")

    def spec(self) -> EnvironmentSpec:
        phases = NetworkPhases(baseline=OFFLINE, run=LISTED, evaluation=OFFLINE)
        return EnvironmentSpec(absolute_paths=True, network=phases)
