"""From a task folder to its environments: the agent's, and that of a separate verifier."""

from collections.abc import Mapping
from dataclasses import dataclass

from proctor.benchmarks.harbor import compose
from proctor.benchmarks.harbor.config import TaskFile
from proctor.benchmarks.harbor.hosts import policy
from proctor.benchmarks.harbor.place import Ground, Place, phases_of, place_of
from proctor.benchmarks.harbor.sections import EnvironmentSection
from proctor.benchmarks.harbor.templates import HostVariables, Resolved
from proctor.benchmarks.harbor.texts import Unusable, read_text
from proctor.benchmarks.harbor.tree import TaskTree
from proctor.environments.network import NetworkPhases

TEST_SCRIPT = "tests/test.sh"
ENVIRONMENT, TESTS = "environment", "tests"


@dataclass(frozen=True, slots=True)
class Places:
    """Where a task runs and, where its verifier is a separate one, is graded."""

    agent: Place
    verifier: Place | None = None


def places(config: TaskFile, tree: TaskTree, host: HostVariables) -> Places:
    """The environments of a task. Raises Unusable with what cannot be honoured."""
    own = host.resolve("environment.env", config.environment.env)
    ground = _ground(config, tree, config.environment, ENVIRONMENT, own, phases_of(config))
    try:
        agent = place_of(ground, tree)
        if not config.verifier.separate:
            return Places(agent)
        return Places(agent, place_of(_verifier(config, tree, host, own), tree))
    except ValueError as error:
        raise Unusable(str(error)) from None


def verifier_part(config: TaskFile, paths: set[str]) -> str:
    """The part of the folder that a separate verifier's image is built from: tests/ where it has a
    recipe of its own, else environment/."""
    section = config.verifier.environment
    if section is not None and section.docker_image is not None:
        return TESTS
    recipes = ("Dockerfile", *compose.COMPOSE_FILES)
    return TESTS if any(f"{TESTS}/{name}" in paths for name in recipes) else ENVIRONMENT


def owns_tests(config: TaskFile, paths: set[str]) -> bool:
    """Whether a separate verifier's image holds the tests, so that none are uploaded."""
    if not config.verifier.separate or verifier_part(config, paths) == ENVIRONMENT:
        return False
    section = config.verifier.environment
    built = section is None or section.docker_image is None
    return built or TEST_SCRIPT not in paths


def compose_file(part: str, paths: set[str]) -> str | None:
    """The compose file of a part, where it has one."""
    names = (f"{part}/{name}" for name in compose.COMPOSE_FILES)
    return next((name for name in names if name in paths), None)


def compose_main(
    tree: TaskTree, section: EnvironmentSection, part: str, paths: set[str]
) -> compose.Main:
    """What a part's compose file says about its service `main`; nothing where there is none."""
    name = compose_file(part, paths)
    return (
        compose.Main()
        if name is None
        else compose.read(read_text(tree.folder, name), _variables(section))
    )


def _verifier(config: TaskFile, tree: TaskTree, host: HostVariables, own: Resolved) -> Ground:
    paths = {entry.path for entry in tree.files}
    part, given = verifier_part(config, paths), config.verifier.environment
    copied = part == ENVIRONMENT
    section = given or (config.environment if copied else EnvironmentSection())
    if copied and given is not None:  # its own limits and variables, the task's image
        section = given.model_copy(
            update={"docker_image": config.environment.docker_image,
                    "workdir": given.workdir or config.environment.workdir}
        )  # fmt: skip
    env = (
        host.resolve("verifier.environment.env", given.env)
        if given is not None
        else Resolved({}, {})
    )
    if copied and given is None:
        env = own
    if env.problems:
        raise Unusable(*env.problems)
    tasks = phases_of(config).baseline
    baseline = policy(section.baseline_mode, section.allowed_hosts, tasks)
    grading = policy(config.verifier.network_mode, config.verifier.allowed_hosts, baseline)
    phases = NetworkPhases(baseline, grading, grading)
    return _ground(config, tree, section, part, env, phases)


def _ground(
    config: TaskFile,
    tree: TaskTree,
    section: EnvironmentSection,
    part: str,
    env: Resolved,
    network: NetworkPhases,
) -> Ground:
    paths = {entry.path for entry in tree.files}
    recipe = f"{part}/Dockerfile"
    named = part == TESTS and section.docker_image is not None
    return Ground(
        section=section,
        part=part,
        dockerfile=read_text(tree.folder, recipe) if recipe in paths and not named else None,
        ignored=(
            read_text(tree.folder, f"{part}/.dockerignore")
            if f"{part}/.dockerignore" in paths
            else ""
        ),
        env=env,
        network=network,
        portable=config.portable,
        main=compose_main(tree, section, part, paths),
    )


def _variables(section: EnvironmentSection) -> Mapping[str, str]:
    """The variables that the format promises to compose files."""
    memory = section.memory_wish_mb
    return {
        "MAIN_IMAGE_NAME": "",  # proctor names what it builds itself
        "CONTEXT_DIR": ".",
        "PREBUILT_IMAGE_NAME": section.docker_image or "",
        "CPUS": "" if section.cpus is None else f"{section.cpus:g}",
        "MEMORY": "" if memory is None else f"{memory}M",
    }
