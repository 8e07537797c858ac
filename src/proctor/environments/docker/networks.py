"""Networks of a container: none, or the engine's default bridge, switched while it runs."""

from collections.abc import Mapping
from typing import Any

from proctor.environments.docker.container import Container
from proctor.environments.docker.engine import EngineError
from proctor.environments.network import NetworkMode, NetworkPolicy
from proctor.kernel.errors import EnvironmentFault


class Networks:
    """Knows which networks the container had when it was made, and connects it to those only."""

    def __init__(self, container: Container) -> None:
        self._container = container
        self._original: list[str] = []

    async def note(self) -> None:
        """Remember the networks of a new container."""
        self._original = _names(await self._container.facts())

    async def switch(self, policy: NetworkPolicy) -> None:
        """Put `policy` in force and check that it is. Open connections end with a network."""
        if policy.mode is NetworkMode.ALLOWLIST:
            raise EnvironmentFault(
                "environment 'docker' cannot enforce an allow-list", code="unsupported",
                permanent=True,
            )  # fmt: skip
        wanted = self._original if policy.mode is NetworkMode.PUBLIC else []
        if policy.mode is NetworkMode.PUBLIC and not wanted:
            raise EnvironmentFault(
                "this container was made without a network and cannot get one",
                code="unsupported",
                permanent=True,
            )
        present = _names(await self._container.facts())
        for name in present:
            if name not in wanted:
                await self._change(name, "disconnect", {"Force": True})
        for name in wanted:
            if name not in present:
                await self._change(name, "connect", {})
        now = _names(await self._container.facts())
        if sorted(now) != sorted(wanted):
            raise EnvironmentFault(f"the engine left the container in the networks {now}")

    async def _change(self, network: str, action: str, extra: Mapping[str, Any]) -> None:
        body = {"Container": self._container.name, **extra}
        try:
            await self._container.engine.done("POST", f"/networks/{network}/{action}", None, body)
        except EngineError as error:
            raise self._container.fault(error, f"{action} {network}") from error


def _names(facts: Any) -> list[str]:
    found = facts["NetworkSettings"].get("Networks") or {}
    return [name for name in found if name != "none"]
