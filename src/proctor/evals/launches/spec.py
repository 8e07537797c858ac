"""The launch file: named requests with defaults and a matrix, run through one pool."""

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

from pydantic import Field

from proctor.evals.options import assign, nearest, validate
from proctor.evals.request import MOST_AT_ONCE, RunRequest, RuntimeRequest, Strict, Whole
from proctor.kernel.errors import OptionError
from proctor.kernel.ids import readable

MAX_REQUESTS = 1_000
"""A matrix that makes more requests than this needs to be confirmed."""


class LaunchSpec(Strict):
    """A launch as written. `defaults` and each request are parts of a run request; `matrix` maps
    a dotted key to values, and every request is made once for every combination."""

    version: Literal[1] = 1
    name: str = Field(min_length=1)
    task_concurrency: Whole | None = Field(default=None, ge=1, le=MOST_AT_ONCE)
    defaults: dict[str, Any] = Field(default_factory=dict)
    matrix: dict[str, list[Any]] = Field(default_factory=dict)
    requests: list[dict[str, Any]] = Field(min_length=1)
    runtime: RuntimeRequest = RuntimeRequest()


class Launch(Strict):
    """A resolved launch: every request is complete and has a unique name."""

    name: str
    task_concurrency: Whole = Field(ge=1, le=MOST_AT_ONCE)
    requests: tuple[RunRequest, ...]
    runtime: RuntimeRequest


def resolve(spec: LaunchSpec, only: Sequence[str] = (), *, any_size: bool = False) -> Launch:
    """Expand defaults and matrix. Raises OptionError naming the request that is wrong."""
    size = len(spec.requests)
    for key, values in spec.matrix.items():
        if not values:
            raise OptionError(f"matrix.{key} has no values")
        size *= len(values)
    if size > MAX_REQUESTS and not any_size:
        raise OptionError(
            f"the matrix makes {size} requests, more than {MAX_REQUESTS}",
            hint="give --yes if that is what you want",
        )
    concurrency = spec.task_concurrency or spec.runtime.task_concurrency
    runtime = spec.runtime.model_copy(update={"task_concurrency": concurrency})
    requests = tuple(_expand(spec, runtime))
    _check_names([str(r.name) for r in requests])
    if only:
        requests = _only(requests, only)
    return Launch(name=spec.name, task_concurrency=concurrency, requests=requests, runtime=runtime)


def _expand(spec: LaunchSpec, runtime: RuntimeRequest) -> Iterator[RunRequest]:
    if "runtime" in spec.defaults:
        raise OptionError("defaults.runtime: run knobs are given once, at the launch's `runtime`")
    knobs = runtime.model_dump(exclude={"run_id"})
    for position, given in enumerate(spec.requests, start=1):
        base = given.get("name")
        if not isinstance(base, str) or not base.strip():
            raise OptionError(f"requests.{position}: a request of a launch needs a name")
        if "runtime" in given:
            raise OptionError(f"{base}: run knobs are given once, at the launch's `runtime`")
        for choice in itertools.product(*spec.matrix.values()):
            combined: dict[str, Any] = {}
            merge(combined, spec.defaults)
            merge(combined, given)
            for key, value in zip(spec.matrix, choice, strict=True):
                assign(combined, key, value)
            combined["name"] = "-".join([base, *_suffixes(spec.matrix, choice)])
            combined["runtime"] = knobs
            yield validate(RunRequest, combined, f"request {combined['name']}")


def _suffixes(matrix: Mapping[str, list[Any]], choice: tuple[Any, ...]) -> list[str]:
    found = []
    for values, value in zip(matrix.values(), choice, strict=True):
        plain = isinstance(value, str | int | float) and not isinstance(value, bool)
        text = readable(str(value), 40) if plain else str(values.index(value) + 1)
        found.append(re.sub(r"[._-]+$", "", text) or str(values.index(value) + 1))
    return found


def merge(target: dict[str, Any], layer: Mapping[str, Any]) -> None:
    """Lay `layer` over `target`. A component given anew by another id brings its own options."""
    for key, value in layer.items():
        if key in ("benchmark", "harness", "environment", "model") and isinstance(value, str):
            value = {"id": value}
        old = target.get(key)
        if isinstance(old, dict) and isinstance(value, Mapping):
            if "id" in value and "id" in old and value["id"] != old["id"]:
                old = target[key] = {}
            merge(old, value)
        elif isinstance(value, Mapping):
            fresh: dict[str, Any] = {}
            merge(fresh, value)
            target[key] = fresh
        else:
            target[key] = value


def _check_names(names: list[str]) -> None:
    first: dict[str, str] = {}
    for name in names:
        folded = readable(name).casefold()
        if folded in first:
            raise OptionError(
                f"requests {first[folded]!r} and {name!r} would share one results directory",
                hint="give them names that differ in letters or digits",
            )
        first[folded] = name


def _only(requests: tuple[RunRequest, ...], only: Sequence[str]) -> tuple[RunRequest, ...]:
    names = [str(r.name) for r in requests]
    for wanted in only:
        if wanted not in names:
            raise OptionError(f"--only {wanted}: no such request", hint=nearest(wanted, names))
    return tuple(r for r in requests if r.name in only)
