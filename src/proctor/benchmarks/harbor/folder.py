"""One task folder becomes one TaskSpec, or one that says why it cannot run."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from proctor.benchmarks.harbor.config import ArtifactEntry, CollectSection, ConfigError, TaskFile
from proctor.benchmarks.harbor.config import parse as parse_config
from proctor.benchmarks.harbor.hashing import files_digest
from proctor.benchmarks.harbor.instruction import strip_canary
from proctor.benchmarks.harbor.place import Place, place_of
from proctor.benchmarks.harbor.support import COMPOSE_FILES, unsupported
from proctor.benchmarks.harbor.templates import HostVariables, Resolved
from proctor.benchmarks.harbor.tree import Limits, TaskTree, walk
from proctor.evals.contracts.task import Reference, TaskSpec
from proctor.kernel import jsontext
from proctor.kernel.errors import DataError

TEXT_LIMIT_BYTES = 4_000_000
TEST_SCRIPT = "tests/test.sh"
SOLVE_SCRIPT = "solution/solve.sh"
EVALUATION_GRACE_S = 30.0
"""Beside the verifier's own limit: time to upload the tests and to read the reward."""


@dataclass(frozen=True, slots=True)
class LoadSettings:
    """How task folders are read."""

    limits: Limits = Limits()
    host: HostVariables = field(default_factory=lambda: HostVariables(os.environ))


@dataclass(frozen=True, slots=True)
class VerifierJob:
    """What grading a task needs: the tests, their variables and their limits (seconds, MB)."""

    tests: Path
    env: Mapping[str, str]
    timeout_s: float
    memory_mb: int | None
    collect: tuple[CollectSection, ...] = ()
    artifacts: tuple[ArtifactEntry, ...] = ()


class _Unusable(Exception):
    """Collected problems that end the reading of one folder."""

    def __init__(self, *problems: str) -> None:
        super().__init__("; ".join(problems))


def load_folder(folder: Path, settings: LoadSettings | None = None) -> TaskSpec:
    """Read a task folder. A task that cannot run has its reasons in `invalid`; never raises for
    what the folder holds."""
    settings = settings or LoadSettings()
    folder = Path(os.path.abspath(folder))
    config: TaskFile | None = None
    try:
        tree = walk(folder, settings.limits)
        config = _config(tree)
        return _task(tree, config, settings)
    except (_Unusable, DataError) as error:
        reason = str(error)
    except OSError as error:
        reason = f"cannot read {error.filename}: {error.strerror}"
    return TaskSpec(
        id=_id(folder, config),
        input="",
        category=_category(config),
        invalid=reason.encode("utf-8", "backslashreplace").decode(),
    )


def _id(folder: Path, config: TaskFile | None) -> str:
    if config is not None and config.task is not None:
        return config.task.name
    # The name of an unusable folder may be anything; the task still needs a valid id.
    name = folder.name.encode("utf-8", "backslashreplace").decode()
    return name.strip() or "_"


def _category(config: TaskFile | None) -> str | None:
    category = config.metadata.get("category") if config is not None else None
    return category if isinstance(category, str) and category.strip() else None


def _config(tree: TaskTree) -> TaskFile:
    if tree.cut_short or "task.toml" in tree.refused:
        raise _Unusable(*tree.problems)
    try:
        return parse_config(_bytes(tree.folder, "task.toml"))
    except ConfigError as error:
        raise _Unusable(*tree.problems, *error.problems) from None


def _bytes(folder: Path, name: str) -> bytes:
    path = folder / name
    if not path.is_file():
        raise _Unusable(f"{name} is missing")
    if path.stat().st_size > TEXT_LIMIT_BYTES:
        raise _Unusable(f"{name} is larger than {TEXT_LIMIT_BYTES:,} bytes")
    return path.read_bytes()


def _text(folder: Path, name: str) -> str:
    try:
        return _bytes(folder, name).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise _Unusable(f"{name} is not UTF-8 (byte {error.start})") from None


