"""From the layers of settings to one request: flag > file > environment > proctor.toml.

What is wrong is said in the words that the person used: the flag, the variable or the file.
"""

import difflib
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from proctor.cli.assignments import COMPONENTS, GROUPS, assigned
from proctor.cli.output import say
from proctor.evals.opening import stored_request
from proctor.evals.options import assign, validate
from proctor.evals.request import RunRequest, RuntimeRequest
from proctor.kernel import jsontext
from proctor.kernel.errors import OptionError, UsageError

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

FLAGS_OF_PLACES = {
    place: f"--{flag.replace('_', '-')}" if len(flag) > 1 else f"-{flag}"
    for flag, place in FLAG_PLACES.items()
}

_TEXT_FLAGS = frozenset(
    ["benchmark", "data", "harness", "environment", "model", "base_url", "strategy",
     "evaluation_mode", "results", "run_id"]
)  # fmt: skip
_PROJECT_FILE = "proctor.toml"
_MISSING = ": is required"


class Settings:
    """Settings of all layers, and where each comes from."""

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}
        self._origins: dict[str, str] = {}

    def add(self, layer: Mapping[str, Any], origin: str | None = None) -> None:
        """Lay `layer` over what is there; `origin` is a file, None stands for flags."""
        _lay_over(self.values, layer)
        for place in _places(layer):
            known_by = FLAGS_OF_PLACES.get(place, place)
            self._origins[place] = known_by if origin is None else f"{origin}: {place}"

    def add_variables(self, environ: Mapping[str, str]) -> None:
        """Lay the `PROCTOR_*` variables over what is there."""
        for flag, place in FLAG_PLACES.items():
            variable = f"PROCTOR_{flag.upper()}"
            if text := environ.get(variable):
                layer: dict[str, Any] = {}
                assign(layer, place, _variable_value(variable, flag, text))
                _lay_over(self.values, layer)
                self._origins[place] = variable

    def assign(self, assignment: str) -> None:
        """Apply one `-p KEY=VALUE`."""
        place, value = assigned(self.values, assignment)
        assign(self.values, place, value)
        self._origins[place] = f"-p {place}"

    def in_words_of_the_person(self, error: OptionError) -> OptionError:
        """`error` with places named as they were given: `-k` instead of `execution.attempts.k`."""
        said = error.message.split("\n")
        missing = [line.removesuffix(_MISSING) for line in said if line.endswith(_MISSING)]
        options = [f"-p {place}=VALUE" for place in missing if "." in place]
        hint = f"give {' '.join(options)}" if options and error.hint is None else error.hint
        return OptionError("\n".join(map(self._renamed, said)), hint=hint)

    def _renamed(self, line: str) -> str:
        place, colon, rest = line.partition(": ")
        while colon and place:
            if place in self._origins:
                whole = line.partition(": ")[0]
                return f"{self._origins[place]}{whole[len(place) :]}: {rest}"
            place = place.rpartition(".")[0]
        return line


def build_settings(
    file: str | None, flags: Mapping[str, Any], assignments: Sequence[str]
) -> Settings:
    """All layers together. Raises OptionError."""
    settings = Settings()
    settings.add(_project_file(), _PROJECT_FILE)
    _note_unknown_variables(os.environ)
    settings.add_variables(os.environ)
    if file is not None:
        from proctor.evals.request_file import read_yaml  # YAML is slow to import

        data = read_yaml(file)
        if "requests" in data:
            raise OptionError(f"{file} is a launch file", hint=f"proctor launch {file}")
        settings.add(data, file)
    settings.add(_flags(flags))
    for assignment in assignments:
        settings.assign(assignment)
    return settings


def request_of(settings: Settings) -> RunRequest:
    """The request that the settings ask for. Raises UsageError."""
    if settings.values.get("benchmark") is None:
        raise UsageError("no benchmark", hint="give --benchmark ID, or a request file")
    try:
        return validate(RunRequest, settings.values, "")
    except OptionError as error:
        raise settings.in_words_of_the_person(error) from None


