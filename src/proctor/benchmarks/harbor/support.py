"""What of the task format is read and checked, but not honoured yet: such a task cannot run."""

from proctor.benchmarks.harbor.config import TaskFile
from proctor.benchmarks.harbor.grounds import (
    ENVIRONMENT,
    TESTS,
    compose_file,
    compose_main,
    verifier_part,
)
from proctor.benchmarks.harbor.sections import EnvironmentSection
from proctor.benchmarks.harbor.steps import unsupported_of_steps
from proctor.benchmarks.harbor.tree import TaskTree

_DEFAULT_USERS = (None, "root", 0, "0")


def unsupported(config: TaskFile, tree: TaskTree) -> list[str]:
    """Why a valid task cannot run here, one reason each; empty when it can."""
    paths = {entry.path for entry in tree.files}
    reasons = []
    reasons += unsupported_of_steps(config, paths)
    if config.environment.os == "windows":
        reasons.append("environment.os = 'windows'")
    reasons += _composed(config, tree, paths)
    reasons += _environment("environment", config.environment)
    if config.verifier.environment is not None:
        reasons += _environment("verifier.environment", config.verifier.environment)
    if config.portable and config.verifier.separate and verifier_part(config, paths) == TESTS:
        reasons.append("an image of its own for the verifier of a portable task")
    if "trajectory.json" in paths:
        reasons.append("prior context (trajectory.json)")
    for section, user in (("agent", config.agent.user), ("verifier", config.verifier.user)):
        if user not in _DEFAULT_USERS:
            reasons.append(f"{section}.user = {user!r}")
    collect = [*config.verifier.collect, *(c for s in config.steps for c in s.verifier.collect)]
    artifacts = [*config.artifacts, *(a for s in config.steps for a in s.artifacts)]
    services = {a.service for a in artifacts} | {c.service for c in collect}
    reasons += [
        f"the service {s!r}" for s in sorted(s for s in services if s not in (None, "main"))
    ]
    if any(c.user not in _DEFAULT_USERS for c in collect):
        reasons.append("verifier.collect.user")
    return [f"not supported yet: {reason}" for reason in reasons]


def _composed(config: TaskFile, tree: TaskTree, paths: set[str]) -> list[str]:
    """What of the compose files needs more than the one container `main`."""
    parts = [(ENVIRONMENT, config.environment)]
    if config.verifier.separate and verifier_part(config, paths) == TESTS:
        parts.append((TESTS, config.verifier.environment or EnvironmentSection()))
    found = []
    for part, section in parts:
        name = compose_file(part, paths)
        main = compose_main(tree, section, part, paths)
        found += [f"{name}: {problem}" for problem in main.problems]
        image = section.docker_image or main.image
        if name and not image and f"{part}/Dockerfile" not in paths and not main.problems:
            found.append(f"{name}: services.main names no image, and there is no {part}/Dockerfile")
    return found


def _environment(where: str, section: EnvironmentSection) -> list[str]:
    reasons = []
    if section.mcp_servers:
        names = ", ".join(server.name for server in section.mcp_servers)
        reasons.append(f"{where}.mcp_servers ({names})")
    if section.tpu is not None:
        reasons.append(f"{where}.tpu")
    if section.gpus and section.gpu_types:
        reasons.append(f"{where}.gpu_types")
    if section.skills_dir is not None:
        reasons.append(f"{where}.skills_dir")
    if where != "environment" and section.os == "windows":
        reasons.append(f"{where}.os = 'windows'")
    return reasons
