"""What running and grading a task needs besides its environment; made when it is loaded."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from proctor.benchmarks.harbor.config import ArtifactEntry, CollectSection
from proctor.benchmarks.harbor.sections import HealthcheckSection
from proctor.evals.contracts.task import Reference


@dataclass(frozen=True, slots=True)
class VerifierJob:
    """What grading a task needs: the tests, their variables and their limits (seconds, MB).

    `tests` are uploaded in this order, later over earlier; none when the verifier's image holds
    them. `separate`: they run in an environment of their own, which has `verifier_health`.
    `healthcheck` is the agent's environment's. Of a task with `steps`, all but those and `final`
    (the last step's reward counts, not the mean) is said by the steps.
    """

    tests: tuple[Path, ...]
    env: Mapping[str, str]
    timeout_s: float
    memory_mb: int | None
    collect: tuple[CollectSection, ...] = ()
    artifacts: tuple[ArtifactEntry, ...] = ()
    healthcheck: HealthcheckSection | None = None
    separate: bool = False
    verifier_health: HealthcheckSection | None = None
    steps: "tuple[StepJob, ...]" = ()
    final: bool = False


@dataclass(frozen=True, slots=True)
class StepJob:
    """One step of a task. `workdir` is a folder whose files come into the working directory;
    `min_reward` by key: below it the later steps are dropped."""

    name: str
    instruction: str
    verifier: VerifierJob
    agent_timeout_s: float | None = None
    reference: Reference | None = None
    workdir: Path | None = None
    min_reward: Mapping[str, float] | None = None
