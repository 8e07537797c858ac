"""The plan of one attempt: everything that is decided before its environment opens.

Recipes are small ordered rules from entry points (`proctor.recipes`) or from the request's
`recipe_dirs`: `matches(request, task) -> bool` and `apply(plan) -> ExecutionPlan`. The plan
records which were applied.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

from proctor.environments.contract import EnvironmentSpec
from proctor.evals import registry
from proctor.evals.components import Components
from proctor.evals.contracts.task import TaskSpec
from proctor.evals.request import RunRequest
from proctor.kernel.digest import of_json
from proctor.kernel.errors import BrokenComponent, UsageError

DEFAULT_EVALUATION_TIMEOUT_S = 600.0


@dataclass(frozen=True, slots=True)
class ExecutionPlan:
    """One attempt's plan. Limits in seconds; None means no limit."""

    environment_id: str
    environment: EnvironmentSpec
    evaluation_mode: str
    keep_environment: bool
    open_timeout_s: float | None
    agent_timeout_s: float | None
    evaluation_timeout_s: float | None
    benchmark_plan: Mapping[str, Any] = field(default_factory=dict)
    recipes: tuple[str, ...] = ()
    evaluation_environment: EnvironmentSpec | None = None
    """What grades in mode `fresh`; None: the same as the task's."""

    @property
    def grading(self) -> EnvironmentSpec:
        """The environment that a fresh evaluation opens."""
        return self.evaluation_environment or self.environment

    def to_json(self) -> dict[str, Any]:
        own = self.evaluation_environment
        return {
            **({} if own is None else {"evaluation_environment": own.to_json()}),
            "environment_id": self.environment_id,
            "environment": self.environment.to_json(),
            "evaluation_mode": self.evaluation_mode,
            "keep_environment": self.keep_environment,
            "open_timeout_s": self.open_timeout_s,
            "agent_timeout_s": self.agent_timeout_s,
            "evaluation_timeout_s": self.evaluation_timeout_s,
            "benchmark_plan": dict(self.benchmark_plan),
            "recipes": list(self.recipes),
        }


class Recipe(Protocol):
    """One rule. `id` is recorded in the plans it changed."""

    id: str

    def matches(self, request: RunRequest, task: TaskSpec) -> bool: ...

    def apply(self, plan: ExecutionPlan) -> ExecutionPlan: ...


class Planner:
    """Builds plans; the same inputs give the same plan."""

    def __init__(self, request: RunRequest, components: Components) -> None:
        self._request = request
        self._components = components
        self._recipes = [*_registered_recipes(), *_recipes_of(request.runtime.recipe_dirs)]
        self._known: dict[tuple[object, ...], tuple[ExecutionPlan, str]] = {}

    def plan(self, task: TaskSpec) -> tuple[ExecutionPlan, str]:
        """The plan of the next attempt of `task`, and its digest. What a recipe raises
        propagates. Tasks that ask for the same thing share one plan."""
        recipes = [r for r in self._recipes if r.matches(self._request, task)]
        if recipes:
            plan = self._plain(task)
            for recipe in recipes:
                plan = _applied(recipe, plan)
            return plan, of_json(plan.to_json())
        # The specification is known by identity; the task keeps it alive as long as the run.
        key = (id(task.environment), task.agent_timeout_s, task.evaluation_timeout_s,
               task.evaluation_mode, id(task.evaluation_environment))  # fmt: skip
        known = self._known.get(key)
        if known is None:
            plan = self._plain(task)
            known = self._known[key] = (plan, of_json(plan.to_json()))
        return known

    def _plain(self, task: TaskSpec) -> ExecutionPlan:
        execution, adapt = self._request.execution, self._components.environment.adapt
        own = task.evaluation_environment
        return ExecutionPlan(
            environment_id=self._components.environment.id,
            environment=adapt(task.environment),
            evaluation_environment=None if own is None else adapt(own),
            evaluation_mode=self._evaluation_mode(task),
            keep_environment=execution.keep_environment,
            open_timeout_s=_limit(execution.open_timeout_s),
            agent_timeout_s=_limit(execution.attempt_timeout_s, task.agent_timeout_s),
            evaluation_timeout_s=_limit(
                execution.evaluation_timeout_s,
                task.evaluation_timeout_s,
                DEFAULT_EVALUATION_TIMEOUT_S,
            ),
        )

    def _evaluation_mode(self, task: TaskSpec) -> str:
        explicit = self._request.execution.evaluation_mode
        return explicit or task.evaluation_mode or self._components.evaluation_mode


def _limit(*wanted: float | None) -> float | None:
    """The first limit that is given; 0 is off."""
    return next((limit for limit in wanted if limit is not None), None) or None


def _applied(recipe: Recipe, plan: ExecutionPlan) -> ExecutionPlan:
    changed = recipe.apply(plan)
    if not isinstance(changed, ExecutionPlan):
        raise BrokenComponent(f"recipe {recipe.id!r} returned {type(changed).__name__}, not a plan")
    return replace(changed, recipes=(*plan.recipes, recipe.id))


def _registered_recipes() -> list[Recipe]:
    return [registry.load("recipes", name)() for name in registry.names("recipes")]


def _recipes_of(directories: tuple[str, ...]) -> list[Recipe]:
    found: list[Recipe] = []
    for directory in directories:
        folder = Path(directory)
        if not folder.is_dir():
            raise UsageError(f"no such recipe directory: {directory}")
        for path in sorted(folder.glob("*.py")):
            found.append(registry.load("recipes", f"{path}:Recipe")())
    return found
