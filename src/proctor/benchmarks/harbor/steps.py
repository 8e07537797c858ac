"""The steps of a task: read from steps/<name>/ and [[steps]]."""

from typing import Any

from proctor.benchmarks.harbor.config import StepSection, TaskFile
from proctor.benchmarks.harbor.instruction import strip_canary
from proctor.benchmarks.harbor.jobs import StepJob, VerifierJob
from proctor.benchmarks.harbor.templates import HostVariables, Resolved
from proctor.benchmarks.harbor.texts import Unusable, read_text
from proctor.benchmarks.harbor.tree import TaskTree
from proctor.evals.contracts.task import Reference

_DEFAULT_USERS = (None, "root", 0, "0")


def missing_of_steps(config: TaskFile, paths: set[str]) -> list[str]:
    """The files that the steps need and that are not there."""
    found = []
    for step in config.steps:
        folder = f"steps/{step.name}"
        if f"{folder}/instruction.md" not in paths:
            found.append(f"{folder}/instruction.md is missing")
        if "tests/test.sh" not in paths and f"{folder}/tests/test.sh" not in paths:
            found.append(f"{folder}/tests/test.sh is missing (and there is no tests/test.sh)")
    return found


def unsupported_of_steps(config: TaskFile, paths: set[str]) -> list[str]:
    """What of the steps cannot be honoured."""
    found = []
    if config.steps and config.verifier.separate:
        found.append("a separate verifier of a task with steps")
    for step in config.steps:
        found += [f"steps.{step.name}: {what}" for what in _unsupported(step, paths)]
    return found


def _unsupported(step: StepSection, paths: set[str]) -> list[str]:
    found = []
    if step.verifier.separate:
        found.append("a separate verifier")
    for name, section in (("agent", step.agent), ("verifier", step.verifier)):
        if section.network_mode is not None:
            found.append(f"a network policy of its own ({name}.network_mode)")
        if section.user not in _DEFAULT_USERS:
            found.append(f"{name}.user = {section.user!r}")
    if f"steps/{step.name}/trajectory.json" in paths:
        found.append("prior context (trajectory.json)")
    return found


def load_steps(
    config: TaskFile, tree: TaskTree, task: VerifierJob, host: HostVariables
) -> tuple[StepJob, ...]:
    """The steps; `task` has what all of them share: tests, variables, artifacts. Raises
    Unusable."""
    return tuple(_step(step, config, tree, task, host) for step in config.steps)


def _step(
    step: StepSection, config: TaskFile, tree: TaskTree, task: VerifierJob, host: HostVariables
) -> StepJob:
    below = f"steps/{step.name}"
    paths, folder = {entry.path for entry in tree.files}, tree.folder / below
    env = host.resolve(f"steps.{step.name}.verifier.env", step.verifier.env)
    if env.problems:
        raise Unusable(*env.problems)
    instruction = strip_canary(read_text(tree.folder, f"{below}/instruction.md"))
    if not instruction.strip():
        raise Unusable(f"{below}/instruction.md is empty")
    own_limit = "timeout_sec" in step.verifier.model_fields_set
    has_tests = any(path.startswith(f"{below}/tests/") for path in paths)
    limit = step.agent.timeout_sec
    verifier = VerifierJob(
        tests=(*task.tests, *((folder / "tests",) if has_tests else ())),
        env={**task.env, **env.values},
        timeout_s=step.verifier.timeout_sec if own_limit else task.timeout_s,
        memory_mb=task.memory_mb,
        collect=(*task.collect, *step.verifier.collect),
        artifacts=(*task.artifacts, *step.artifacts),
        healthcheck=step.healthcheck,
    )
    return StepJob(
        name=step.name,
        instruction=instruction,
        verifier=verifier,
        agent_timeout_s=config.agent.timeout_sec if limit is None else limit,
        reference=_reference(config, tree, paths, below, host),
        workdir=folder / "workdir"
        if any(path.startswith(f"{below}/workdir/") for path in paths)
        else None,
        min_reward=_least(step),
    )


def _least(step: StepSection) -> dict[str, float] | None:
    least = step.min_reward
    return least if isinstance(least, dict) else None if least is None else {"reward": least}


def _reference(
    config: TaskFile, tree: TaskTree, paths: set[str], below: str, host: HostVariables
) -> Reference | None:
    """The step's own solution, else the task's; none where a variable of it is missing."""
    env: Resolved = host.resolve("solution.env", config.solution.env)
    for part in (f"{below}/solution", "solution"):
        if f"{part}/solve.sh" in paths and not env.problems:
            return Reference(folder=tree.folder / part, script="solve.sh", env=env.values)
    return None


def identity_of_steps(steps: tuple[StepJob, ...]) -> list[Any]:
    """What the agent sees of the steps besides their files."""
    return [[step.name, step.instruction, step.agent_timeout_s] for step in steps]
