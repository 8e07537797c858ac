"""The provider: options, what it refuses and notes, opening."""

import asyncio
import os
import posixpath
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field

from proctor.environments.contract import (
    Environment,
    EnvironmentSession,
    EnvironmentSpec,
    SessionPaths,
)
from proctor.environments.docker.container import Container, Wanted
from proctor.environments.docker.endpoint import Endpoint, endpoint
from proctor.environments.docker.engine import Engine
from proctor.environments.docker.images import Image, Images, ImageSettings
from proctor.environments.docker.networks import Networks
from proctor.environments.docker.owned import Containers, labels_for
from proctor.environments.docker.probe import probed
from proctor.environments.docker.session import DockerSession, Place
from proctor.environments.image_names import image_name_problem
from proctor.environments.limits import TIMEOUT_CEILING_S
from proctor.environments.netns.sandbox import problem as switching_problem
from proctor.environments.netns.sandbox import proxy_variables
from proctor.environments.network import (
    NetworkPhases,
    lists_hosts,
    needs_switching,
)
from proctor.environments.owner import Owner
from proctor.environments.phasing import Mode, PhaseModes, host_problems, phased
from proctor.environments.placing import place_copies
from proctor.environments.wishes import resource_notices
from proctor.kernel.errors import EnvironmentFault

WORKSPACE = "/app"
"""Where commands start in an image that does not say."""

_LOGS = ("/logs", "/logs/agent", "/logs/verifier", "/logs/artifacts")
_HEALTH_PAUSE_S = 1.0


