"""What of the task format is read and checked, but not honoured yet: such a task cannot run."""

from proctor.benchmarks.harbor.config import TaskFile
from proctor.benchmarks.harbor.sections import EnvironmentSection
from proctor.benchmarks.harbor.tree import TaskTree

COMPOSE_FILES = ("docker-compose.yaml", "docker-compose.yml", "compose.yaml", "compose.yml")
_DEFAULT_USERS = (None, "root", 0, "0")


def unsupported(config: TaskFile, tree: TaskTree) -> list[str]:
    """Why a valid task cannot run here, one reason each; empty when it can."""
    paths = {entry.path for entry in tree.files}
    reasons = []
    if config.steps:
        reasons.append(f"several steps ({len(config.steps)} [[steps]])")
    if config.environment.os == "windows":
        reasons.append("environment.os = 'windows'")
    reasons += [f"environment/{name}" for name in COMPOSE_FILES if f"environment/{name}" in paths]
    reasons += _environment(config.environment)
    if config.verifier.separate:
        reasons.append("a separate verifier (verifier.environment_mode = 'separate')")
    if "trajectory.json" in paths:
        reasons.append("prior context (trajectory.json)")
    for section, user in (("agent", config.agent.user), ("verifier", config.verifier.user)):
        if user not in _DEFAULT_USERS:
            reasons.append(f"{section}.user = {user!r}")
    services = {a.service for a in config.artifacts} | {c.service for c in config.verifier.collect}
    reasons += [
        f"the service {s!r}" for s in sorted(s for s in services if s not in (None, "main"))
    ]
    if any(c.user not in _DEFAULT_USERS for c in config.verifier.collect):
        reasons.append("verifier.collect.user")
    return [f"not supported yet: {reason}" for reason in reasons]


def _environment(section: EnvironmentSection) -> list[str]:
    reasons = []
    if section.mcp_servers:
        names = ", ".join(server.name for server in section.mcp_servers)
        reasons.append(f"environment.mcp_servers ({names})")
    if section.tpu is not None:
        reasons.append("environment.tpu")
    if section.gpus and section.gpu_types:
        reasons.append("environment.gpu_types")
    if section.healthcheck is not None:
        reasons.append("environment.healthcheck")
    if section.skills_dir is not None:
        reasons.append("environment.skills_dir")
    return reasons
