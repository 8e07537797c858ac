"""Drives one attempt of a Harbor task by hand: open, let an agent's script run, grade."""

from collections.abc import Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from proctor.benchmarks.harbor import Harbor, load_folder
from proctor.environments.contract import Environment, EnvironmentSession
from proctor.environments.local import LocalEnvironment
from proctor.evals.contracts import Evaluation, PreparedTask, RunResult, TaskSpec

PORTABLE = 'schema_version = "1.4"\n[metadata]\nportable = true\n'


def make_task(folder: Path, test_sh: str, toml: str = "", artifacts: str = "[]") -> TaskSpec:
    """A portable task with this test script; `toml` is added to its task.toml."""
    contents = {
        "task.toml": f"artifacts = {artifacts}\n{PORTABLE}{toml}",
        "instruction.md": "Do it.\n",
        "environment/given.txt": "given\n",
        "tests/test.sh": "#!/bin/sh\n" + test_sh,
    }
    for name, text in contents.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    task = load_folder(folder)
    assert task.invalid is None, task.invalid
    return task


@asynccontextmanager
async def opened(task: TaskSpec, environment: Environment | None = None):
    """A session of the task's environment, closed at the end."""
    environment = environment or LocalEnvironment()
    session = await environment.open(task.environment, {"run": "test", "attempt": "1"})
    try:
        yield session
    finally:
        await session.close()


async def attempt(
    task: TaskSpec,
    agent: str | Callable[[EnvironmentSession], Awaitable[None]] | None = None,
    *,
    benchmark: Harbor | None = None,
    environment: Environment | None = None,
) -> Evaluation:
    """The evaluation after an agent that runs a shell script, or calls a function."""
    async with opened(task, environment) as session:
        if isinstance(agent, str):
            await session.exec(agent, timeout_s=20)
        elif agent is not None:
            await agent(session)
        return await (benchmark or Harbor()).evaluate(
            PreparedTask(task, task.input), RunResult(), session
        )


def codes(evaluation: Evaluation) -> list[str]:
    """The codes of the evaluation's issues."""
    return [issue.code for issue in evaluation.issues]


async def solve(session: EnvironmentSession, task: TaskSpec) -> None:
    """Run the reference solution as its first line says."""
    reference = task.reference
    assert reference is not None
    assert reference.folder is not None
    await session.upload(reference.folder, session.paths.solution)
    script = f"{session.paths.solution}/{reference.script}"
    done = await session.exec(
        ["/bin/sh", "-c", 'chmod +x "$1" && exec "$1"', "sh", script],
        env={**session.script_env(), **reference.env},
        timeout_s=60,
    )
    assert done.ok, done
