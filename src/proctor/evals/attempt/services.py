"""What every attempt of a request shares."""

from dataclasses import dataclass
from typing import Any, Protocol

from proctor.evals.attempt.calls import Calls
from proctor.evals.components import Components
from proctor.evals.contracts.task import TaskSpec
from proctor.evals.digests import RequestDigests
from proctor.evals.metrics.contract import MetricContract
from proctor.evals.planner import ExecutionPlan, Planner
from proctor.kernel.budget import Budget
from proctor.kernel.clock import Clock
from proctor.kernel.retry import RetryPolicy


class AttemptStore(Protocol):
    """What an attempt needs of the run directory while it runs."""

    async def begin(self, task: TaskSpec, attempt: int, plan: ExecutionPlan, digest: str) -> None:
        """Record the plan, before anything opens."""

    async def store_run(self, task: TaskSpec, attempt: int, record: dict[str, Any]) -> None:
        """Make the run record durable, before evaluation in modes `none` and `fresh`."""

    def artifacts_dir(self, task: TaskSpec, attempt: int) -> str:
        """The host folder of the attempt's artifacts (made on use)."""


@dataclass(frozen=True, slots=True)
class AttemptServices:
    """One set a request."""

    components: Components
    contract: MetricContract
    planner: Planner
    retry: RetryPolicy
    calls: Calls
    store: AttemptStore
    clock: Clock
    digests: RequestDigests
    labels: dict[str, str]
    budget: Budget | None = None
