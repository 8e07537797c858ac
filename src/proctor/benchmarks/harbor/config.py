"""task.toml as the Harbor task format writes it, schema versions 1.0 to 1.4.

Unknown keys are ignored; types are strict (`"5"` is not a number). Durations are seconds.
The sections of an environment are in `proctor.benchmarks.harbor.sections`.
"""

import re
import tomllib
import unicodedata
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    AliasChoices,
    BeforeValidator,
    Field,
    ValidationError,
    model_validator,
)

from proctor.benchmarks.harbor.sections import (
    EnvironmentSection,
    HealthcheckSection,
    PhaseSection,
    Script,
    Seconds,
    Section,
    User,
)
from proctor.benchmarks.harbor.sound import inside

_NAME_PART = r"[A-Za-z0-9][A-Za-z0-9._-]*"
_TASK_NAME = re.compile(f"{_NAME_PART}/{_NAME_PART}")
_RESERVED = re.compile(r"(con|prn|aux|nul|com[1-9]|lpt[1-9])(\..*)?", re.IGNORECASE)
_NOT_PORTABLE = re.compile(r'[<>:"/\\|?*\x00-\x1f]')


class ConfigError(ValueError):
    """task.toml cannot be used; `problems` has one line each."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("; ".join(problems))
        self.problems = problems


def _task_name(name: str) -> str:
    if not _TASK_NAME.fullmatch(name) or ".." in name:
        raise ValueError(f"must have the form org/name (letters, digits, '.', '_', '-'): {name!r}")
    return name


def _schema_version(version: str) -> str:
    if not re.fullmatch(r"1(\.\d+)?", version):
        raise ValueError(f"schema version {version!r} is not known (known: 1.0 to 1.4)")
    return version


def _step_name(name: str) -> str:
    portable = (
        name.strip(". ") == name != ""
        and len(name.encode("utf-8", "replace")) <= 255
        and not _NOT_PORTABLE.search(name)
        and not _RESERVED.fullmatch(name)
    )
    if not portable:
        raise ValueError(f"must be the name of one portable folder, at most 255 bytes: {name!r}")
    return name


def _artifact(value: Any) -> Any:
    if isinstance(value, str):
        return {"source": value}
    if not isinstance(value, dict):
        raise ValueError(f"must be text or a table, found {value!r:.60}")
    return value


class Author(Section):
    """One author of a task."""

    name: str
    email: str | None = None


class TaskSection(Section):
    """[task]: the identity of the task as a package."""

    name: Annotated[str, AfterValidator(_task_name)]
    version: str | None = None
    description: str = ""
    keywords: list[str] = Field(default_factory=list)
    authors: list[Author] = Field(default_factory=list)


class AgentSection(PhaseSection):
    """[agent]: limits of the agent phase; no time-out means unlimited."""

    timeout_sec: Seconds | None = None
    user: User | None = None


class CollectSection(Section):
    """[[verifier.collect]]: a command after the agent phase, before artifacts are taken."""

    command: Script
    service: str = "main"
    timeout_sec: Seconds = 60.0
    user: User | None = None


class VerifierSection(PhaseSection):
    """[verifier]: how the tests run."""

    timeout_sec: Seconds = 600.0
    env: dict[str, str] = Field(default_factory=dict)
    user: User | None = None
    environment_mode: Literal["shared", "separate"] | None = None
    environment: EnvironmentSection | None = None
    collect: list[CollectSection] = Field(default_factory=list)

    @property
    def separate(self) -> bool:
        """Whether the tests run in an environment of their own."""
        if self.environment_mode is not None:
            return self.environment_mode == "separate"
        return self.environment is not None

    @model_validator(mode="after")
    def _one_environment(self) -> "VerifierSection":
        if self.environment_mode == "shared" and self.environment is not None:
            raise ValueError("environment_mode 'shared' and an [environment] exclude each other")
        return self


class SolutionSection(Section):
    """[solution]: variables of the reference solution."""

    env: dict[str, str] = Field(default_factory=dict)


class ArtifactEntry(Section):
    """A file or folder kept as evidence after the agent phase."""

    source: str
    destination: str | None = None
    exclude: list[str] = Field(default_factory=list)
    service: str | None = None

    @model_validator(mode="after")
    def _paths(self) -> "ArtifactEntry":
        if not self.source or ".." in self.source.split("/") or "\0" in self.source:
            raise ValueError(f"source must be a path without '..': {self.source!r}")
        inside(self.source)
        inside(self.destination or "")
        if self.service not in (None, "main") and not self.source.startswith("/"):
            raise ValueError(f"the source of service {self.service!r} must be an absolute path")
        target = self.destination
        if target is not None and (
            not target.strip("/.")
            or target.startswith("/")
            or ".." in target.split("/")
            or "\\" in target
            or "\0" in target
            or target == "manifest.json"
        ):
            raise ValueError(
                f"destination must be a relative path with '/', not manifest.json: {target!r}"
            )
        return self


Artifacts = list[Annotated[ArtifactEntry, BeforeValidator(_artifact)]]


class StepSection(Section):
    """[[steps]]: one step of a multi-step task."""

    name: Annotated[str, AfterValidator(_step_name)]
    agent: AgentSection = AgentSection()
    verifier: VerifierSection = VerifierSection()
    min_reward: float | dict[str, float] | None = None
    healthcheck: HealthcheckSection | None = None
    artifacts: Artifacts = Field(default_factory=list)


class TaskFile(Section):
    """The whole of task.toml."""

    schema_version: Annotated[str, AfterValidator(_schema_version)] = Field(
        default="1.4", validation_alias=AliasChoices("schema_version", "version")
    )
    source: str | None = None
    artifacts: Artifacts = Field(default_factory=list)
    multi_step_reward_strategy: Literal["mean", "final"] | None = None
    task: TaskSection | None = None
    metadata: dict[str, Any] = Field(default_factory=dict)
    agent: AgentSection = AgentSection()
    verifier: VerifierSection = VerifierSection()
    environment: EnvironmentSection = EnvironmentSection()
    solution: SolutionSection = SolutionSection()
    steps: list[StepSection] = Field(default_factory=list)

    @model_validator(mode="after")
    def _distinct_steps(self) -> "TaskFile":
        seen: dict[str, str] = {}
        for step in self.steps:
            folded = unicodedata.normalize("NFC", step.name).casefold()
            if folded in seen:
                raise ValueError(
                    f"the step names {seen[folded]!r} and {step.name!r} name the same folder"
                )
            seen[folded] = step.name
        return self

    @model_validator(mode="after")
    def _portable_flag(self) -> "TaskFile":
        if not isinstance(self.metadata.get("portable", False), bool):
            raise ValueError("metadata.portable must be true or false")
        return self

    @property
    def portable(self) -> bool:
        """Whether the scripts honour $WORKSPACE, $TESTS_DIR and $LOGS_DIR."""
        return self.metadata.get("portable") is True


def parse(data: bytes) -> TaskFile:
    """The checked content of a task.toml. Raises ConfigError with every problem."""
    try:
        table = tomllib.loads(data.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise ConfigError([f"task.toml is not UTF-8 (byte {error.start})"]) from None
    except tomllib.TOMLDecodeError as error:
        raise ConfigError([f"task.toml is not valid TOML: {error}"]) from None
    except (ValueError, RecursionError) as error:  # an integer or a nesting beyond all measure
        raise ConfigError([f"task.toml is not valid TOML: {str(error).split(';')[0]}"]) from None
    try:
        return TaskFile.model_validate(table)
    except ValidationError as error:
        raise ConfigError(_readable(error)) from None


_WORDS = {
    "string_type": "must be text",
    "float_type": "must be a number",
    "int_type": "must be a whole number",
    "bool_type": "must be true or false",
    "list_type": "must be an array",
    "dict_type": "must be a table",
    "model_type": "must be a table",
    "finite_number": "must be a finite number",
    "missing": "is missing",
}
"""What TOML authors call the types that pydantic names."""


def _readable(error: ValidationError) -> list[str]:
    lines = []
    for item in error.errors(include_url=False, include_context=False):
        place = ".".join(str(part) for part in item["loc"])
        reason = item["msg"].removeprefix("Value error, ")
        reason = _WORDS.get(item["type"], reason[:1].lower() + reason[1:])
        found = "" if item["type"] in ("missing", "value_error") else _found(item["input"])
        lines.append(f"task.toml: {place + ': ' if place else ''}{reason}{found}")
    return lines


def _found(value: Any) -> str:
    shown = repr(value)
    return f", found {shown if len(shown) <= 60 else shown[:57] + '…'}"
