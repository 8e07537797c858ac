"""Tasks of several steps: the same environment, one instruction and one verdict after the other.

What was graded so far is kept in the prepared task's `state`, as JSON:
`{"step": index, "done": [{"step", "rewards" or null, "reason", "code", "verifier"}]}`.
"""

import math
import os
import posixpath
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from proctor.benchmarks.harbor.health import healthy
from proctor.benchmarks.harbor.jobs import StepJob, VerifierJob
from proctor.benchmarks.harbor.reward import NoReward, Reward
from proctor.environments.contract import EnvironmentSession
from proctor.evals.contracts.task import PreparedTask, TaskSpec
from proctor.kernel.errors import BenchmarkFault, EnvironmentFault

_SETUP = "setup.sh"
_SETUP_S = 600.0
_IN_THE_WAY = frozenset(["not_a_file", "refused_path", "environment"])
_PATHS_AT_ONCE = 100
_MAKE_ROOM = """\
kind=$1
shift
for path; do
  if [ "$kind" = file ]; then
    rm -rf -- "$path"
  elif [ -L "$path" ] || [ ! -d "$path" ]; then
    rm -f -- "$path"
  fi
done
"""
_RUN_SETUP = 'chmod +x -- "$1" && exec "$1"'


def first_step(task: TaskSpec, steps: Sequence[StepJob]) -> PreparedTask:
    """What the agent is asked first."""
    return step_of(task, steps, 0, [])


def step_of(
    task: TaskSpec, steps: Sequence[StepJob], index: int, done: list[dict[str, Any]]
) -> PreparedTask:
    """What the agent is asked in a step, after those that are done."""
    step = steps[index]
    state = {"step": index, "done": done}
    return PreparedTask(
        task, step.instruction, state, step.agent_timeout_s, step.reference, step.name
    )


def current(job: VerifierJob, prepared: PreparedTask) -> StepJob | None:
    """The step that a prepared task is at; None where the task has none."""
    return job.steps[int(prepared.state["step"])] if job.steps else None


async def set_up(step: StepJob, session: EnvironmentSession, workdir: str) -> None:
    """Bring in the step's files, run its setup.sh, wait until it is healthy.

    Raises BenchmarkFault when setup.sh fails, EnvironmentFault `unhealthy`.
    """
    if step.workdir is not None:
        await _bring_in(step.workdir, session, workdir)
        if (step.workdir / _SETUP).is_file():
            script = posixpath.join(workdir, _SETUP)
            done = await session.exec(
                ["/bin/sh", "-c", _RUN_SETUP, "sh", script],
                env=session.script_env(),
                timeout_s=_SETUP_S,
            )
            if not done.ok:
                raise BenchmarkFault(
                    f"setup.sh of step {step.name!r} failed "
                    f"({'timed out' if done.timed_out else f'exit code {done.exit_code}'}): "
                    f"{done.stderr.strip()[-300:]}"
                )
    await healthy(step.verifier.healthcheck, session)


async def _bring_in(source: Path, session: EnvironmentSession, workdir: str) -> None:
    """Upload the step's files. They win over what the agent of an earlier step put in their places,
    such as a folder of a file's name."""
    try:
        await session.upload(source, workdir)
    except EnvironmentFault as fault:
        if fault.fault_code not in _IN_THE_WAY:
            raise
        for kind, paths in zip(("folder", "file"), _targets(source, workdir), strict=True):
            for start in range(0, len(paths), _PATHS_AT_ONCE):
                some = paths[start : start + _PATHS_AT_ONCE]
                await session.exec(
                    ["/bin/sh", "-c", _MAKE_ROOM, "sh", kind, *some], cwd="/", timeout_s=_SETUP_S
                )
        await session.upload(source, workdir)


def _targets(source: Path, workdir: str) -> tuple[list[str], list[str]]:
    """Where the folders of a tree come, the outer ones first, and where its files and links do."""
    folders: list[str] = [workdir]
    files: list[str] = []
    for folder, below, names in os.walk(source):
        inside = posixpath.join(workdir, Path(folder).relative_to(source).as_posix())
        for name in (*below, *names):
            real = name in below and not os.path.islink(os.path.join(folder, name))
            (folders if real else files).append(posixpath.normpath(posixpath.join(inside, name)))
    return folders, files


async def clear_verifier(session: EnvironmentSession) -> None:
    """Take away the tests and what they wrote, before the agent goes on; what they left running
    is killed with the tests."""
    await session.remove(session.paths.tests)
    await session.remove(posixpath.join(session.paths.logs, "verifier"))
    await session.remove(session.paths.solution)


def noted(step: StepJob, reward: Reward | NoReward, verifier: Mapping[str, Any]) -> dict[str, Any]:
    """A graded step as JSON."""
    if isinstance(reward, Reward):
        return {"step": step.name, "rewards": dict(reward.rewards), "verifier": dict(verifier)}
    return {
        "step": step.name, "rewards": None, "code": reward.code, "reason": reward.reason,
        "verifier": dict(verifier),
    }  # fmt: skip


def goes_on(step: StepJob, reward: Reward | NoReward) -> bool:
    """Whether the later steps are run: every declared reward is there and high enough."""
    rewards = reward.rewards if isinstance(reward, Reward) else {}
    least = step.min_reward or {}
    return all(rewards.get(key, -math.inf) >= value for key, value in least.items())


def total(done: Sequence[Mapping[str, Any]], *, final: bool) -> Reward | NoReward:
    """The reward of the whole task: that of the last step, or the mean of every key over the steps
    (a missing key counts 0 in it). Without a verdict of one of those there is none."""
    counted = list(done[-1:] if final else done)
    for step in counted:
        if step["rewards"] is None:
            return NoReward(step["code"], f"step {step['step']}: {step['reason']}")
    keys = dict.fromkeys(key for step in counted for key in step["rewards"])
    values = {key: [float(s["rewards"].get(key, 0.0)) for s in counted] for key in keys}
    return Reward({key: _mean(listed) for key, listed in values.items()}, "steps")


def _mean(values: Sequence[float]) -> float:
    try:
        return math.fsum(values) / len(values)
    except OverflowError:  # the sum is beyond any float, the mean is not
        return math.fsum(value / len(values) for value in values)
