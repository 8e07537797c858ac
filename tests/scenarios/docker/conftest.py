"""Sessions on every engine, and that nothing of them stays."""

import asyncio
import os
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import pytest
from tests.engines import IMAGE, address, ensure_image, missing

from proctor.environments.contract import EnvironmentSpec
from proctor.environments.docker import Containers, DockerEnvironment, DockerOptions
from proctor.environments.docker.endpoint import endpoint
from proctor.environments.docker.session import DockerSession

PLAIN = EnvironmentSpec()
LIMIT_S = 120.0
"""Only says that nothing hangs."""


@dataclass(frozen=True)
class Place:
    """One engine."""

    address: str

    def environment(self, **options: Any) -> DockerEnvironment:
        return DockerEnvironment(DockerOptions(**{"host": self.address, "image": IMAGE, **options}))

    def run(
        self,
        case: Callable[[DockerSession], Awaitable[Any]],
        spec: EnvironmentSpec = PLAIN,
        **options: Any,
    ) -> Any:
        """Run a case in a session of its own."""

        async def body() -> Any:
            async with asyncio.timeout(LIMIT_S):
                session = await self.environment(**options).open(spec, {"run": "scenario"})
                async with session:
                    return await case(session)

        return asyncio.run(body())

    def containers(self) -> Containers:
        """What the reaper asks."""
        return Containers(endpoint(self.address))

    def own(self) -> set[str]:
        """The containers of this process."""
        found = asyncio.run(self.containers().list_owned())
        return {c.name for c in found if c.owner is not None and c.owner.pid == os.getpid()}


@pytest.fixture(params=["docker", "podman"])
def place(request, need):
    need(*missing(request.param))
    ensure_image(request.param)
    found = Place(address(request.param))
    yield found
    assert found.own() == set(), "containers were left behind"
