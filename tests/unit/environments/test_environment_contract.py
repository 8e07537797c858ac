import asyncio

import pytest

from proctor.environments.contract import Environment, EnvironmentSpec, Resources
from proctor.environments.local import LocalEnvironment
from proctor.environments.network import NetworkMode, NetworkPhases, NetworkPolicy
from proctor.kernel.errors import EnvironmentFault

OFFLINE = NetworkPolicy(NetworkMode.NO_NETWORK)


def test_open_cannot_be_replaced_by_a_provider():
    with pytest.raises(TypeError, match="open_session"):

        class Skipping(LocalEnvironment):
            async def open(self, spec, labels):
                return await self.open_session(spec, labels)

    class Fine(LocalEnvironment):
        id = "fine"

    assert Fine.open is Environment.open


def test_open_checks_the_plan_before_the_provider_sees_it():
    opened = []

    class Watched(LocalEnvironment):
        async def open_session(self, spec, labels):
            opened.append(spec)
            return await super().open_session(spec, labels)

    with pytest.raises(EnvironmentFault) as caught:
        asyncio.run(Watched().open(EnvironmentSpec(absolute_paths=True), {}))
    assert caught.value.fault_code == "unsupported"
    assert caught.value.permanent
    assert "bubblewrap or docker" in str(caught.value)
    assert opened == []


def test_open_uses_the_adapted_specification():
    class Adapting(LocalEnvironment):
        def adapt(self, spec):
            return EnvironmentSpec(env={"ADAPTED": "yes"})

    async def body():
        # What `adapt` takes away is not a problem any more.
        async with await Adapting().open(EnvironmentSpec(absolute_paths=True), {}) as session:
            return (await session.exec("echo $ADAPTED")).stdout

    assert asyncio.run(body()) == "yes\n"


def test_a_session_that_cannot_switch_the_network_says_so():
    async def body():
        async with await LocalEnvironment().open(EnvironmentSpec(), {}) as session:
            await session.set_network(OFFLINE)

    with pytest.raises(EnvironmentFault, match="cannot switch"):
        asyncio.run(body())


def test_specifications_travel_as_json():
    spec = EnvironmentSpec(
        absolute_paths=True,
        image="debian:12",
        build=("FROM x", "RUN y"),
        workdir="/task",
        env={"A": "b"},
        copies=(("/host", "/task"),),
        network=NetworkPhases(run=OFFLINE),
        resources=Resources(cpus=0.5, memory_mb=1, gpus=2),
    )
    assert EnvironmentSpec.from_json(spec.to_json()) == spec
    assert spec.network.switches
    assert not EnvironmentSpec().network.switches
