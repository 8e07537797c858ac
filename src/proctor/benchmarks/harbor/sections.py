"""The parts of task.toml that describe an environment and a phase of it."""

import re
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    model_validator,
)

from proctor.benchmarks.harbor.hosts import host_entry
from proctor.benchmarks.harbor.sound import image_name, script

_SIZE = re.compile(r"(\d{1,12}(?:\.\d{1,6})?)\s*([KMG])I?B?", re.IGNORECASE)
_KIB = {"K": 1, "M": 1024, "G": 1024 * 1024}


def _lower(value: Any) -> Any:
    return value.lower() if isinstance(value, str) else value


def _hosts(hosts: list[str]) -> list[str]:
    return [host_entry(host) for host in hosts]


Seconds = Annotated[float, Field(gt=0)]
Count = Annotated[int, Field(gt=0)]
User = str | int
Script = Annotated[str, AfterValidator(script)]


class Section(BaseModel):
    """A table of task.toml: strict types, unknown keys ignored."""

    model_config = ConfigDict(extra="ignore", strict=True, allow_inf_nan=False, frozen=True)


class PhaseSection(Section):
    """A section that may set the network policy of its phase."""

    network_mode: Literal["public", "no-network", "allowlist"] | None = None
    allowed_hosts: Annotated[list[str], AfterValidator(_hosts)] | None = None

    @model_validator(mode="after")
    def _hosts_need_allowlist(self) -> "PhaseSection":
        if self.allowed_hosts is not None and self.network_mode != "allowlist":
            raise ValueError("allowed_hosts needs network_mode = 'allowlist'")
        return self


class HealthcheckSection(Section):
    """A command that must succeed before the agent is set up."""

    command: Script
    interval_sec: Seconds = 5.0
    timeout_sec: Seconds = 30.0
    start_period_sec: Annotated[float, Field(ge=0)] = 0.0
    start_interval_sec: Seconds = 5.0
    retries: Count = 3


class TpuSection(Section):
    """A wish for tensor processing units."""

    type: str
    topology: Annotated[str, Field(pattern=r"^\d+(x\d+)+$")]


class McpServer(Section):
    """One MCP server offered to the agent."""

    name: str
    transport: Annotated[
        Literal["stdio", "sse", "streamable-http", "http"], BeforeValidator(_lower)
    ] = "sse"
    url: str | None = None
    command: str | None = None
    args: list[str] = []
    headers: dict[str, str] = {}

    @model_validator(mode="after")
    def _by_transport(self) -> "McpServer":
        if self.transport == "stdio":
            if not self.command:
                raise ValueError("transport 'stdio' needs a command")
            if self.headers:
                raise ValueError("headers are only for http transports")
        elif not self.url:
            raise ValueError(f"transport {self.transport!r} needs a url")
        for key, value in self.headers.items():
            if re.search(r"authorization|cookie|token|key|secret", key, re.IGNORECASE) and not (
                re.search(r"\$\{[^}]+\}", value)
            ):
                raise ValueError(f"header {key!r} must not hold a credential: use a ${{VAR}}")
        return self


class EnvironmentSection(PhaseSection):
    """[environment], and [verifier.environment] for a verifier with its own."""

    build_timeout_sec: Seconds = 600.0
    docker_image: Annotated[str, AfterValidator(image_name)] | None = None
    os: Annotated[Literal["linux", "windows"], BeforeValidator(_lower)] = "linux"
    cpus: Annotated[float, Field(gt=0)] | None = None
    memory_mb: Count | None = None
    storage_mb: Count | None = None
    memory: str | None = None
    storage: str | None = None
    gpus: Annotated[int, Field(ge=0)] | None = None
    gpu_types: list[str] | None = None
    tpu: TpuSection | None = None
    env: dict[str, str] = {}
    workdir: str | None = None
    skills_dir: str | None = None
    mcp_servers: list[McpServer] = []
    healthcheck: HealthcheckSection | None = None
    allow_internet: bool | None = None

    @model_validator(mode="after")
    def _sizes(self) -> "EnvironmentSection":
        for name in ("memory", "storage"):
            legacy, current = getattr(self, name), getattr(self, f"{name}_mb")
            if legacy is None:
                continue
            if current is not None and current != _megabytes(name, legacy):
                raise ValueError(f"{name} = {legacy!r} contradicts {name}_mb = {current}")
            _megabytes(name, legacy)
        return self

    @model_validator(mode="after")
    def _workdir(self) -> "EnvironmentSection":
        if self.workdir is not None and (not self.workdir.startswith("/") or "\0" in self.workdir):
            raise ValueError(f"workdir must be an absolute path: {self.workdir!r}")
        return self

    @property
    def memory_wish_mb(self) -> int | None:
        """Memory in MB, from either spelling."""
        return self.memory_mb if self.memory is None else _megabytes("memory", self.memory)

    @property
    def storage_wish_mb(self) -> int | None:
        """Storage in MB, from either spelling."""
        return self.storage_mb if self.storage is None else _megabytes("storage", self.storage)

    @property
    def baseline_mode(self) -> str | None:
        """The network mode; the legacy `allow_internet` counts only without a mode."""
        if self.network_mode is not None or self.allow_internet is None:
            return self.network_mode
        return "public" if self.allow_internet else "no-network"


def _megabytes(name: str, text: str) -> int:
    match = _SIZE.fullmatch(text.strip())
    kib = float(match[1]) * _KIB[match[2].upper()] if match else 0.0
    if kib <= 0:
        raise ValueError(f"{name} must be a size such as '2G', '512M' or '1024K': {text!r}")
    return max(1, -int(-kib // 1024))
