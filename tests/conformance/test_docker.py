"""The environment suite over containers, on every engine."""

import asyncio
import os

import pytest
from tests.engines import IMAGE, address, ensure_image, missing

from proctor.environments.contract import Environment, EnvironmentSpec, Resources
from proctor.environments.docker import Containers, DockerEnvironment, DockerOptions
from proctor.environments.docker.endpoint import endpoint
from proctor.environments.netns.sandbox import problem as switching_problem
from proctor.environments.network import NetworkMode, NetworkPhases, NetworkPolicy
from proctor.testing.conformance.environment import EnvironmentConformance
from proctor.testing.conformance.environment_network import NetworkCases, host_address

OFFLINE = NetworkPolicy(NetworkMode.NO_NETWORK)


class Contained(EnvironmentConformance):
    """The same for every engine."""

    tells_lingering = False
    engine = ""

    @pytest.fixture(autouse=True)
    def _started(self, need):
        need(*missing(self.engine))
        ensure_image(self.engine)

    def environment(self) -> Environment:
        return DockerEnvironment(DockerOptions(host=address(self.engine), image=IMAGE))

    def spec(self) -> EnvironmentSpec:
        phases = NetworkPhases(OFFLINE, OFFLINE, OFFLINE)
        return EnvironmentSpec(absolute_paths=True, network=phases)

    def unsupported(self) -> list[EnvironmentSpec]:
        broken = NetworkPolicy(NetworkMode.ALLOWLIST, ("http://example.org/",))
        return [
            EnvironmentSpec(network=NetworkPhases(broken, broken, broken)),
            EnvironmentSpec(workdir="/proc/x"),
            EnvironmentSpec(copies=(("/etc/hosts", "/dev/x"),)),
            EnvironmentSpec(resources=Resources(gpus=1)),
        ]

    def traces(self) -> set[str]:
        found = asyncio.run(Containers(endpoint(address(self.engine))).list_owned())
        return {c.name for c in found if c.owner is not None and c.owner.pid == os.getpid()}


class TestDocker(Contained):
    engine = "docker"


class TestPodman(Contained):
    engine = "podman"


class Switched(NetworkCases):
    """Containers whose policy is switched: the cases of networks only."""

    engine = ""

    @pytest.fixture(autouse=True)
    def _may_switch(self, need):
        need(*missing(self.engine))
        need(not switching_problem(), f"network policies cannot be switched: {switching_problem()}")
        need(host_address(), "this machine has no network address besides the loopback")
        ensure_image(self.engine)

    environment = Contained.environment
    traces = Contained.traces


class TestDockerSwitched(Switched):
    engine = "docker"


class TestPodmanSwitched(Switched):
    engine = "podman"
