"""One sandbox: a private tree on the host, and one bwrap for every command.

The commands of a session share its tree and nothing else: each has process and IPC namespaces of
its own, so no process outlives its command.
"""

import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

from proctor.environments.bubblewrap import started, system
from proctor.environments.bubblewrap.machine import CLEAN, Machine
from proctor.environments.child import Start
from proctor.environments.contract import (
    OUTPUT_LIMIT_BYTES,
    Command,
    EnvironmentSpec,
    ExecResult,
    Resources,
    SessionPaths,
)
from proctor.environments.disk import DiskWatch
from proctor.environments.grouping import ControlGroup, GroupLimits
from proctor.environments.hosted import HostedSession, shell
from proctor.environments.limits import ProcessLimits, clamp_timeout
from proctor.environments.netns.sandbox import RESOLVER, SandboxNetwork, proxy_variables
from proctor.environments.network import NetworkMode, NetworkPolicy, lists_hosts
from proctor.environments.process import run_child
from proctor.environments.rooted import gone
from proctor.environments.spec import needs_own_network
from proctor.environments.variables import SESSION_MARK, base_variables
from proctor.kernel.errors import EnvironmentFault

_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_ROOT_NAMES = (None, "root", 0, "0")


@dataclass(frozen=True, slots=True)
class Settings:
    """What the provider's options say about every session."""

    timeout_ceiling_s: float
    processes: int | None
    exposed: tuple[str, ...]
    storage_mb: int


