"""From [environment] and the Dockerfile to what a provider must offer."""

import posixpath
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from proctor.benchmarks.harbor.compose import Main
from proctor.benchmarks.harbor.config import TaskFile
from proctor.benchmarks.harbor.context import BuildContext
from proctor.benchmarks.harbor.hosts import policy
from proctor.benchmarks.harbor.recipe import Recipe
from proctor.benchmarks.harbor.recipe import read as read_recipe
from proctor.benchmarks.harbor.sections import EnvironmentSection
from proctor.benchmarks.harbor.sound import unsound
from proctor.benchmarks.harbor.templates import Resolved
from proctor.benchmarks.harbor.tree import TaskTree
from proctor.environments.contract import EnvironmentSpec, Resources
from proctor.environments.network import NetworkPhases
from proctor.kernel.ignore import DockerIgnore

LOG_FOLDERS = ("agent", "verifier", "artifacts")
"""What the format promises to scripts, below /logs."""
MAX_COPIES = 10_000
"""The most (file, place) pairs of one task; a folder from which nothing is left out is one."""


@dataclass(frozen=True, slots=True)
class Ground:
    """What describes an environment: its section, the part of the task folder that its image is
    built from with the texts of the recipe, variables, policies, and what compose says."""

    section: EnvironmentSection
    part: str
    dockerfile: str | None
    ignored: str
    env: Resolved
    network: NetworkPhases
    portable: bool
    main: Main = Main()


@dataclass(frozen=True, slots=True)
class Place:
    """The environment of a task, and what identifies it besides the files of its part."""

    spec: EnvironmentSpec
    identity: Mapping[str, Any]


def place_of(ground: Ground, tree: TaskTree) -> Place:
    """An environment of a task. Raises ValueError saying what of it is wrong."""
    folder = tree.folder / ground.part
    context = BuildContext.of(folder, tree.under(ground.part), DockerIgnore(ground.ignored))
    try:
        text = ground.dockerfile
        recipe = Recipe() if text is None else read_recipe(text, context)
        portable = ground.portable
        copies = _portable_copies(recipe, context) if portable else _copies(recipe, context)
    except ValueError as error:
        raise ValueError(f"{ground.part}/Dockerfile: {error}") from None
    image_env = {k: v for k, v in recipe.env.items() if not (portable and k == "PATH")}
    image_env |= ground.main.env
    section = ground.section
    workdir = section.workdir or ground.main.workdir or recipe.workdir
    image = section.docker_image or (ground.main.image if text is None else None)
    spec = EnvironmentSpec(
        absolute_paths=not portable,
        image=image,
        build=tuple(line for line in recipe.build if not (portable and line.startswith("FROM "))),
        workdir=None if portable else workdir,
        env={**image_env, **ground.env.values},
        copies=copies,
        network=ground.network,
        log_folders=LOG_FOLDERS,
        resources=_resources(section, ground.main),
        context=str(folder) if image is None and text is not None else None,
    )
    if problems := unsound(spec):
        raise ValueError(f"{ground.part}: " + "; ".join(problems))
    return Place(spec, _identity(spec, {**image_env, **ground.env.identity}))


def _resources(section: EnvironmentSection, main: Main) -> Resources:
    return Resources(
        section.cpus or main.cpus,
        section.memory_wish_mb or main.memory_mb,
        section.storage_wish_mb,
        None,
        section.gpus or None,
    )


def phases_of(config: TaskFile) -> NetworkPhases:
    """The policies of the environment that the agent works in."""
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
        raise ValueError(f"copies more than {MAX_COPIES:,} files one by one")


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
                f"a portable task can only copy into its WORKDIR ({workdir}), not to {copy.target}"
            )
        found += context.copies(copy.source, target, folder=copy.folder)
        _check_number(found)
    return tuple(found)


def _identity(spec: EnvironmentSpec, env: Mapping[str, str]) -> dict[str, Any]:
    """What identifies the environment, without paths of this host and without secrets."""
    placeless = replace(spec, context=None, copies=())
    return {**placeless.to_json(), "env": dict(env)}
