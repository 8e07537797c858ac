"""A session in a container."""

import asyncio
import posixpath
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from proctor.environments.contract import (
    DOWNLOAD_LIMIT_BYTES,
    OUTPUT_LIMIT_BYTES,
    Command,
    EnvironmentSession,
    ExecResult,
    Resources,
    SessionPaths,
)
from proctor.environments.docker.commands import Commands
from proctor.environments.docker.container import Container, gone
from proctor.environments.docker.ending import ended_inside
from proctor.environments.docker.files import ContainerFiles
from proctor.environments.docker.networks import Networks
from proctor.environments.docker.wrapper import Wrapper
from proctor.environments.limits import clamp_timeout
from proctor.environments.network import NetworkPolicy
from proctor.kernel.errors import EnvironmentFault

_LONG_SCRIPT = 100_000  # one argument holds at most 128 KiB
_REMOVE_S = 600.0


@dataclass(frozen=True, slots=True)
class Place:
    """What a session needs to know: where commands start, as whom, and for how long at most."""

    paths: SessionPaths
    workdir: str
    user: str
    timeout_ceiling_s: float


class DockerSession(EnvironmentSession):
    """A running container. Made by the provider, which also starts it."""

    isolated = True

    def __init__(self, container: Container, place: Place, networks: Networks) -> None:
        self.paths = place.paths
        self.files = ContainerFiles(container)
        self.networks = networks
        self.container = container
        self._place = place
        self._closed = False
        self._closing = asyncio.Lock()
        self._removed = False
        self._commands = Commands(container, networks, self._check_open)

    # --- commands

    async def exec(
        self,
        command: Command,
        *,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        user: str | int | None = None,
        stdin: bytes | None = None,
        timeout_s: float | None = None,
        output_limit_bytes: int = OUTPUT_LIMIT_BYTES,
        resources: Resources | None = None,
    ) -> ExecResult:
        self._check_open()
        wrapper = Wrapper()
        argv, is_script = await self._argv(command)
        folder = self._place.workdir if cwd is None else self.resolve(cwd)
        words = wrapper.argv(argv, folder, resources, script=is_script, has_input=bool(stdin))
        if not argv or not _sendable(words):
            return ExecResult(126, "", "cannot run this: it is empty, or no text\n")
        body = {
            "AttachStdin": bool(stdin),
            "AttachStdout": True,
            "AttachStderr": True,
            "Cmd": words,
            "Env": _variables(env),
            "User": self._place.user if user is None else str(user),
            "WorkingDir": "/",
        }
        limit_s = clamp_timeout(timeout_s, self._place.timeout_ceiling_s)
        return await self._commands.run(body, wrapper, stdin or None, limit_s, output_limit_bytes)

    async def _argv(self, command: Command) -> tuple[list[str], bool]:
        if not isinstance(command, str):
            return [str(word) for word in command], False
        data = command.encode("utf-8", "replace")
        if len(data) < _LONG_SCRIPT:
            return ["-c", data.decode()], True
        path = f"/tmp/proctor-script-{secrets.token_hex(6)}.sh"  # noqa: S108 - inside
        await self.files.write(path, data, 0o755)
        return [path], True

    async def kill_processes(self) -> None:
        """End everything from outside, or restart the container: no tool inside is needed."""
        self._check_open()
        await self._commands.end_all()

    # --- files

    async def upload(self, source: Path, target: str) -> None:
        await self.files.upload(Path(source), self._inside(target))

    async def download(
        self, source: str, target: Path, *, limit_bytes: int = DOWNLOAD_LIMIT_BYTES
    ) -> None:
        await self.files.download(self._inside(source), Path(target), limit_bytes)

    async def read(self, path: str, *, limit_bytes: int = 10_000_000) -> bytes:
        return await self.files.read(self._inside(path), limit_bytes)

    async def write(self, path: str, data: bytes, *, mode: int = 0o644) -> None:
        await self.files.write(self._inside(path), data, mode)

    async def remove(self, path: str) -> None:
        inside = self._inside(path)
        if not await self.files.safe(inside) or await self.files.entry(inside) is None:
            return
        argv = ["/bin/rm", "-rf", "--", inside]
        code, text = await self.container.plain(argv, limit_s=_REMOVE_S)
        if await self.files.entry(inside) is not None:
            raise EnvironmentFault(
                f"cannot remove {path} (exit code {code}): {text.strip()[-300:]}"
            )

    # --- life cycle

    async def set_network(self, policy: NetworkPolicy) -> None:
        """Connect or disconnect the running container; open connections end."""
        self._check_open()
        await self.networks.switch(policy)

    async def driver_address(self, port: int) -> str:
        self._check_open()
        return await self.networks.driver_address(port)

    async def end_driver_access(self) -> None:
        await self.networks.end_driver_access()

    async def alive(self) -> bool:
        return not self._closed and await self.container.running()

    async def ended_inside(self) -> bool:
        return not self._closed and await ended_inside(self.container)

    async def close(self) -> None:
        """Remove the container with its volumes.

        Raises EnvironmentFault when it could not be removed; calling it again tries again.
        """
        self._closed = True
        async with self._closing:
            if self._removed:
                return
            await self.networks.close()
            await self.container.remove()
            self._removed = True
            await self._commands.ended()
            self.container.engine.close()

    def _check_open(self) -> None:
        if self._closed:
            raise gone("this environment is closed")

    def _inside(self, path: str) -> str:
        self._check_open()
        return self.resolve(path)

    def resolve(self, path: str) -> str:
        inside = posixpath.normpath(posixpath.join(self.paths.workspace, path))
        return "/" + inside.lstrip("/")  # POSIX keeps two slashes at the start


def _variables(env: Mapping[str, str] | None) -> list[str]:
    found = [f"{name}={value}" for name, value in (env or {}).items()]
    if not _sendable(found):
        message = "a variable cannot be set: it holds a NUL byte or is no text"
        raise EnvironmentFault(message, code="unsupported", permanent=True)
    return found


def _sendable(words: Sequence[str]) -> bool:
    """Whether these words can be arguments: no NUL bytes, nothing that UTF-8 cannot say."""
    try:
        return not any(b"\0" in word.encode() for word in words)
    except UnicodeEncodeError:
        return False
