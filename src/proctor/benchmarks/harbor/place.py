"""From [environment] and the Dockerfile to what a provider must offer."""

import posixpath
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from proctor.benchmarks.harbor.config import TaskFile
from proctor.benchmarks.harbor.context import BuildContext
from proctor.benchmarks.harbor.dockerfile import DockerfileError
from proctor.benchmarks.harbor.hosts import policy
from proctor.benchmarks.harbor.recipe import Recipe
from proctor.benchmarks.harbor.recipe import read as read_recipe
from proctor.benchmarks.harbor.templates import Resolved
from proctor.benchmarks.harbor.tree import TaskTree
from proctor.environments.contract import EnvironmentSpec, Resources
from proctor.environments.network import NetworkPhases
from proctor.kernel.ignore import DockerIgnore

MAX_COPIES = 10_000
"""The most (file, place) pairs of one task; a folder from which nothing is left out is one."""


@dataclass(frozen=True, slots=True)
class Place:
    """The environment of a task, and what identifies it besides the files of environment/."""

    spec: EnvironmentSpec
    identity: Mapping[str, Any]


def place_of(
    config: TaskFile, tree: TaskTree, dockerfile: str | None, ignored: str, env: Resolved
) -> Place:
    """The environment of a task. Raises ValueError saying what in the Dockerfile is wrong."""
    context = BuildContext.of(
        tree.folder / "environment", tree.under("environment"), DockerIgnore(ignored)
    )
    try:
        recipe = Recipe() if dockerfile is None else read_recipe(dockerfile, context)
    except DockerfileError as error:
        raise ValueError(f"environment/Dockerfile: {error}") from None
    portable = config.portable
    copies = _portable_copies(recipe, context) if portable else _copies(recipe, context)
    image_env = {k: v for k, v in recipe.env.items() if not (portable and k == "PATH")}
    section = config.environment
    spec = EnvironmentSpec(
        absolute_paths=not portable,
        image=section.docker_image,
        build=tuple(line for line in recipe.build if not (portable and line.startswith("FROM "))),
        workdir=None if portable else section.workdir or recipe.workdir,
        env={**image_env, **env.values},
        copies=copies,
        network=_phases(config),
        resources=Resources(
            section.cpus,
            section.memory_wish_mb,
            section.storage_wish_mb,
            None,
            section.gpus or None,
        ),
        context=_context(section.docker_image, tree, dockerfile),
    )
    return Place(spec, _identity(config, spec, {**image_env, **env.identity}))


def _context(image: str | None, tree: TaskTree, dockerfile: str | None) -> str | None:
    """The folder to build an image from; none where the task names one that is built already."""
    return str(tree.folder / "environment") if image is None and dockerfile is not None else None


def _phases(config: TaskFile) -> NetworkPhases:
    baseline = policy(config.environment.baseline_mode, config.environment.allowed_hosts)
    return NetworkPhases(
        baseline,
        policy(config.agent.network_mode, config.agent.allowed_hosts, baseline),
        policy(config.verifier.network_mode, config.verifier.allowed_hosts, baseline),
    )


def _copies(recipe: Recipe, context: BuildContext) -> tuple[tuple[str, str], ...]:
    found: list[tuple[str, str]] = []
    for copy in recipe.copies:
        found += context.copies(copy.source, copy.target, folder=copy.folder)
        _check_number(found)
    return tuple(found)


def _check_number(copies: list[tuple[str, str]]) -> None:
    if len(copies) > MAX_COPIES:
        raise ValueError(
            f"environment/Dockerfile: copies more than {MAX_COPIES:,} files one by one"
        )


def _portable_copies(recipe: Recipe, context: BuildContext) -> tuple[tuple[str, str], ...]:
    """Copies relative to the workspace, which stands for the last WORKDIR; without COPY lines,
    everything in environment/ but the recipe itself."""
    if not recipe.copies:
        rest = context.without_recipe()
        return tuple(rest.copies("", ".", folder=True)) if rest.files else ()
    workdir = recipe.workdir or "/"
    found: list[tuple[str, str]] = []
    for copy in recipe.copies:
        target = posixpath.relpath(copy.target, workdir)
        if target == ".." or target.startswith("../"):
            raise ValueError(
                f"environment/Dockerfile: a portable task can only copy into its WORKDIR "
                f"({workdir}), not to {copy.target}"
            )
        found += context.copies(copy.source, target, folder=copy.folder)
        _check_number(found)
    return tuple(found)


def _identity(config: TaskFile, spec: EnvironmentSpec, env: Mapping[str, str]) -> dict[str, Any]:
    """What identifies the environment, without paths of this host and without secrets."""
    placeless = replace(spec, context=None, copies=())
    return {
        "environment": {**placeless.to_json(), "env": dict(env)},
        "agent": config.agent.model_dump(mode="json"),
        "portable": config.portable,
    }