def results_dir(flag: str | None) -> str:
    """Where runs are kept, by all layers; for commands that take nothing else of a request."""
    given = build_settings(None, {"results": flag}, ()).values.get("runtime", {})
    found = given.get("results_dir", "results") if isinstance(given, Mapping) else given
    return validate(RuntimeRequest, {"results_dir": found}, "runtime").results_dir


def changed_settings(run_dir: str, assignments: Sequence[str]) -> dict[str, Any]:
    """`-p` assignments over the request of a stored run, as changes to it."""
    request = stored_request(run_dir).model_dump(mode="json", exclude_none=True)
    changes: dict[str, Any] = {}
    for assignment in assignments:
        place, value = assigned(request, assignment)
        assign(request, place, value)
        assign(changes, place, value)
    return changes


def _project_file() -> dict[str, Any]:
    path = Path(_PROJECT_FILE)
    if not path.is_file():
        return {}
    import tomllib

    try:
        return tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except tomllib.TOMLDecodeError as error:
        raise OptionError(f"{_PROJECT_FILE}: {error}") from None
    except UnicodeDecodeError as error:
        raise OptionError(f"{_PROJECT_FILE}: not UTF-8 at byte {error.start}") from None
    except OSError as error:
        raise OptionError(f"cannot read {_PROJECT_FILE}: {error.strerror}") from None


def _note_unknown_variables(environ: Mapping[str, str]) -> None:
    """A variable that is nearly a setting is probably meant to be one."""
    known = [*(flag.upper() for flag in FLAG_PLACES), "PROGRESS"]
    for name in sorted(environ):
        prefix, _, setting = name.partition("PROCTOR_")
        if prefix or not setting or setting in known:
            continue
        if near := difflib.get_close_matches(setting, known, n=1, cutoff=0.8):
            say(f"proctor: {name} is not a setting; did you mean PROCTOR_{near[0]}?", error=True)


def _variable_value(variable: str, flag: str, text: str) -> Any:
    if flag in _TEXT_FLAGS:
        return text
    try:
        return jsontext.loads(text)
    except jsontext.JsonError as error:
        example = '["a*", "b*"]' if flag in ("tasks", "retry_pattern") else "3"
        raise OptionError(
            f"{variable}: {text!r} is not JSON ({error})", hint=f"for example {variable}={example}"
        ) from None


def _flags(flags: Mapping[str, Any]) -> dict[str, Any]:
    layer: dict[str, Any] = {}
    for flag, value in flags.items():
        if value is not None and value is not False and value not in ([], ()):  # 0 is a value
            assign(layer, FLAG_PLACES[flag], value)
    return layer


def _places(layer: Mapping[str, Any], prefix: str = "") -> list[str]:
    """The dotted places that a layer sets."""
    found = []
    for key, value in layer.items():
        place = f"{prefix}{key}"
        found.append(place)
        if isinstance(value, Mapping):
            found += _places(value, f"{place}.")
    return found


def _lay_over(target: dict[str, Any], layer: Mapping[str, Any]) -> None:
    for key, value in layer.items():
        if value is None and (key in COMPONENTS or key in GROUPS):
            continue  # a heading with nothing under it
        if (key in COMPONENTS or key == "model") and isinstance(value, str):
            value = {"id": value}
        old = target.get(key)
        if key in COMPONENTS or key == "model":
            target[key] = old = _fitting(old, value)
        if isinstance(old, dict) and isinstance(value, Mapping):
            _lay_over_group(old, value)
        else:
            target[key] = _copied(value)


def _fitting(old: Any, new: Any) -> Any:
    """What of a component's old settings still holds: another id has other options."""
    if not isinstance(old, dict) or not isinstance(new, Mapping):
        return old
    if "id" not in new or "id" not in old or new["id"] == old["id"]:
        return old
    return {}


def _lay_over_group(target: dict[str, Any], layer: Mapping[str, Any]) -> None:
    for key, value in layer.items():
        old = target.get(key)
        if isinstance(old, dict) and isinstance(value, Mapping):
            _lay_over_group(old, value)
        else:
            target[key] = _copied(value)


def _copied(value: Any) -> Any:
    return {k: _copied(v) for k, v in value.items()} if isinstance(value, Mapping) else value
