"""What an attempt asks of an environment: part of its plan."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from proctor.environments.network import NetworkMode, NetworkPhases, needs_switching


@dataclass(frozen=True, slots=True)
class Resources:
    """Wishes; None means no wish. Enforced where the provider can, else refused or noted."""

    cpus: float | None = None
    memory_mb: int | None = None
    storage_mb: int | None = None
    pids: int | None = None
    gpus: int | None = None

    def to_json(self) -> dict[str, Any]:
        names = ("cpus", "memory_mb", "storage_mb", "pids", "gpus")
        return {n: v for n in names if (v := getattr(self, n)) is not None}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "Resources":
        return cls(**data)


@dataclass(frozen=True, slots=True)
class EnvironmentSpec:
    """What one environment must offer. Part of the plan.

    `absolute_paths`: scripts use fixed paths such as /app, /tests, /logs, which the provider
    must supply privately. `image`: an image the task needs; `build`: lines of an image recipe
    (FROM, RUN) that a provider without images cannot honour. `workdir`: where commands start.
    `env`: variables set for every command. `copies`: (host path, path inside) placed at open.
    `context`: the host folder with the Dockerfile that `build`, `env`, `workdir` and `copies` were
    read from; a provider that builds images builds it, and then places no copies.
    `driver_access`: programs inside must reach a service of the driver (a model gateway) under
    every policy; see `EnvironmentSession.driver_address`. `log_folders`: what must be there below
    `paths.logs` before anything runs.
    """

    absolute_paths: bool = False
    image: str | None = None
    build: tuple[str, ...] = ()
    workdir: str | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    copies: tuple[tuple[str, str], ...] = ()
    network: NetworkPhases = NetworkPhases()
    resources: Resources = Resources()
    context: str | None = None
    driver_access: bool = False
    log_folders: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        context: dict[str, Any] = {} if self.context is None else {"context": self.context}
        if self.driver_access:
            context["driver_access"] = True
        if self.log_folders:
            context["log_folders"] = list(self.log_folders)
        return {
            "absolute_paths": self.absolute_paths,
            "image": self.image,
            "build": list(self.build),
            "workdir": self.workdir,
            "env": dict(self.env),
            "copies": [list(pair) for pair in self.copies],
            "network": self.network.to_json(),
            "resources": self.resources.to_json(),
            **context,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "EnvironmentSpec":
        return cls(
            absolute_paths=data["absolute_paths"],
            image=data["image"],
            build=tuple(data["build"]),
            workdir=data["workdir"],
            env=dict(data["env"]),
            copies=tuple((str(a), str(b)) for a, b in data["copies"]),
            network=NetworkPhases.from_json(data["network"]),
            resources=Resources.from_json(data["resources"]),
            context=data.get("context"),
            driver_access=data.get("driver_access", False),
            log_folders=tuple(data.get("log_folders", ())),
        )


def needs_own_network(spec: EnvironmentSpec) -> bool:
    """Whether a sandbox needs a network namespace that the driver enters: to switch its policy, or
    to let programs without a network reach the driver."""
    closed = spec.network.baseline.mode is not NetworkMode.PUBLIC
    return needs_switching(spec.network) or (spec.driver_access and closed)
