"""From a request to the objects that do it: loading, options, and what is missing here."""

import difflib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from proctor.environments.contract import Environment
from proctor.evals import registry
from proctor.evals.contracts.benchmark import Benchmark, HarnessFreeBenchmark
from proctor.evals.contracts.harness import Harness
from proctor.evals.contracts.plan import AttemptPlan
from proctor.evals.families import families_of
from proctor.evals.metrics.contract import MetricContract
from proctor.evals.metrics.reducers import BUILT_IN, ReducerFamily
from proctor.evals.options import build_options
from proctor.evals.request import ModelRequest, RunRequest
from proctor.evals.strategy import Strategy
from proctor.kernel.errors import BrokenComponent, DataError, OptionError, ProctorError, UsageError
from proctor.models.contract import Model

DEFAULT_ADAPTER = "openai"
NO_HARNESS = "none"
_CONTRACTS: dict[str, type[Any]] = {"harnesses": Harness, "environments": Environment}


@dataclass(frozen=True, slots=True)
class Components:
    """The objects of one request. `harness` is None when the benchmark runs tasks itself."""

    benchmark: Benchmark
    harness: Harness | None
    environment: Environment
    model: Model | None
    strategy: Strategy
    attempts: AttemptPlan
    evaluation_mode: str
    asked_mode: str | None = None
    """The evaluation mode that the request asks for, where it does."""
    families: tuple[ReducerFamily, ...] = BUILT_IN
    """The reducers of its metrics."""

    @property
    def harness_id(self) -> str:
        return self.harness.id if self.harness is not None else NO_HARNESS

    @property
    def model_name(self) -> str:
        return self.model.name if self.model is not None else "none"


def build_components(request: RunRequest) -> Components:
    """Load and check everything a request names. Raises UsageError; nothing has run."""
    benchmark = _benchmark(request)
    harness = _harness(request, benchmark)
    environment = _component("environments", "environment", request.environment)
    model = _model(request.model)
    strategy_id = request.execution.attempts.strategy
    strategy = guard("the strategy", _loaded("strategies", strategy_id, Strategy))
    attempts = AttemptPlan(request.execution.attempts.k, request.execution.attempts.strategy)
    mode = _evaluation_mode(request, benchmark)
    asked = request.execution.evaluation_mode
    families = families_of(benchmark.metrics())
    components = Components(
        benchmark, harness, environment, model, strategy, attempts, mode, asked, families
    )
    _check_together(components)
    return components


def guard(what: str, make: Callable[..., Any], *arguments: Any) -> Any:
    """`make(*arguments)` of a plug-in; what it raises is a BrokenComponent."""
    try:
        return make(*arguments)
    except ProctorError:
        raise
    except (Exception, SystemExit) as error:
        raise BrokenComponent(f"{what} fails: {type(error).__name__}: {error}") from error


def _loaded(kind: str, ref: str, contract: type[Any]) -> Any:
    """The component class, which must be one of its kind."""
    component = registry.load(kind, ref)
    if not issubclass(component, contract):
        raise BrokenComponent(
            f"{ref!r} is not a {contract.__name__}",
            hint=f"derive the class from {contract.__name__} of {contract.__module__}",
        )
    return component


def _options(component: type[Any], given: dict[str, Any], where: str) -> BaseModel | None:
    return build_options(component.Options, given, where)


def _component(kind: str, where: str, wanted: Any) -> Any:
    component = _loaded(kind, wanted.id, _CONTRACTS[kind])
    options = _options(component, wanted.options, where)
    return guard(f"{where} {wanted.id!r}", lambda: component(options))


