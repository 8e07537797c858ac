"""The provider: options, what it refuses and notes, opening."""

import os
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict, Field, field_validator

from proctor.environments.bubblewrap import system
from proctor.environments.bubblewrap.machine import Machine, machine
from proctor.environments.bubblewrap.session import BubblewrapSession, Settings
from proctor.environments.cgroups import available
from proctor.environments.contract import (
    Environment,
    EnvironmentSession,
    EnvironmentSpec,
    Resources,
)
from proctor.environments.limits import TIMEOUT_CEILING_S
from proctor.environments.netns.metadata import Tables, guard
from proctor.environments.netns.sandbox import problem as switching_problem
from proctor.environments.network import (
    NetworkMode,
    NetworkPhases,
    needs_switching,
)
from proctor.environments.phasing import (
    PHASES,
    Mode,
    PhaseModes,
    all_phases,
    host_problems,
    phased,
)
from proctor.environments.placing import place_copies
from proctor.environments.spec import needs_own_network
from proctor.environments.wishes import image_notices, resource_notices
from proctor.kernel.errors import EnvironmentFault

_WISHES = {"memory": "memory_mb", "pids": "pids", "cpu": "cpus"}
"""What a control group's controller enforces."""


class BubblewrapOptions(BaseModel):
    """`-p environment.KEY=VALUE` of `bubblewrap`.

    `network`: the policy of the agent's run, in place of the task's; `network.baseline`, `.run`
    and `.evaluation` that of one phase. `allowed_hosts`: whom phases with `allowlist` may reach, in
    place of the task's list. `strict_image`: refuse tasks that
    name an image or build one, instead of noting that it was not built. `timeout_ceiling_s`: the
    longest that one command may take. `processes`: how many processes a sandbox may have, where
    the machine can tell sandboxes apart. `storage_mb`: how much disk a sandbox may fill whose task
    does not say. `expose`: folders of the host that the sandbox sees
    read-only under the same path, for programs that do not lie in /usr.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    network: Mode | PhaseModes | None = None
    allowed_hosts: tuple[str, ...] = ()
    strict_image: bool = False
    timeout_ceiling_s: float = Field(default=TIMEOUT_CEILING_S, gt=0, allow_inf_nan=False)
    processes: int = Field(default=4_096, ge=16)
    storage_mb: int = Field(default=20_000, ge=1)
    expose: tuple[str, ...] = ()

    @field_validator("expose")
    @classmethod
    def _sound(cls, paths: tuple[str, ...]) -> tuple[str, ...]:
        for path in paths:
            if path != os.path.normpath(path) or not path.startswith("/") or path.count("/") < 1:
                raise ValueError(f"{path!r} is not an absolute path in its shortest form")
            parts = path.strip("/").split("/")
            if not parts[0] or system.reserved(parts[0]) or system.protected(parts):
                raise ValueError(f"{path!r} belongs to the sandbox itself")
            if not os.path.isdir(path):
                raise ValueError(f"{path!r} is not a folder of this machine")
        return paths


class BubblewrapEnvironment(Environment):
    """Opens sandboxes with their own files, processes, users and (if asked) network."""

    id: ClassVar[str] = "bubblewrap"
    Options: ClassVar[type[Any] | None] = BubblewrapOptions

    def __init__(self, options: BubblewrapOptions | None = None) -> None:
        super().__init__(options or BubblewrapOptions())
        self._settings: BubblewrapOptions = self.options

    def requirements(self) -> list[str]:
        found = machine()
        return [found] if isinstance(found, str) else []

    def cautions(self) -> list[str]:
        found = machine()
        if isinstance(found, Machine) and found.runs_as_root:
            return [
                "environment 'bubblewrap' cannot give up root here: what runs inside has no "
                "capabilities, but reads the system's files as root; run proctor as a user"
            ]
        return []

    def adapt(self, spec: EnvironmentSpec) -> EnvironmentSpec:
        options = self._settings
        phases = phased(spec.network, options.network, options.allowed_hosts)
        return spec if phases == spec.network else replace(spec, network=phases)

    def problems(self, spec: EnvironmentSpec) -> list[str]:
        spec = self.adapt(spec)
        found = _network_problems(spec)
        for path in (spec.workdir, *(inside for _, inside in spec.copies)):
            parts = os.path.normpath(f"/app/{path}").split("/") if path else [""]
            if path and path.startswith("/"):
                parts = os.path.normpath(path).split("/")
            first = next((part for part in parts if part), None)
            if path and (first is None or system.reserved(first)):
                found.append(f"needs docker: {path!r} belongs to the read-only system")
        if spec.resources.gpus:
            found.append(f"cannot give {spec.resources.gpus} GPU(s): sandboxes see no devices")
        if self._settings.strict_image:
            found += [message for _, message in image_notices(spec)]
        return found

    def notices(self, spec: EnvironmentSpec) -> list[tuple[str, str]]:
        found = [] if self._settings.strict_image else image_notices(spec)
        return found + _resource_notices(spec.resources)

    async def open_session(
        self, spec: EnvironmentSpec, labels: Mapping[str, str]
    ) -> EnvironmentSession:
        here = machine()
        if isinstance(here, str):
            raise EnvironmentFault(here, code="unsupported", permanent=True)
        options = self._settings
        settings = Settings(
            options.timeout_ceiling_s, options.processes, options.expose, options.storage_mb
        )
        session = BubblewrapSession(spec, labels, here, settings)
        if here.ids is not None and _shares_network(spec.network) and not switching_problem():
            await guard(here.ids[0])
        try:
            await place_copies(session, spec.copies)
        except BaseException:
            await session.close()
            raise
        return session

    def owned(self) -> Tables:
        return Tables()

    def facts(self) -> dict[str, Any]:
        here = machine()
        if isinstance(here, str):
            return {"isolation": "namespaces", "problem": here}
        return {
            "isolation": "namespaces",
            "control_groups": list(available().controllers),
            "host_user": os.geteuid() if here.ids is None else here.ids[0],
            "nested_user_namespaces": "--disable-userns" not in here.namespaces,
        }


def _shares_network(phases: NetworkPhases) -> bool:
    """Whether a sandbox is in the host's own network."""
    return phases.baseline.mode is NetworkMode.PUBLIC and not needs_switching(phases)


