"""Provider `local`: commands run as ordinary processes of this machine, in a temporary folder.

There is no isolation: what runs can read and change whatever the user who started proctor can.
"""

import os
from collections.abc import Mapping
from functools import cached_property, partial
from typing import Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field

from proctor.environments import proctable
from proctor.environments.child import Start
from proctor.environments.contract import (
    OUTPUT_LIMIT_BYTES,
    Command,
    Environment,
    EnvironmentSession,
    EnvironmentSpec,
    ExecResult,
    Resources,
    SessionPaths,
)
from proctor.environments.hosted import HostedSession, shell
from proctor.environments.killing import kill_found
from proctor.environments.limits import TIMEOUT_CEILING_S, clamp_timeout
from proctor.environments.network import NetworkMode
from proctor.environments.patience import Patience
from proctor.environments.placing import place_copies
from proctor.environments.process import run_child
from proctor.environments.rooted import gone
from proctor.environments.variables import SESSION_MARK, base_variables
from proctor.environments.wishes import image_notices, process_limits, resource_notices
from proctor.kernel.errors import EnvironmentFault

_FOLDERS = ("workspace", "home", "tmp", "logs")
# The others are made by whoever fills or asks for them: a folder costs 0.3 ms on a usual disk.
_KILL_WAIT_S = 2.0


class LocalOptions(BaseModel):
    """`-p environment.KEY=VALUE` of `local`.

    `strict_image`: refuse tasks that name an image or build one, instead of noting that it was
    not built. `timeout_ceiling_s`: the longest that one command may take.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    network: Literal["public"] = "public"
    strict_image: bool = False
    timeout_ceiling_s: float = Field(default=TIMEOUT_CEILING_S, gt=0, allow_inf_nan=False)


class LocalEnvironment(Environment):
    """Opens folders on this machine; see docs/environments.md for what that does not promise."""

    id: ClassVar[str] = "local"
    Options: ClassVar[type[Any] | None] = LocalOptions

    def __init__(self, options: LocalOptions | None = None) -> None:
        super().__init__(options or LocalOptions())
        self._settings: LocalOptions = self.options

    def cautions(self) -> list[str]:
        return [
            "environment 'local' gives no isolation: agents and graders can read and change "
            "everything that you can; use bubblewrap or docker for code that nobody has read"
        ]

    def problems(self, spec: EnvironmentSpec) -> list[str]:
        found = []
        if spec.absolute_paths:
            found.append(
                "needs bubblewrap or docker: its scripts use fixed paths such as /app and /tests"
            )
        else:
            for path in (spec.workdir, *(inside for _, inside in spec.copies)):
                if path is not None and _leaves_workspace(path):
                    found.append(f"needs bubblewrap or docker: {path!r} is outside the workspace")
        phases = spec.network
        for name in ("baseline", "run", "evaluation"):
            mode = getattr(phases, name).mode
            if mode is not NetworkMode.PUBLIC:
                found.append(f"needs bubblewrap or docker: its {name} network is {mode.value!r}")
        if self._settings.strict_image:
            found += [message for _, message in image_notices(spec)]
        return found

    def notices(self, spec: EnvironmentSpec) -> list[tuple[str, str]]:
        found = [] if self._settings.strict_image else image_notices(spec)
        return found + resource_notices(spec.resources, ("memory_mb",))

    async def open_session(
        self, spec: EnvironmentSpec, labels: Mapping[str, str]
    ) -> EnvironmentSession:
        session = LocalSession(spec, labels, self._settings)
        try:
            await place_copies(session, spec.copies)
        except BaseException:
            await session.close()
            raise
        return session

    def facts(self) -> dict[str, Any]:
        return {"isolation": "none", "shell": shell()}


class LocalSession(HostedSession):
    """One temporary folder with processes that know it as their workspace, home and so on."""

    isolated = False

    def __init__(
        self, spec: EnvironmentSpec, labels: Mapping[str, str], settings: LocalOptions
    ) -> None:
        logs = tuple(f"logs/{name}" for name in spec.log_folders)
        super().__init__("local", labels, tree="", folders=_FOLDERS + logs)
        self._spec = spec
        self._ceiling_s = settings.timeout_ceiling_s
        self._first_pid: int | None = None
        root = self._root
        self.paths = SessionPaths(
            f"{root}/workspace", f"{root}/tests", f"{root}/logs", f"{root}/solution"
        )
        self._workdir = self.resolve(spec.workdir or ".")

    @cached_property
    def _variables(self) -> dict[str, str]:
        """What commands see; many attempts never run one."""
        return {
            **base_variables(),
            "HOME": f"{self._root}/home",
            "TMPDIR": os.path.join(self._root, "tmp"),
            **self.script_env(),
            **self._spec.env,
            SESSION_MARK: self._name,
        }

    def make_more(self) -> None:
        os.makedirs(self._workdir, exist_ok=True)

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
        if user is not None:
            message = f"environment 'local' cannot run commands as another user ({user!r})"
            raise EnvironmentFault(message, code="unsupported", permanent=True)
        self.ensure_root()
        if self._first_pid is None:
            self._first_pid = proctable.newest_pid()
        argv = await self.argv(command, shell(), self._variables["TMPDIR"])
        limits = process_limits(resources or self._spec.resources)
        start = Start(
            argv if limits is None else limits.wrap(argv),
            self._workdir if cwd is None else self.resolve(cwd),
            {**self._variables, **env, SESSION_MARK: self._name} if env else self._variables,
            stdin,
        )
        return await run_child(
            start,
            timeout_s=clamp_timeout(timeout_s, self._ceiling_s),
            output_limit_bytes=output_limit_bytes,
            running=self._running,
        )

    async def driver_address(self, port: int) -> str:
        """The driver's own: nothing lies between."""
        if self._closed:
            raise gone("this environment is closed")
        return f"127.0.0.1:{port}"

    async def kill_processes(self) -> None:
        """Kill what commands left running, also in process groups of its own."""
        await super().kill_processes()
        if self._first_pid is None:
            return
        patience = Patience(_KILL_WAIT_S)
        look = partial(proctable.marked, SESSION_MARK, self._name, since=self._first_pid)
        while left := look():
            kill_found(left, look)
            if patience.over():
                raise EnvironmentFault(f"processes {left} do not end", code="unkillable")
            await patience.pause()

    def locate(self, path: str) -> list[str]:
        own = self._root + "/"
        if not path.startswith(own):
            raise EnvironmentFault(
                f"{path} is outside this environment ({self._root})",
                code="refused_path",
                permanent=True,
            )
        return path[len(own) :].split("/")


def _leaves_workspace(path: str) -> bool:
    return path.startswith("/") or ".." in path.split("/")
