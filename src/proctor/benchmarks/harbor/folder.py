"""One task folder becomes one TaskSpec, or one that says why it cannot run."""

import os
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from proctor.benchmarks.harbor.config import ConfigError, TaskFile
from proctor.benchmarks.harbor.config import parse as parse_config
from proctor.benchmarks.harbor.grounds import (
    ENVIRONMENT,
    TEST_SCRIPT,
    Places,
    compose_file,
    owns_tests,
    places,
    verifier_part,
)
from proctor.benchmarks.harbor.hashing import files_digest
from proctor.benchmarks.harbor.instruction import strip_canary
from proctor.benchmarks.harbor.jobs import VerifierJob
from proctor.benchmarks.harbor.steps import identity_of_steps, load_steps, missing_of_steps
from proctor.benchmarks.harbor.support import unsupported
from proctor.benchmarks.harbor.templates import HostVariables, Resolved
from proctor.benchmarks.harbor.texts import Unusable, read_bytes, read_text
from proctor.benchmarks.harbor.tree import Limits, TaskTree, walk
from proctor.evals.contracts.task import Reference, TaskSpec
from proctor.kernel import jsontext
from proctor.kernel.errors import DataError

SOLVE_SCRIPT = "solution/solve.sh"
EVALUATION_GRACE_S = 30.0
"""Beside the verifier's own limit: time to upload the tests and to read the reward."""


@dataclass(frozen=True, slots=True)
class LoadSettings:
    """How task folders are read."""

    limits: Limits = Limits()
    host: HostVariables = field(default_factory=lambda: HostVariables(os.environ))


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
    except (Unusable, DataError) as error:
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
        raise Unusable(*tree.problems)
    try:
        return parse_config(read_bytes(tree.folder, "task.toml"))
    except ConfigError as error:
        raise Unusable(*tree.problems, *error.problems) from None


def _task(tree: TaskTree, config: TaskFile, settings: LoadSettings) -> TaskSpec:
    folder, paths = tree.folder, {entry.path for entry in tree.files}
    problems = [*tree.problems, *_missing(tree, paths, config), *unsupported(config, tree)]
    host = settings.host
    verifier_env = host.resolve("verifier.env", config.verifier.env)
    problems += host.resolve("environment.env", config.environment.env).problems
    problems += verifier_env.problems
    if folder.name != folder.name.strip() and config.task is None:
        problems.append("the folder's name has blanks around it: rename it")
    if problems:
        raise Unusable(*problems)
    found = places(config, tree, host)
    job = _job(tree, config, verifier_env, paths)
    steps = load_steps(config, tree, job, host)
    if steps:
        job = replace(job, steps=steps, final=config.multi_step_reward_strategy == "final")
        instruction = steps[0].instruction
    else:
        instruction = strip_canary(read_text(folder, "instruction.md"))
    if not instruction.strip():
        raise Unusable("instruction.md is empty")
    return _spec(tree, config, _Loaded(instruction, found, job, verifier_env), host)


@dataclass(frozen=True, slots=True)
class _Loaded:
    instruction: str
    places: Places
    job: VerifierJob
    verifier_env: Resolved


def _missing(tree: TaskTree, paths: set[str], config: TaskFile) -> list[str]:
    needed = [] if config.steps else ["instruction.md"]
    section = config.environment
    composed = compose_file("environment", paths) is not None
    if section.docker_image is None and not config.portable and not composed:
        needed.insert(0, "environment/Dockerfile")
    if section.os == "linux" and not config.steps and not owns_tests(config, paths):
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
    return problems + missing_of_steps(config, paths)


def _job(tree: TaskTree, config: TaskFile, env: Resolved, paths: set[str]) -> VerifierJob:
    verifier, own = config.verifier, config.verifier.environment
    given = any(path.startswith("tests/") for path in paths) and not owns_tests(config, paths)
    section = config.environment if own is None else own
    return VerifierJob(
        (tree.folder / "tests",) if given else (),
        env.values,
        verifier.timeout_sec,
        section.memory_wish_mb,
        tuple(verifier.collect),
        tuple(config.artifacts),
        config.environment.healthcheck,
        verifier.separate,
        section.healthcheck if verifier.separate else None,
    )