def _resource_notices(wishes: Resources) -> list[tuple[str, str]]:
    """What of the wishes is not enforced here, or less than asked, and why."""
    groups, here = available(), machine()
    enforced = {"memory_mb", "storage_mb", *(_WISHES[name] for name in groups.controllers)}
    if isinstance(here, Machine) and here.counts_processes:
        enforced.add("pids")
    found = resource_notices(wishes, tuple(enforced))
    if wishes.memory_mb is not None and "memory" in groups.reasons:
        why = groups.reasons["memory"]
        message = f"memory_mb={wishes.memory_mb} is enforced for each process alone: {why}"
        found.append(("resource_not_enforced", message))
    return found


def _network_problems(spec: EnvironmentSpec) -> list[str]:
    phases = spec.network
    found = host_problems(phases)
    if needs_switching(phases) and (reason := switching_problem()):
        modes = ", ".join(f"{name} {getattr(phases, name).mode.value!r}" for name in PHASES)
        found.append(
            f"bubblewrap cannot enforce or switch these policies here ({modes}): {reason}; "
            f"{all_phases(NetworkMode.NO_NETWORK)} sets one policy for all phases"
        )
    elif needs_own_network(spec) and (reason := switching_problem()):
        found.append(
            "programs in a bubblewrap sandbox without network cannot reach the driver (its model "
            f"gateway) here: {reason}; {all_phases(NetworkMode.PUBLIC)} lets them reach everything"
        )
    return found