class DockerOptions(BaseModel):
    """`-p environment.KEY=VALUE` of `docker`.

    `host`: the engine's address (unix:///PATH or tcp://HOST:PORT), in place of DOCKER_HOST.
    `image`: an image to use in place of the task's own image or Dockerfile; what the Dockerfile
    copies is still put in place. `network`: the policy of the agent's run, in place of the task's;
    `network.baseline`, `.run` and `.evaluation` that of one phase. `allowed_hosts`: whom phases
    with `allowlist` may reach, in place of the task's list.
    `pull`: when images are pulled. `build_timeout_s`, `pull_timeout_s`: the longest that one may
    take. `timeout_ceiling_s`: the longest that one command may take. `processes`: how many
    processes a container may have. `healthcheck`: a command that must succeed before the container
    is used, within `healthcheck_timeout_s`.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    host: str | None = None
    image: str | None = Field(default=None, min_length=1)
    network: Mode | PhaseModes | None = None
    allowed_hosts: tuple[str, ...] = ()
    pull: Literal["missing", "never", "always"] = "missing"
    build_timeout_s: float = Field(default=600.0, gt=0, allow_inf_nan=False)
    pull_timeout_s: float = Field(default=1_800.0, gt=0, allow_inf_nan=False)
    timeout_ceiling_s: float = Field(default=TIMEOUT_CEILING_S, gt=0, allow_inf_nan=False)
    processes: int = Field(default=4_096, ge=16)
    healthcheck: str | None = None
    healthcheck_timeout_s: float = Field(default=60.0, gt=0, allow_inf_nan=False)


class DockerEnvironment(Environment):
    """Opens containers on any engine that speaks the Docker API."""

    id: ClassVar[str] = "docker"
    Options: ClassVar[type[Any] | None] = DockerOptions

    def __init__(self, options: DockerOptions | None = None) -> None:
        super().__init__(options or DockerOptions())
        self._settings: DockerOptions = self.options

    def endpoint(self) -> Endpoint:
        """The engine's address. Raises ValueError."""
        return endpoint(self._settings.host)

    def requirements(self) -> list[str]:
        found = self._probed()
        return [found] if isinstance(found, str) else []

    def adapt(self, spec: EnvironmentSpec) -> EnvironmentSpec:
        phases = phased(spec.network, self._settings.network, self._settings.allowed_hosts)
        if phases != spec.network:
            spec = replace(spec, network=phases)
        if self._settings.image is not None:
            spec = replace(spec, image=self._settings.image, context=None)
        return spec

    def problems(self, spec: EnvironmentSpec) -> list[str]:
        spec = self.adapt(spec)
        found = []
        if spec.image is None and spec.context is None:
            found.append("needs an image: -p environment.image=NAME")
        elif spec.image is not None and (problem := image_name_problem(spec.image)):
            found.append(problem)
        found += self._network_problems(spec.network)
        if spec.driver_access and (reason := self._wall_problem()):
            found.append(
                f"programs in the container cannot reach the driver (its model gateway): {reason}"
            )
        for path in (spec.workdir, *(inside for _, inside in spec.copies)):
            first = posixpath.normpath(posixpath.join(WORKSPACE, path or ".")).lstrip("/")
            if first.split("/")[0] in ("", "proc", "sys", "dev") and path != "/":
                found.append(f"{path!r} belongs to the kernel of the container")
        if spec.resources.gpus:
            found.append(f"cannot give {spec.resources.gpus} GPU(s)")
        return found

    def notices(self, spec: EnvironmentSpec) -> list[tuple[str, str]]:
        found = []
        if self._settings.image is not None and spec.build:
            message = f"{self._settings.image} is used; skipped: " + "; ".join(spec.build)
            found.append(("image_not_built", message))
        here = self._probed()
        enforced = () if isinstance(here, str) else here.enforced
        return found + resource_notices(spec.resources, enforced)

    async def open_session(
        self, spec: EnvironmentSpec, labels: Mapping[str, str]
    ) -> EnvironmentSession:
        engine = Engine(self.endpoint())
        try:
            image = await self._image(engine, spec)
        except BaseException:
            engine.close()
            raise
        session, wanted = self._planned(engine, spec, labels, image)
        try:
            await self._filled(session, wanted)
        except BaseException:
            await session.close()
            raise
        return session

    def owned(self) -> Containers | None:
        """The containers on the engine; None where nobody names an engine and there is none."""
        try:
            where = self.endpoint()
        except ValueError:
            return None
        named = self._settings.host or os.environ.get("DOCKER_HOST")
        there = named or where.path is None or os.path.exists(where.path)
        return Containers(where) if there else None

    def facts(self) -> dict[str, Any]:
        here = self._probed()
        if isinstance(here, str):
            return {"isolation": "containers", "problem": here}
        return {"isolation": "containers", **here.facts}

    # --- parts

    def _network_problems(self, phases: NetworkPhases) -> list[str]:
        if not lists_hosts(phases):
            return []
        found = host_problems(phases)
        if reason := self._wall_problem():
            found.append(f"docker cannot enforce an allow-list here: {reason}")
        return found

    def _wall_problem(self) -> str:
        """Why the driver cannot make the way out of containers itself; empty when it can."""
        here = self._probed()
        if isinstance(here, str):
            return here
        return switching_problem() if here.here else "its engine runs on another machine"

    def _probed(self) -> Any:
        try:
            return probed(self.endpoint())
        except ValueError as error:
            return f"the engine's address is wrong: {error}"

    async def _image(self, engine: Engine, spec: EnvironmentSpec) -> Image:
        options = self._settings
        settings = ImageSettings(options.pull, options.pull_timeout_s, options.build_timeout_s)
        images = Images(engine, settings)
        if spec.context is not None:
            return await images.built(spec.context)
        if spec.image is None:  # `problems` has refused that
            raise EnvironmentFault("no image is named", code="unsupported", permanent=True)
        return await images.named(spec.image)

    def _planned(
        self, engine: Engine, spec: EnvironmentSpec, labels: Mapping[str, str], image: Image
    ) -> tuple[DockerSession, Wanted]:
        own = image.workdir
        workspace = own if own.startswith("/") and own != "/" else WORKSPACE
        paths = SessionPaths(workspace, "/tests", "/logs", "/solution")
        workdir = posixpath.normpath(posixpath.join(workspace, spec.workdir or "."))
        place = Place(paths, workdir, image.user or "0:0", self._settings.timeout_ceiling_s)
        name = Owner.this_process().new_name()
        container = Container(engine, name)
        walled = needs_switching(spec.network) and not self._wall_problem()
        networks = Networks(container, spec.network.baseline, walled=walled)
        session = DockerSession(container, place, networks)
        proxied = proxy_variables() if lists_hosts(spec.network) else {}
        env = {"TERM": "dumb", **proxied, **session.script_env(), **spec.env}
        if spec.context is not None:
            env.pop("PATH", None)  # the built image has it, with what its base image says
        wanted = Wanted(
            name, labels_for(labels), spec, image, paths, workdir, env,
            self._settings.processes, walled,
        )  # fmt: skip
        return session, wanted

    async def _filled(self, session: DockerSession, wanted: Wanted) -> None:
        """Make and start the container, and put everything into it."""
        spec, container = wanted.spec, session.container
        await container.create(wanted)
        await session.networks.created()
        logs = dict.fromkeys((*_LOGS, *(f"/logs/{name}" for name in spec.log_folders)))
        await session.files.make_folders(tuple(logs), 0o777)
        await container.start()
        await session.networks.started()
        if wanted.image.user.split(":")[0] not in ("", "0", "root"):
            session.files.ids = await _ids(session)
        if spec.context is None:
            await place_copies(session, spec.copies)
        await self._healthy(session)

    async def _healthy(self, session: DockerSession) -> None:
        command, limit_s = self._settings.healthcheck, self._settings.healthcheck_timeout_s
        if command is None:
            return
        try:
            async with asyncio.timeout(limit_s):
                while not (await session.exec(command, timeout_s=limit_s)).ok:  # noqa: ASYNC110
                    await asyncio.sleep(_HEALTH_PAUSE_S)
        except TimeoutError:
            raise EnvironmentFault(
                f"the health check did not succeed within {limit_s:g} s: {command}",
                code="unhealthy",
            ) from None


async def _ids(session: DockerSession) -> tuple[int, int]:
    """The image's own user, to whom files that are placed belong."""
    found = await session.exec("id -u; id -g")
    words = found.stdout.split()
    if not found.ok or len(words) != 2:
        raise EnvironmentFault(f"the image's user cannot run commands: {found.stderr.strip()}")
    return int(words[0]), int(words[1])
