"""One container: made with its labels, started, looked at, restarted, removed."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from proctor.environments.contract import EnvironmentSpec, SessionPaths
from proctor.environments.docker import owned
from proctor.environments.docker.engine import Engine, EngineError, collected
from proctor.environments.docker.entrance import Entrance
from proctor.environments.docker.freezing import patiently, says_frozen, thawed
from proctor.environments.docker.http import Connection
from proctor.environments.docker.images import Image
from proctor.environments.docker.running import collect_raw
from proctor.environments.docker.sweeping import swept
from proctor.environments.network import NetworkMode
from proctor.kernel.errors import EnvironmentFault

# Process 1 waits for children so that what commands leave behind is reaped. It cannot be killed
# from inside, and ends only with the container.
MAIN = ("/bin/sh", "-c", "while :; do sleep 86400 & wait $!; done")
_CREATE_WAIT_S = 30.0
_SETTLE_S = 5.0
_ENTER_S = 5.0
_ATTACHED = {"Detach": False, "Tty": False}
_MB = 1_048_576
_DROPPED = ("NET_RAW", "MKNOD")
"""Capabilities of every default container that nothing needs: forged packets, device files."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What to make. `processes` is the limit where the specification has no wish; `walled`: its
    way out is not the engine's."""

    name: str
    labels: Mapping[str, str]
    spec: EnvironmentSpec
    image: Image
    paths: SessionPaths
    workdir: str
    env: Mapping[str, str]
    processes: int
    walled: bool

    @property
    def networked(self) -> bool:
        """Whether it needs a network of the engine's."""
        modes = {policy.mode for policy in self.spec.network.policies}
        return NetworkMode.PUBLIC in modes and not self.walled

    def to_json(self) -> dict[str, Any]:
        wishes = self.spec.resources
        host: dict[str, Any] = {
            "NetworkMode": "bridge" if self.networked else "none",
            "CapDrop": list(_DROPPED),
            "PidsLimit": wishes.pids or self.processes,
            "LogConfig": {"Type": "json-file", "Config": {"max-size": "1m"}},
            "RestartPolicy": {"Name": "no"},
        }
        if wishes.memory_mb is not None:
            memory = max(6, int(wishes.memory_mb)) * _MB  # engines refuse less than 6 MB
            host |= {"Memory": memory, "MemorySwap": memory}
        if wishes.cpus is not None:
            host["NanoCpus"] = max(1, int(wishes.cpus * 1e9))
        return {
            "Image": self.image.id,
            "Cmd": list(MAIN),
            "User": "0:0",
            "WorkingDir": self.workdir,
            "Env": [f"{name}={value}" for name, value in self.env.items()],
            "Labels": dict(self.labels),
            "Hostname": "proctor",
            "StopSignal": "SIGKILL",
            "Healthcheck": {"Test": ["NONE"]},
            "HostConfig": host,
        }


