"""Networks of a container, switched while it runs.

Either the container has no network of the engine's and the driver makes its way out through a
firewall inside its network namespace, as for `bubblewrap` ("walled"): that takes a driver with
root's rights on the machine of the engine. Or the engine connects the container to its default
bridge and disconnects it.
"""

from collections.abc import Mapping
from contextlib import AbstractContextManager, closing
from typing import Any

from proctor.environments.docker.container import Container
from proctor.environments.docker.engine import EngineError
from proctor.environments.docker.sweeping import is_here
from proctor.environments.netns.door import Doors
from proctor.environments.netns.namespace import NetworkNamespace
from proctor.environments.netns.sandbox import RESOLVER, SandboxNetwork
from proctor.environments.network import NetworkMode, NetworkPolicy
from proctor.environments.phasing import all_phases
from proctor.kernel.errors import EnvironmentFault

_RESOLVE = f"printf '%s' '{RESOLVER.decode()}' > /etc/resolv.conf"
_CALL_S = 30.0


class Networks:
    """The network of one container, from its creation to its end."""

    def __init__(self, container: Container, policy: NetworkPolicy, *, walled: bool) -> None:
        self._container = container
        self._policy = policy
        self._walled = walled
        self._wall: SandboxNetwork | None = None
        self._original: list[str] = []
        self._doors = Doors()

    async def created(self) -> None:
        """The container is made but not started: put the first policy in force."""
        self._original = _names(await self._container.facts())
        if not self._walled and self._original and self._policy.mode is NetworkMode.NO_NETWORK:
            await self._connect([])

    async def started(self) -> None:
        """The container was started, again perhaps, and has a new network namespace."""
        try:
            await self._doors.move(self._namespace)
        except OSError as error:
            raise _no_way(error) from error
        if not self._walled:
            return
        await self._drop_wall()
        pid = await self._first_process()
        self._wall = SandboxNetwork(self._policy, lambda: NetworkNamespace.of_process(pid))
        await self._wall.open()
        await self._container.plain(["/bin/sh", "-c", _RESOLVE], limit_s=_CALL_S)

    async def switch(self, policy: NetworkPolicy) -> None:
        """Put `policy` in force and check that it is. What it does not let through ends."""
        if self._wall is not None:
            await self._wall.switch(policy)
            self._policy = policy
            return
        if policy.mode is NetworkMode.ALLOWLIST:
            raise EnvironmentFault(
                "this container was made for policies without an allow-list",
                code="unsupported",
                permanent=True,
            )
        wanted = self._original if policy.mode is NetworkMode.PUBLIC else []
        if policy.mode is NetworkMode.PUBLIC and not wanted:
            raise EnvironmentFault(
                "this container was made without a network and cannot get one",
                code="unsupported",
                permanent=True,
            )
        await self._connect(wanted)
        self._policy = policy

    async def driver_address(self, port: int) -> str:
        """Where the driver's own port is reached inside. Raises EnvironmentFault."""
        try:
            return await self._doors.address(self._namespace, port)
        except OSError as error:
            raise _no_way(error) from error

    async def end_driver_access(self) -> None:
        """Close the ways to the driver. Idempotent."""
        await self._doors.close()

    async def close(self) -> None:
        """Close every connection that leads out, for good. Idempotent."""
        await self._doors.close(for_good=True)
        await self._drop_wall()

    async def _namespace(self) -> AbstractContextManager[NetworkNamespace]:
        return closing(NetworkNamespace.of_process(await self._first_process()))

    async def _first_process(self) -> int:
        facts = await self._container.facts()
        pid, own_id = int(facts["State"].get("Pid") or 0), str(facts["Id"])
        if not is_here(pid, own_id):
            raise EnvironmentFault(
                "the container is not among the processes of this machine, where its network "
                f"would be changed; {all_phases(NetworkMode.NO_NETWORK)} sets one policy for all",
                code="unsupported",
                permanent=True,
            )
        return pid

    async def _drop_wall(self) -> None:
        wall, self._wall = self._wall, None
        if wall is not None:
            await wall.close()

    async def _connect(self, wanted: list[str]) -> None:
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


def _no_way(error: OSError) -> EnvironmentFault:
    message = f"the container cannot be given a way to the driver: {error}"
    return EnvironmentFault(message, code="cannot_start")


def _names(facts: Any) -> list[str]:
    found = facts["NetworkSettings"].get("Networks") or {}
    return [name for name in found if name != "none"]
