"""`-p KEY=VALUE`: the option that KEY names, and VALUE as that option declares it."""

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel

from proctor.evals import registry
from proctor.evals.components import split_model
from proctor.evals.options import nearest, parse_option
from proctor.evals.request import (
    ExecutionRequest,
    ModelRequest,
    RuntimeRequest,
    SelectionRequest,
)
from proctor.kernel.errors import OptionError
from proctor.kernel.redact import secret_settings

COMPONENTS = {"benchmark": "benchmarks", "harness": "harnesses", "environment": "environments"}
GROUPS: dict[str, type[BaseModel]] = {
    "execution": ExecutionRequest,
    "runtime": RuntimeRequest,
    "selection": SelectionRequest,
}
_DEFAULTS = {"environment": "local"}
_OWN_FLAGS = {
    "benchmark.id": "--benchmark",
    "benchmark.data": "--data",
    "harness.id": "--harness",
    "environment.id": "--environment",
    "model.id": "--model",
}


def assigned(settings: Mapping[str, Any], assignment: str) -> tuple[str, Any]:
    """(place in the request, value). Raises OptionError.

    Text options take VALUE verbatim, others parse it as JSON; which it is depends on the component
    that `settings` name.
    """
    key, equals, text = assignment.partition("=")
    group, _, option = key.partition(".")
    if not equals or not option:
        raise OptionError(
            f"-p {assignment!r} is not KEY=VALUE",
            hint="KEY is GROUP.OPTION, for example -p benchmark.scorer=numeric",
        )
    if key in _OWN_FLAGS:
        raise OptionError(f"-p {key} is not an option", hint=f"give {_OWN_FLAGS[key]}")
    value = _value(settings, group, option, text)
    if secret_settings({option.rpartition(".")[2]: value}):
        raise OptionError(
            f"-p {key}: a secret is never given as a flag, where other processes can read it",
            hint="put it into an environment variable or into .env and name the variable, "
            "as in -p model.api_key_env=NAME",
        )
    return key, value


def _value(settings: Mapping[str, Any], group: str, option: str, text: str) -> Any:
    if group in GROUPS:
        return parse_option(GROUPS[group], option, text, group)
    if group not in COMPONENTS and group != "model":
        known = [*COMPONENTS, "model", *GROUPS]
        raise OptionError(f"-p {group}.{option}: unknown group", hint=nearest(group, known))
    ref = _named(settings, group)
    if ref is None:
        raise OptionError(
            f"-p {group}.{option}: the request names no {group}", hint=f"give --{group} too"
        )
    if group == "model":
        if option in ModelRequest.model_fields:
            return text
        component = registry.load("models", split_model(ref)[0])
    else:
        component = registry.load(COMPONENTS[group], ref)
    return parse_option(component.Options, option, text, group)


def _named(settings: Mapping[str, Any], group: str) -> str | None:
    wanted = settings.get(group)
    ref = wanted.get("id") if isinstance(wanted, Mapping) else wanted
    ref = ref if ref is not None else _DEFAULTS.get(group)
    return None if ref in (None, "none") else str(ref)