class BubblewrapSession(HostedSession):
    """A sandbox whose fixed paths are /app, /tests, /logs and /solution."""

    isolated = True
    paths = SessionPaths("/app", "/tests", "/logs", "/solution")

    def __init__(
        self,
        spec: EnvironmentSpec,
        labels: Mapping[str, str],
        machine: Machine,
        settings: Settings,
    ) -> None:
        super().__init__("bubblewrap", labels, tree="tree", folders=system.FOLDERS, ids=machine.ids)
        self._spec = spec
        self._machine = machine
        self._settings = settings
        self._policy = spec.network.baseline
        self._group: ControlGroup | None = None
        self._disk = DiskWatch(self._root, spec.resources.storage_mb or settings.storage_mb)
        self._network = SandboxNetwork(self._policy) if needs_own_network(spec) else None
        self._workdir = self.resolve(spec.workdir or ".")
        self._variables = {
            **base_variables(),
            "PATH": _PATH,
            "HOME": "/root",
            "USER": "root",
            # There is one user inside; tar would fail to hand files to others.
            "TAR_OPTIONS": "--no-same-owner",
            **self.script_env(),
            **(proxy_variables() if lists_hosts(spec.network) else {}),
            **spec.env,
        }
        words = list(machine.namespaces)
        if self._network is None and self._policy.mode is not NetworkMode.PUBLIC:
            words.append("--unshare-net")
        words += [*system.mounts(self._root, self._tree, settings.exposed), "--clearenv"]
        self._fixed_args = started.joined(words)

    def make_more(self) -> None:
        system.furnish(self._tree, self._ids, self._names(), self._settings.exposed)
        shm = os.path.join(self._root, system.SHM)
        os.mkdir(shm)
        for path in (shm, os.path.join(self._tree, "tmp")):
            os.chmod(path, 0o1777)  # noqa: S103 - as /tmp is everywhere; others cannot reach it
        if self._ids is not None:
            os.chown(shm, *self._ids)
        logs = [f"{self.paths.logs}/{name}" for name in self._spec.log_folders]
        for path in (self._workdir, *logs):
            self._files.make(self.locate(path), path)

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
        if user not in _ROOT_NAMES:
            message = f"environment 'bubblewrap' has one user, root; it cannot run as {user!r}"
            raise EnvironmentFault(message, code="unsupported", permanent=True)
        self.ensure_root()
        self._forget_preload()
        argv = await self.argv(command, shell(), "/tmp")  # noqa: S108 - inside the sandbox
        place = self._workdir if cwd is None else self.resolve(cwd)
        variables = {**self._variables, **env} if env else self._variables
        if self._network is not None:
            await self._network.open()
        async with self._grouped(resources) as group:
            before = group.kills() if group else 0
            limits = self._limits(resources or self._spec.resources, group)
            with started.descriptors(self._fixed_args, variables) as (args, report, status):
                within = self._network.entered() if self._network else None
                start = Start(
                    [*started.outer(self._machine, group), "--args", str(args),
                     "--json-status-fd", str(report), "--", *started.inner(argv, place, limits)],
                    cwd="/", env={**CLEAN, SESSION_MARK: self._name}, stdin=stdin,
                    keep_fds=(args, report), lingers=False, within=within,
                )  # fmt: skip
                kills = self._kills
                with self._disk.watched(self._kill_now):
                    result = await run_child(
                        start,
                        timeout_s=clamp_timeout(timeout_s, self._settings.timeout_ceiling_s),
                        output_limit_bytes=output_limit_bytes,
                        running=self._running,
                    )
                ran = self._checked(result, started.written(status), kills)
            if group is not None and group.kills() > before:
                ran = replace(ran, out_of_memory=True)
            return replace(ran, out_of_storage=True) if self._disk.full else ran

    async def set_network(self, policy: NetworkPolicy) -> None:
        """For running commands too. A sandbox whose specification needs no switch has none."""
        if self._closed:
            raise gone("this environment is closed")
        if self._network is not None:
            await self._network.switch(policy)
        elif policy != self._policy:
            await super().set_network(policy)

    async def driver_address(self, port: int) -> str:
        self.ensure_root()  # so that `close` knows of something to release
        if self._network is not None:
            return await self._network.driver_address(port)
        if self._policy.mode is NetworkMode.PUBLIC:  # in the host's own network
            return f"127.0.0.1:{port}"
        return await super().driver_address(port)

    async def end_driver_access(self) -> None:
        if self._network is not None:
            await self._network.end_driver_access()

    async def remove(self, path: str) -> None:
        """As the contract says; /etc, /tests, /logs and /solution are emptied and stay."""
        parts = self.ready(path)
        if not system.protected(parts):
            await super().remove(path)
            return
        await self.in_slices(lambda most: self._files.empty(parts, path, max_entries=most))

    def locate(self, path: str) -> list[str]:
        parts = [part for part in path.split("/") if part]
        if parts and system.reserved(parts[0]):
            raise EnvironmentFault(
                f"{path} belongs to the read-only system of the sandbox; use a command to see it",
                code="refused_path",
                permanent=True,
            )
        return parts

    # --- parts

    def _names(self) -> dict[str, bytes]:
        """The files of /etc that say who is who in the sandbox's network."""
        if self._network is not None:
            return {"resolv.conf": RESOLVER}
        return system.host_names() if self._policy.mode is NetworkMode.PUBLIC else {}

    @asynccontextmanager
    async def _grouped(self, resources: Resources | None) -> AsyncIterator[ControlGroup | None]:
        """The session's control group, or one of the command's own where its wishes differ."""
        if resources is None or resources == self._spec.resources:
            if self._group is None and (limits := GroupLimits.of(self._spec.resources)).controllers:
                self._group = ControlGroup(self._owner.group_name(self._name), limits)
            yield self._group
            return
        limits = GroupLimits.of(resources)
        if not limits.controllers:
            yield None
            return
        group = ControlGroup(self._owner.group_name(self._owner.new_name()), limits)
        try:
            yield group
        finally:
            await group.remove()

    def _limits(self, wishes: Resources, group: ControlGroup | None) -> ProcessLimits:
        """What is set on each process, where no group holds all of them together."""
        held = () if group is None else GroupLimits.of(wishes).controllers
        processes = self._settings.processes if "pids" in held else None
        processes = processes or wishes.pids or self._settings.processes
        return ProcessLimits(
            memory_mb=None if "memory" in held else wishes.memory_mb,
            file_size_mb=self._spec.resources.storage_mb,
            processes=processes if self._machine.counts_processes else None,
        )

    def _kill_now(self) -> None:
        """End all commands; whoever waits for them gets their results."""
        self._kills += 1
        for child in self._running:
            child.kill()

    async def release(self) -> None:
        if self._network is not None:
            await self._network.close()
        if self._group is not None:
            await self._group.remove()

    def _forget_preload(self) -> None:
        """An agent must not load its code into every later program, the grader's included."""
        try:
            os.unlink(f"{self._tree}/etc/ld.so.preload")
        except (FileNotFoundError, IsADirectoryError):
            pass

    def _checked(self, result: ExecResult, report: bytes, kills: int) -> ExecResult:
        """`result`, if bwrap says that the command ended, or began and was killed together with
        bwrap; nobody inside can fake that."""
        if b'"exit-code"' in report or result.timed_out or self._kills > kills:
            return result
        if b'"child-pid"' in report and result.exit_code is not None and result.exit_code < 0:
            return result  # it was started, and killed its own group: bwrap is in that too
        if not os.path.isdir(self._tree):
            raise gone(f"the environment's folder {self._tree} is gone")
        reason = result.stderr.strip()[-500:] or f"exit code {result.exit_code}"
        raise EnvironmentFault(f"the sandbox did not start: {reason}", code="cannot_start")
