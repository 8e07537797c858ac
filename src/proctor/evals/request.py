"""A request as people write it: in a file, as flags, or in Python. Checked here, once."""

import re
from decimal import Decimal
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, field_validator

from proctor.kernel.ids import run_id_problem

EvaluationMode = Literal["reuse", "none", "fresh"]


Whole = Annotated[int, Field(strict=True)]
"""A whole number as such: neither true nor the text "3"."""
Number = Annotated[float, Field(strict=True, allow_inf_nan=False)]
Switch = Annotated[bool, Field(strict=True)]
Seconds = Annotated[Number, Field(ge=0)]
"""A limit in seconds; 0 is off."""


class Strict(BaseModel):
    """Unknown keys are refused; values never change."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class ComponentRequest(BaseModel):
    """Which component, and its options as further keys: `{id: table, scorer: numeric}`.

    `id` is a registered name, `module:Class`, or `file.py:Class`.
    """

    model_config = ConfigDict(extra="allow", frozen=True)
    id: str = Field(min_length=1)

    @property
    def options(self) -> dict[str, Any]:
        """The component's own options as given."""
        return dict(self.model_extra or {})


class BenchmarkRequest(ComponentRequest):
    """A benchmark and its data (a file or folder)."""

    data: str | None = None


class ModelRequest(ComponentRequest):
    """A model: `id` is `[ADAPTER:]NAME`; without an adapter, `openai`.

    `api_key_env` names the environment variable that holds the key; keys are never given here.
    """

    base_url: str | None = None
    api_key_env: str | None = None


class AttemptsRequest(Strict):
    """k attempts under a strategy: `avg` completes all, `pass` stops at the first success."""

    strategy: str = "avg"
    k: Whole = Field(default=1, ge=1, le=100_000)


class BudgetRequest(Strict):
    """What may be spent; None is no limit. `usd` needs prices (`-p model.prices.…`), `usd` and
    `tokens` need a longest answer (`-p model.max_tokens`). `wall_s` counts one execution."""

    usd: Annotated[Decimal, Field(gt=0, allow_inf_nan=False)] | None = None
    tokens: Annotated[Whole, Field(gt=0)] | None = None
    wall_s: Seconds | None = None


class ExecutionRequest(Strict):
    """How each attempt runs. Limits in seconds: 0 = off, None = the task's own limit, else none
    (evaluation: else 600)."""

    attempts: AttemptsRequest = AttemptsRequest()
    max_retries: Whole = Field(default=0, ge=0)
    retry_pattern_list: tuple[str, ...] | None = None
    retry_backoff_s: Number = Field(default=1.0, ge=0)
    evaluation_mode: EvaluationMode | None = None
    keep_environment: Switch = False
    attempt_timeout_s: Seconds | None = None
    open_timeout_s: Seconds = 600.0
    evaluation_timeout_s: Seconds | None = None
    durability: Literal["normal", "strict"] = "normal"
    budget: BudgetRequest | None = None

    @field_validator("retry_pattern_list")
    @classmethod
    def _compilable(cls, patterns: tuple[str, ...] | None) -> tuple[str, ...] | None:
        for pattern in patterns or ():
            try:
                re.compile(pattern)
            except re.error as error:
                raise ValueError(f"{pattern!r} is not a regular expression: {error}") from None
        return patterns


class SelectionRequest(Strict):
    """Which tasks: globs over ids, then shuffle by seed, then limit."""

    tasks: tuple[str, ...] = ()
    shuffle_seed: Whole | None = None
    limit: Whole | None = Field(default=None, ge=1)


class ModelLimitsRequest(Strict):
    """Limits of one model in this process; 0 is off."""

    concurrency: Whole = Field(default=0, ge=0)
    rpm: Whole = Field(default=0, ge=0)
    tpm: Whole = Field(default=0, ge=0)


MOST_AT_ONCE = 100_000
"""Active tasks of one launch. Each has a worker from the start: millions would fill the memory."""


class RuntimeRequest(Strict):
    """Run knobs: they may change freely between a run and its resume.

    `provider_limits` (environments at once), `env_open_qps` (opens per second) and
    `model_limits` are process-wide; 0 is off.
    """

    results_dir: str = "results"
    run_id: str | None = None
    task_concurrency: Whole = Field(default=8, ge=1, le=MOST_AT_ONCE)
    timeout_s: Seconds | None = None
    cleanup_grace_s: Number = Field(default=30.0, ge=0)
    recipe_dirs: tuple[str, ...] = ()
    provider_limits: dict[str, Annotated[Whole, Field(ge=0)]] = Field(default_factory=dict)
    env_open_qps: dict[str, Annotated[Number, Field(ge=0)]] = Field(default_factory=dict)
    model_limits: dict[str, ModelLimitsRequest] = Field(default_factory=dict)
    budget: BudgetRequest | None = None
    """Of the whole launch; each request may have its own in `execution`."""
    executor: str = "local"

    @field_validator("run_id")
    @classmethod
    def _portable(cls, value: str | None) -> str | None:
        if value is not None and (problem := run_id_problem(value)):
            raise ValueError(problem)
        return value


def _component(value: Any) -> Any:
    return {"id": value} if isinstance(value, str) else value


class RunRequest(Strict):
    """Benchmark × harness × environment × model × execution settings.

    A component may be given as its id alone: `harness: oracle`.
    """

    version: Literal[1] = 1
    name: str | None = None
    benchmark: Annotated[BenchmarkRequest, BeforeValidator(_component)]
    harness: Annotated[ComponentRequest, BeforeValidator(_component)] = ComponentRequest(id="none")
    environment: Annotated[ComponentRequest, BeforeValidator(_component)] = ComponentRequest(
        id="local"
    )
    model: Annotated[ModelRequest, BeforeValidator(_component)] | None = None
    execution: ExecutionRequest = ExecutionRequest()
    selection: SelectionRequest = SelectionRequest()
    runtime: RuntimeRequest = RuntimeRequest()
