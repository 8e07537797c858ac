"""From the layers of settings to one request: flag > file > environment > proctor.toml."""

import os
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from proctor.evals import registry
from proctor.evals.components import split_model
from proctor.evals.opening import stored_request
from proctor.evals.options import assign, nearest, parse_option, validate
from proctor.evals.request import (
    ExecutionRequest,
    ModelRequest,
    RunRequest,
    RuntimeRequest,
    SelectionRequest,
)
from proctor.evals.request_file import read_yaml
from proctor.kernel import jsontext
from proctor.kernel.errors import OptionError, UsageError

COMPONENTS = {"benchmark": "benchmarks", "harness": "harnesses", "environment": "environments"}
GROUPS: dict[str, type[BaseModel]] = {
    "execution": ExecutionRequest,
    "runtime": RuntimeRequest,
    "selection": SelectionRequest,
}

FLAG_PLACES = {
    "benchmark": "benchmark.id",
    "data": "benchmark.data",
    "harness": "harness.id",
    "environment": "environment.id",
    "model": "model.id",
    "base_url": "model.base_url",
    "k": "execution.attempts.k",
    "strategy": "execution.attempts.strategy",
    "max_retries": "execution.max_retries",
    "retry_pattern": "execution.retry_pattern_list",
    "evaluation_mode": "execution.evaluation_mode",
    "keep_environment": "execution.keep_environment",
    "tasks": "selection.tasks",
    "limit": "selection.limit",
    "shuffle_seed": "selection.shuffle_seed",
    "concurrency": "runtime.task_concurrency",
    "timeout": "runtime.timeout_s",
    "results": "runtime.results_dir",
    "run_id": "runtime.run_id",
}
"""Where each flag of `run` goes in a request. `PROCTOR_<FLAG>` goes to the same place."""

_TEXT_FLAGS = frozenset(
    ["benchmark", "data", "harness", "environment", "model", "base_url", "strategy",
     "evaluation_mode", "results", "run_id"]
)  # fmt: skip


def build_request(
    file: str | None, flags: Mapping[str, Any], assignments: Sequence[str]
) -> RunRequest:
    """The request that all layers together ask for. Raises UsageError."""
    layers = [_project_file(), _environment(os.environ)]
    if file is not None:
        layers.append(read_yaml(file))
    layers.append(_flags(flags))
    merged: dict[str, Any] = {}
    for layer in layers:
        _merge(merged, layer)
    for assignment in assignments:
        _assign(merged, assignment)
    if "benchmark" not in merged:
        raise UsageError("no benchmark", hint="give --benchmark ID, or a request file")
    return validate(RunRequest, merged, "")


def changed_options(run_dir: str, assignments: Sequence[str]) -> dict[str, Any]:
    """`-p` assignments over the request of a stored run, as changes to it."""
    request = stored_request(run_dir).model_dump(mode="json", exclude_none=True)
    changes: dict[str, Any] = {}
    for assignment in assignments:
        before = {name: dict(v) if isinstance(v, dict) else v for name, v in request.items()}
        _assign(before, assignment)
        key = assignment.partition("=")[0]
        assign(changes, key, _at(before, key))
    return changes


def _at(value: Any, key: str) -> Any:
    for part in key.split("."):
        value = value[part]
    return value


def _project_file() -> dict[str, Any]:
    path = Path("proctor.toml")
    if not path.is_file():
        return {}
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise OptionError(f"proctor.toml: {error}") from None


def _environment(environ: Mapping[str, str]) -> dict[str, Any]:
    layer: dict[str, Any] = {}
    for flag, place in FLAG_PLACES.items():
        text = environ.get(f"PROCTOR_{flag.upper()}")
        if not text:
            continue
        value: Any = text
        if flag not in _TEXT_FLAGS:
            try:
                value = jsontext.loads(text)
            except jsontext.JsonError:
                raise OptionError(f"PROCTOR_{flag.upper()}: {text!r} is not JSON") from None
        assign(layer, place, value)
    return layer


def _flags(flags: Mapping[str, Any]) -> dict[str, Any]:
    layer: dict[str, Any] = {}
    for flag, value in flags.items():
        if value is not None and value is not False and value not in ([], ()):  # 0 is a value
            assign(layer, FLAG_PLACES[flag], value)
    return layer


def _merge(target: dict[str, Any], layer: Mapping[str, Any]) -> None:
    for key, value in layer.items():
        component = key in COMPONENTS or key == "model"
        if component and isinstance(value, str):
            value = {"id": value}
        old = target.get(key)
        if component and isinstance(old, dict) and isinstance(value, Mapping):
            replaced = "id" in value and value["id"] != old.get("id")
            if replaced:  # another component: the old one's options do not fit it
                old = {k: v for k, v in old.items() if k == "data" and "id" not in old}
                target[key] = old
        if isinstance(old, dict) and isinstance(value, Mapping):
            _merge_group(old, value)
        else:
            target[key] = dict(value) if isinstance(value, Mapping) else value


def _merge_group(target: dict[str, Any], layer: Mapping[str, Any]) -> None:
    for key, value in layer.items():
        old = target.get(key)
        if isinstance(old, dict) and isinstance(value, Mapping):
            _merge_group(old, value)
        else:
            target[key] = dict(value) if isinstance(value, Mapping) else value


def _assign(merged: dict[str, Any], assignment: str) -> None:
    key, equals, text = assignment.partition("=")
    place, _, option = key.partition(".")
    if not equals or not option:
        raise OptionError(
            f"-p {assignment!r} is not KEY=VALUE",
            hint="for example -p benchmark.scorer=numeric",
        )
    if place in GROUPS:
        value = parse_option(GROUPS[place], option, text, place)
    elif place in COMPONENTS:
        value = _component_value(merged, place, option, text)
    elif place == "model":
        value = _model_value(merged, option, text)
    else:
        known = [*COMPONENTS, "model", *GROUPS]
        raise OptionError(f"-p {key}: unknown group {place!r}", hint=nearest(place, known))
    assign(merged, key, value)


def _component_value(merged: Mapping[str, Any], place: str, option: str, text: str) -> Any:
    wanted = merged.get(place) or {}
    ref = wanted.get("id") if isinstance(wanted, Mapping) else wanted
    if ref is None and place == "environment":
        ref = "local"
    if ref is None or ref == "none":
        raise OptionError(f"-p {place}.{option}: the request names no {place}")
    component = registry.load(COMPONENTS[place], str(ref))
    return parse_option(component.Options, option, text, place)


def _model_value(merged: Mapping[str, Any], option: str, text: str) -> Any:
    wanted = merged.get("model") or {}
    ref = wanted.get("id") if isinstance(wanted, Mapping) else wanted
    if ref is None:
        raise OptionError(f"-p model.{option}: the request names no model")
    if option in ModelRequest.model_fields:
        return text
    component = registry.load("models", split_model(str(ref))[0])
    return parse_option(component.Options, option, text, "model")


def load_dotenv(path: str = ".env") -> None:
    """Add the variables of a `.env` file (KEY=VALUE lines) that are not set already."""
    try:
        lines = Path(path).read_text(encoding="utf-8").split("\n")
    except (OSError, UnicodeDecodeError):
        return
    for line in lines:
        name, equals, value = line.strip().removeprefix("export ").partition("=")
        if equals and not name.startswith("#"):
            os.environ.setdefault(name.strip(), value.strip().strip("'\""))