def _task(tree: TaskTree, config: TaskFile, settings: LoadSettings) -> TaskSpec:
    folder, paths = tree.folder, {entry.path for entry in tree.files}
    problems = [*tree.problems, *_missing(tree, paths, config), *unsupported(config, tree)]
    host = settings.host
    env = host.resolve("environment.env", config.environment.env)
    verifier_env = host.resolve("verifier.env", config.verifier.env)
    problems += [*env.problems, *verifier_env.problems]
    if folder.name != folder.name.strip() and config.task is None:
        problems.append("the folder's name has blanks around it: rename it")
    if problems:
        raise _Unusable(*problems)
    instruction = strip_canary(_text(folder, "instruction.md"))
    if not instruction.strip():
        raise _Unusable("instruction.md is empty")
    dockerfile = _text(folder, "environment/Dockerfile") if _builds(paths) else None
    ignored = _text(folder, "environment/.dockerignore") if _ignores(paths) else ""
    try:
        place = place_of(config, tree, dockerfile, ignored, env)
    except ValueError as error:
        raise _Unusable(str(error)) from None
    return _spec(tree, config, instruction, place, verifier_env, host)


def _builds(paths: set[str]) -> bool:
    return "environment/Dockerfile" in paths


def _ignores(paths: set[str]) -> bool:
    return "environment/.dockerignore" in paths


def _missing(tree: TaskTree, paths: set[str], config: TaskFile) -> list[str]:
    if config.steps:
        return []  # its scripts are in steps/, and such a task cannot run yet anyway
    needed = ["instruction.md"]
    section = config.environment
    composed = any(f"environment/{name}" in paths for name in COMPOSE_FILES)
    if section.docker_image is None and not config.portable and not composed:
        needed.insert(0, "environment/Dockerfile")
    if section.os == "linux" and not config.verifier.separate:
        needed.append(TEST_SCRIPT)
    known = paths | tree.refused
    problems = [
        f"{name} is missing"
        for name in needed
        if name not in known and name.split("/")[0] not in tree.refused
    ]
    if section.docker_image is None and not (tree.folder / "environment").exists():
        problems = [p for p in problems if not p.startswith("environment/")]
        problems.insert(0, "environment/ is missing (and there is no environment.docker_image)")
    return problems


def _spec(
    tree: TaskTree,
    config: TaskFile,
    instruction: str,
    place: Place,
    verifier_env: Resolved,
    host: HostVariables,
) -> TaskSpec:
    folder, verifier = tree.folder, config.verifier
    reference, why_not = _reference(tree, config, host)
    metadata = {**config.metadata, **_package(config), **why_not}
    return TaskSpec(
        id=_id(folder, config),
        input=instruction,
        reference=reference,
        category=_category(config),
        metadata=jsontext.sanitized(metadata),
        environment=place.spec,
        agent_timeout_s=config.agent.timeout_sec,
        evaluation_timeout_s=verifier.timeout_sec + EVALUATION_GRACE_S,
        input_digest=files_digest(
            tree.under("environment"), {"instruction": instruction, **place.identity}
        ),
        grading_digest=files_digest(
            tree.under("tests"),
            {
                "verifier": verifier.model_dump(mode="json", exclude={"env"}),
                "env": dict(verifier_env.identity),
                "artifacts": [a.model_dump(mode="json") for a in config.artifacts],
            },
        ),
        data=VerifierJob(
            folder / "tests",
            verifier_env.values,
            verifier.timeout_sec,
            config.environment.memory_wish_mb,
            tuple(verifier.collect),
            tuple(config.artifacts),
        ),
    )


def _reference(
    tree: TaskTree, config: TaskFile, host: HostVariables
) -> tuple[Reference | None, dict[str, Any]]:
    """The reference solution, or why there is none although solution/ exists."""
    if not tree.has(SOLVE_SCRIPT):
        return None, {}
    env = host.resolve("solution.env", config.solution.env)
    if env.problems:
        return None, {"no_reference": "; ".join(env.problems)}
    return Reference(folder=tree.folder / "solution", script="solve.sh", env=env.values), {}


def _package(config: TaskFile) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if config.source is not None:
        found["source"] = config.source
    if config.task is not None:
        shown = config.task.model_dump(mode="json", exclude={"name"}, exclude_defaults=True)
        found |= {"package": shown} if shown else {}
    return found
