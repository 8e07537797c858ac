"""Grading with the task's own tests, in the agent's environment or in one of their own.

In the agent's the order is the defence: whatever the agent left running is killed, reward files
and anything under the tests' path are removed, and only then do the tests come in.
"""

import posixpath
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from proctor.benchmarks.harbor.handed import place_artifacts
from proctor.benchmarks.harbor.health import healthy
from proctor.benchmarks.harbor.jobs import VerifierJob
from proctor.benchmarks.harbor.reward import NoReward, Reward, read_reward
from proctor.environments.contract import EnvironmentSession, ExecResult, Resources
from proctor.evals.contracts.result import Evaluation
from proctor.kernel.errors import EnvironmentFault
from proctor.kernel.issues import Cause, Issue, Phase, Severity

STDOUT_FILE = "test-stdout.txt"

# The agent may have removed the folder that the tests expect to start in: that is a wrong
# result, to be graded by the tests, not a failure of the verifier. The output is one stream so
# that errors stand where they happened.
_RUN_TESTS = """\
exec 2>&1
mkdir -p -- "$2"
cd -- "$2" || cd /
chmod +x -- "$1"
exec "$1"
"""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the tests said, and how they ran."""

    reward: Reward | NoReward
    outcome: ExecResult

    @property
    def verifier(self) -> dict[str, Any]:
        """How the tests ran, for the record."""
        return {
            "exit_code": self.outcome.exit_code,
            "duration_s": round(self.outcome.duration_s, 3),
            "timed_out": self.outcome.timed_out,
            "truncated": self.outcome.truncated,
            "out_of_memory": self.outcome.out_of_memory,
        }

    @property
    def warnings(self) -> tuple[Issue, ...]:
        """What makes a verdict doubtful: a part of the tests that memory ran out for may have
        been taken for a wrong answer."""
        if not self.outcome.out_of_memory or isinstance(self.reward, NoReward):
            return ()
        message = "a program of the tests ran out of memory: the reward may say no more than that"
        return (
            Issue(
                Severity.WARNING, Phase.EVALUATE, Cause.EVALUATOR, "tests_out_of_memory", message
            ),
        )

    def artifacts(self, below: str = "") -> dict[str, Path | bytes]:
        """The output of the tests by its name among the attempt's artifacts."""
        if not self.outcome.stdout:
            return {}
        return {posixpath.join(below, "verifier", STDOUT_FILE): _stdout(self.outcome)}


async def verdict_of(
    job: VerifierJob, session: EnvironmentSession, *, workdir: str, memory_mb: int
) -> Verdict:
    """Run the tests of a task, or of a step, and read their reward. Memory in MB per process.

    Raises EnvironmentFault when the environment fails.
    """
    output = posixpath.join(session.paths.logs, "verifier")
    if job.separate:
        await healthy(job.verifier_health, session)
        await place_artifacts(job, session)
        await _make_output(session, output)
    else:
        await session.kill_processes()
        await _clear(session, output)
    for tests in job.tests:
        await session.upload(tests, session.paths.tests)
    script = posixpath.join(session.paths.tests, "test.sh")
    outcome = await session.exec(
        ["/bin/sh", "-c", _RUN_TESTS, "sh", script, workdir],
        cwd=session.paths.tests,
        env={**session.script_env(), **job.env},
        timeout_s=job.timeout_s,
        resources=Resources(memory_mb=memory_mb),
    )
    if not job.separate:
        # What the tests left running holds their variables and could still change the reward.
        await session.kill_processes()
    verdict = Verdict(await _verdict(session, output, outcome, job), outcome)
    if outcome.stdout:
        await _leave_output(session, posixpath.join(output, STDOUT_FILE), _stdout(outcome))
    return verdict


async def _clear(session: EnvironmentSession, output: str) -> None:
    """Leave an empty output folder and no tests, whatever the agent put there."""
    try:
        await _make_output(session, output)
    except EnvironmentFault as fault:
        if fault.fault_code == "environment_gone":
            raise
        # A link or unwritable folder in place of the logs is the agent's doing: take all of it.
        await session.remove(session.paths.logs)
        await _make_output(session, output)
    await session.remove(session.paths.tests)


async def _leave_output(session: EnvironmentSession, path: str, output: bytes) -> None:
    """Show the output inside too. What the tests ran may have spoiled its place: that changes no
    verdict, and the attempt's artifacts hold the output anyway."""
    try:
        await session.write(path, output)
    except EnvironmentFault as fault:
        if fault.fault_code == "environment_gone":
            raise


async def _make_output(session: EnvironmentSession, output: str) -> None:
    await session.remove(output)
    await session.write(posixpath.join(output, STDOUT_FILE), b"")


async def _verdict(
    session: EnvironmentSession, output: str, outcome: ExecResult, job: VerifierJob
) -> Reward | NoReward:
    if outcome.timed_out:
        reason = f"the tests did not end within {job.timeout_s:g} s (verifier.timeout_sec)"
        return NoReward("verifier_timeout", reason)
    found = await read_reward(session, output)
    if isinstance(found, Reward) or found.code != "reward_missing":
        return found
    if not await session.alive():
        raise EnvironmentFault("the environment vanished during grading", code="environment_gone")
    if outcome.out_of_memory:
        return NoReward("verifier_out_of_memory", "the tests ran out of memory")
    return NoReward(found.code, f"{found.reason} (exit code {outcome.exit_code})")


def evaluated(
    reward: Reward | NoReward,
    evidence: Mapping[str, Any],
    artifacts: Mapping[str, Path | bytes],
    *,
    complete: bool = True,
    warnings: tuple[Issue, ...] = (),
) -> Evaluation:
    """The score of a task. Whatever the tests did wrong is an evaluation without observations,
    with an error issue of cause `evaluator`. A task that is not `complete` has not passed."""
    if isinstance(reward, NoReward):
        return Evaluation(
            unavailable={"passed": reward.reason, "reward": reward.reason},
            evidence=evidence,
            issues=(_error(reward), *warnings),
            artifacts=artifacts,
        )
    return Evaluation(
        metrics={"passed": complete and reward.passed, "reward": reward.scalar},
        evidence={"rewards": dict(reward.rewards), "reward_file": reward.file, **evidence},
        issues=warnings,
        artifacts=artifacts,
    )


def _stdout(outcome: ExecResult) -> bytes:
    return outcome.stdout.encode("utf-8", "replace")


def _error(reward: NoReward) -> Issue:
    return Issue(Severity.ERROR, Phase.EVALUATE, Cause.EVALUATOR, reward.code, reward.reason)
