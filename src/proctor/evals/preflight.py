"""What can be refused before anything is on disk: components, options, what is missing here."""

from dataclasses import dataclass
from functools import partial

from proctor.evals.components import Components, build_components, guard
from proctor.evals.contracts.task import TaskSpec
from proctor.evals.digests import RequestDigests
from proctor.evals.metrics.report import attempt_problems
from proctor.evals.planner import Planner
from proctor.evals.request import BudgetRequest, RunRequest
from proctor.evals.results.reserve import namespace
from proctor.evals.selection import load_and_select
from proctor.kernel.errors import UsageError


@dataclass(frozen=True, slots=True)
class Preflight:
    """A request whose components are there and fit together."""

    request: RunRequest
    components: Components
    planner: Planner
    digests: RequestDigests

    @property
    def name(self) -> str:
        """What people call this request."""
        c = self.components
        plain = f"{c.benchmark.id} · {c.harness_id} · {c.model_name}"
        return self.request.name or plain

    @property
    def namespace(self) -> str:
        """Where single runs of this request are kept, below the results directory."""
        c = self.components
        return namespace(c.benchmark.id, c.harness_id, c.model_name)


def preflight(request: RunRequest) -> Preflight:
    """Build and check what a request names. Blocking. Raises UsageError."""
    components = build_components(request)
    contract = components.benchmark.metrics()
    truncates = components.strategy.truncates
    reportable = partial(attempt_problems, truncates=truncates, families=components.families)
    if problems := guard("what is reported", reportable, contract, components.attempts):
        raise UsageError("; ".join(problems))
    for budget in (request.execution.budget, request.runtime.budget):
        _check_budget(budget, components)
    planner = Planner(request, components)
    digests: RequestDigests = guard("what identifies the components", RequestDigests.of, components)
    return Preflight(request, components, planner, digests)


def _check_budget(budget: BudgetRequest | None, components: Components) -> None:
    """Refuse a budget that cannot be kept: every call must be bounded before it is made."""
    model = components.model
    if budget is None or model is None or (budget.usd is None and budget.tokens is None):
        return
    bound = guard(f"the worst case of model {model.name!r}", model.worst_case, [], {})
    if bound is None:
        raise UsageError(
            f"a budget needs a bound on every call, and model {model.name!r} gives none",
            hint="limit its answers, for example -p model.max_tokens=1024",
        )
    if budget.usd is not None and bound.cost_usd is None:
        raise UsageError(
            f"a budget in US dollars needs the prices of model {model.name!r}",
            hint="-p model.prices.input_per_mtok=0.15 -p model.prices.output_per_mtok=0.6",
        )


def check(request: RunRequest) -> list[TaskSpec]:
    """Everything that can be refused before anything runs. Blocking. Raises UsageError."""
    return load_and_select(preflight(request).components, request.selection)