def _spec(tree: TaskTree, config: TaskFile, found: _Loaded, host: HostVariables) -> TaskSpec:
    job, verifier = found.job, found.places.verifier
    reference, why_not = _reference(tree, config, host, job)
    metadata = {**config.metadata, **_package(config), **why_not}
    limits = [step.verifier.timeout_s for step in job.steps] or [job.timeout_s]
    return TaskSpec(
        id=_id(tree.folder, config),
        input=found.instruction,
        reference=reference,
        category=_category(config),
        metadata=jsontext.sanitized(metadata),
        environment=found.places.agent.spec,
        agent_timeout_s=job.steps[0].agent_timeout_s if job.steps else config.agent.timeout_sec,
        evaluation_timeout_s=max(limits) + EVALUATION_GRACE_S,
        evaluation_mode="fresh" if job.separate else "reuse",
        mode_is_fixed=True,
        evaluation_environment=None if verifier is None else verifier.spec,
        input_digest=_input_digest(tree, config, found),
        grading_digest=_grading_digest(tree, config, found),
        data=job,
    )


def _input_digest(tree: TaskTree, config: TaskFile, found: _Loaded) -> str:
    """Of everything that the agent sees."""
    steps: dict[str, Any] = {}
    files = tree.under("environment")
    if found.job.steps:
        steps["steps"] = identity_of_steps(found.job.steps)
        files += [e for e in tree.under("steps") if e.path.split("/")[2:3] == ["workdir"]]
    check = config.environment.healthcheck
    if check is not None:
        steps["healthcheck"] = check.model_dump(mode="json")
    identity = {
        "instruction": found.instruction,
        "environment": dict(found.places.agent.identity),
        "agent": config.agent.model_dump(mode="json"),
        "portable": config.portable,
    }
    return files_digest(files, {**identity, **steps})


def _grading_digest(tree: TaskTree, config: TaskFile, found: _Loaded) -> str:
    """Of everything that grades."""
    more: dict[str, Any] = {}
    files = tree.under("tests")
    if found.places.verifier is not None:
        more["environment"] = dict(found.places.verifier.identity)
        if verifier_part(config, {entry.path for entry in tree.files}) == ENVIRONMENT:
            files += tree.under("environment")
    if found.job.steps:
        files += [e for e in tree.under("steps") if e.path.split("/")[2:3] == ["tests"]]
        more["steps"] = [
            step.model_dump(mode="json", exclude={"verifier": {"env"}}) for step in config.steps
        ]
        more["strategy"] = config.multi_step_reward_strategy
    return files_digest(
        files,
        {
            "verifier": config.verifier.model_dump(
                mode="json", exclude={"env": True, "environment": {"env"}}
            ),
            "env": dict(found.verifier_env.identity),
            "artifacts": [a.model_dump(mode="json") for a in config.artifacts],
            **more,
        },
    )


def _reference(
    tree: TaskTree, config: TaskFile, host: HostVariables, job: VerifierJob
) -> tuple[Reference | None, dict[str, Any]]:
    """The reference solution, or why there is none although solution/ exists. A task with steps
    has one where every step has."""
    if job.steps and any(step.reference is None for step in job.steps):
        return None, {}
    if not job.steps and not tree.has(SOLVE_SCRIPT):
        return None, {}
    env = host.resolve("solution.env", config.solution.env)
    if env.problems:
        return None, {"no_reference": "; ".join(env.problems)}
    if job.steps:
        return job.steps[0].reference, {}
    return Reference(folder=tree.folder / "solution", script="solve.sh", env=env.values), {}


def _package(config: TaskFile) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if config.source is not None:
        found["source"] = config.source
    if config.task is not None:
        shown = config.task.model_dump(mode="json", exclude={"name"}, exclude_defaults=True)
        found |= {"package": shown} if shown else {}
    return found