class Container:
    """A container by the name that it is given before it exists."""

    def __init__(self, engine: Engine, name: str) -> None:
        self.engine = engine
        self.name = name
        self.kills = 0
        self.entrance = Entrance()
        self._restarting = asyncio.Lock()
        self._creating: asyncio.Future[Any] | None = None

    async def create(self, wanted: Wanted) -> None:
        """Make it. A cancelled call still knows of a container that the engine makes later."""
        query = {"name": self.name}
        call = self.engine.call("POST", "/containers/create", query, wanted.to_json())
        self._creating = asyncio.ensure_future(call)
        try:
            answer = await asyncio.shield(self._creating)
        except EngineError as error:
            raise EnvironmentFault(f"no container: {error.message}") from error
        discarded = [text for text in answer.get("Warnings") or () if "discarded" in text.lower()]
        if discarded:
            raise EnvironmentFault(
                "the engine cannot enforce what the task asks for: " + "; ".join(discarded),
                code="unsupported",
                permanent=True,
            )

    async def start(self) -> None:
        """Start it. Raises EnvironmentFault `cannot_start` with what the engine says."""
        try:
            await self.engine.done("POST", f"/containers/{self.name}/start")
        except EngineError as error:
            raise EnvironmentFault(
                f"the container does not start: {error.message}", code="cannot_start"
            ) from error
        state = (await self.facts())["State"]
        if not state.get("Running"):
            raise EnvironmentFault(
                f"the container ended at once with exit code {state.get('ExitCode')}: the image "
                "needs /bin/sh and sleep, and an ENTRYPOINT that runs its arguments",
                code="cannot_start",
            )

    async def facts(self) -> Any:
        """The engine's description. Raises EnvironmentFault `environment_gone`."""
        try:
            return await self.engine.call("GET", f"/containers/{self.name}/json")
        except EngineError as error:
            raise self.fault(error, "look at it") from error

    async def running(self) -> bool:
        """Whether it is there and runs."""
        try:
            found = await self.engine.call("GET", f"/containers/{self.name}/json")
        except EngineError as error:
            if error.status == 404:
                return False
            raise self.fault(error, "look at it") from error
        return bool(found["State"].get("Running"))

    async def ensure_running(self) -> None:
        """Raise EnvironmentFault `environment_gone` unless it runs."""
        state = (await self.facts())["State"]
        if state.get("Running"):
            return
        why = " (out of memory)" if state.get("OOMKilled") else ""
        raise gone(f"container {self.name} has ended{why}: exit code {state.get('ExitCode')}")

    async def confirm_running(self) -> None:
        """Raise EnvironmentFault `environment_gone` unless commands start in it.

        An engine says "running" until a killed container has ended, so another command is tried,
        and if that does not start the container is given some seconds to end.
        """
        code, _ = await self.plain(["/bin/sh", "-c", ":"], limit_s=_SETTLE_S)
        if code == 0:
            return
        try:
            async with (
                asyncio.timeout(_SETTLE_S),
                self.engine.answer("POST", f"/containers/{self.name}/wait") as answer,
            ):
                await collected(answer)
        except EngineError as error:
            raise self.fault(error, "wait for it") from error
        except TimeoutError:  # it lives, and somebody inside took its shell away
            return
        raise gone(f"container {self.name} has ended")

    async def restart(self) -> bool:
        """Kill every process in it, whatever that did to its tools, and start it again.

        False when somebody else's restart, which began after this call, did that.
        """
        seen = self.kills
        async with self._restarting:
            if self.kills > seen:
                return False
            self.kills += 1
            try:
                await self._restarted()
            except EngineError as error:
                raise self.fault(error, "restart it") from error
        return True

    async def _restarted(self) -> None:
        async def ask() -> None:
            await self.engine.done("POST", f"/containers/{self.name}/restart", {"t": "0"})

        try:
            await ask()
        except EngineError as error:  # podman restarts nothing that is frozen
            if not says_frozen(error.message):
                raise
            await thawed(self.engine, self.name)
            await patiently(ask)

    async def sweep(self) -> bool:
        """End every process but the first from outside; False when that cannot be verified."""
        async with self.entrance.shut(_ENTER_S) as settled, self._restarting:
            if not settled:
                return False
            self.kills += 1
            return await swept(self.engine, await self.facts(), MAIN)

    async def begin(self, body: Any) -> tuple[str, Connection]:
        """Start a command; the exec's id and its raw stream. Raises EngineError."""
        path = f"/containers/{self.name}/exec"
        made = await patiently(lambda: self.engine.call("POST", path, None, body))
        start = f"/exec/{made['Id']}/start"
        stream = await patiently(lambda: self.engine.upgrade(start, _ATTACHED))
        return str(made["Id"]), stream

    async def plain(self, argv: list[str], *, limit_s: float) -> tuple[int | None, str]:
        """Run a small command of ours as root; its exit code and the start of its output."""
        body = {
            "AttachStdout": True, "AttachStderr": True, "Cmd": argv, "User": "0:0",
            "WorkingDir": "/",
        }  # fmt: skip
        try:
            exec_id, connection = await self.begin(body)
            text = await collect_raw(connection, limit_s)
            facts = await self.engine.call("GET", f"/exec/{exec_id}/json")
        except EngineError as error:
            raise self.fault(error, f"run {argv[0]}") from error
        return facts.get("ExitCode"), text

    async def remove(self) -> None:
        """Remove it with its volumes, also while it is being made. Idempotent."""
        if self._creating is not None and not self._creating.done():
            await asyncio.wait((self._creating,), timeout=_CREATE_WAIT_S)
        if self._creating is not None and self._creating.done() and not self._creating.cancelled():
            self._creating.exception()  # looked at: whoever made it has been told
        try:
            await owned.remove(self.engine, self.name)
        except EngineError as error:
            raise EnvironmentFault(
                f"cannot remove container {self.name}: {error.message}",
                hint=f"remove it by hand: docker rm -f -v {self.name}",
            ) from error

    def fault(self, error: EngineError, action: str) -> EnvironmentFault:
        """What an error answer about this container means."""
        text = error.message.lower()
        vanished = error.status == 404 and ("no such container" in text or "no container" in text)
        stopped = "is not running" in text or "container state improper" in text
        stopped = stopped and not says_frozen(text)
        if vanished or stopped:
            return gone(f"container {self.name} is gone: {error.message}")
        return EnvironmentFault(f"container {self.name}: cannot {action}: {error.message}")


def gone(what: str) -> EnvironmentFault:
    """The fault for a container that is not there any more."""
    return EnvironmentFault(what, code="environment_gone")