def _benchmark(request: RunRequest) -> Benchmark:
    wanted = request.benchmark
    component = _loaded("benchmarks", wanted.id, Benchmark)
    options = _options(component, wanted.options, "benchmark")
    data = Path(wanted.data).expanduser() if wanted.data is not None else None
    if data is None and component.data_required:
        raise DataError(f"benchmark {wanted.id!r} needs data", hint="give --data PATH")
    if data is not None and not _exists(data):
        raise DataError(f"no such data: {wanted.data}", hint="--data takes a file or a folder")
    made: Benchmark = guard(f"benchmark {wanted.id!r}", lambda: component(options, data))
    guard(f"the metric contract of {wanted.id!r}", lambda: _check_contract(made.metrics()))
    return made


def _check_contract(contract: MetricContract) -> None:
    contract.check({family.id: family.kinds for family in families_of(contract)})


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except OSError as error:  # a name too long, a disk that fails
        raise DataError(f"the data cannot be read: {error.strerror}: {str(path)[:200]}") from None


def _harness(request: RunRequest, benchmark: Benchmark) -> Harness | None:
    if request.harness.id != NO_HARNESS:
        harness: Harness = _component("harnesses", "harness", request.harness)
        return harness
    if not isinstance(benchmark, HarnessFreeBenchmark):
        raise UsageError(
            f"benchmark {benchmark.id!r} needs a harness",
            hint="give --harness, for example oracle, nop, command or python",
        )
    return None


def _model(wanted: ModelRequest | None) -> Model | None:
    if wanted is None or wanted.id == "none":
        return None
    adapter, name = split_model(wanted.id)
    component = _loaded("models", adapter, Model)
    given = wanted.options
    for key in ("base_url", "api_key_env"):
        if (value := getattr(wanted, key)) is not None:
            given[key] = value
    options = _options(component, given, "model")
    made: Model = guard(f"model {wanted.id!r}", lambda: component(name, options))
    return made


def split_model(ref: str) -> tuple[str, str]:
    """`[ADAPTER:]NAME` → (adapter, name); a prefix that is no adapter belongs to the name."""
    prefix, colon, rest = ref.partition(":")
    if colon and rest and prefix in registry.names("models"):
        return prefix, rest
    return DEFAULT_ADAPTER, ref


def _evaluation_mode(request: RunRequest, benchmark: Benchmark) -> str:
    allowed = benchmark.evaluation_modes
    wanted = request.execution.evaluation_mode
    if not allowed or set(allowed) - {"reuse", "none", "fresh"}:
        raise BrokenComponent(f"benchmark {benchmark.id!r} declares evaluation modes {allowed!r}")
    if wanted is None:
        return allowed[0]
    if wanted not in allowed:
        raise OptionError(
            f"benchmark {benchmark.id!r} does not allow evaluation mode {wanted!r}",
            hint=f"allowed: {', '.join(allowed)}",
        )
    return wanted


def _check_together(c: Components) -> None:
    problems: list[str] = []
    for what, component in (
        (f"benchmark {c.benchmark.id}", c.benchmark),
        (f"harness {c.harness_id}", c.harness),
        (f"environment {c.environment.id}", c.environment),
        (f"model {c.model_name}", c.model),
    ):
        if component is not None:
            missing = guard(f"what {what} needs", component.requirements)
            problems += [f"{what}: {one}" for one in missing]
    if c.harness is not None:
        where = f"harness {c.harness.id} in environment {c.environment.id}"
        found = guard(where, c.harness.environment_problems, c.environment.id)
        problems += [f"{where}: {problem}" for problem in found]
    needs_model = c.harness.needs_model if c.harness is not None else True
    if needs_model and c.model is None:
        who = f"harness {c.harness.id}" if c.harness is not None else "harness none"
        problems.append(f"{who} needs a model: give --model")
    if problems:
        raise UsageError("\n".join(problems), hint=_adapter_hint(c.model))


def _adapter_hint(model: Model | None) -> str | None:
    """A name with a colon whose front part is nearly an adapter is probably misspelt."""
    prefix, colon, _ = model.name.partition(":") if model is not None else ("", "", "")
    near = difflib.get_close_matches(prefix, registry.names("models"), n=1) if colon else []
    return f"did you mean the adapter {near[0]}: instead of {prefix}:?" if near else None
