"""The service `main` of a task's compose file, as far as one container can honour it.

What would need another service, a volume or a network of compose's is named, so that the task is
refused before anything runs.
"""

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date
from typing import Any

COMPOSE_FILES = ("docker-compose.yaml", "docker-compose.yml", "compose.yaml", "compose.yml")
_TOP = frozenset(["services", "version", "name", "volumes", "networks"])
_WITHOUT_EFFECT = frozenset(
    ["command", "tty", "stdin_open", "init", "container_name", "hostname", "restart", "labels",
     "expose", "stop_grace_period", "stop_signal", "pull_policy", "healthcheck", "logging"]
)  # fmt: skip
"""Of a container that is kept alive with a sleep, by an engine that proctor speaks to itself."""
_HONOURED = frozenset(["image", "build", "environment", "working_dir", "volumes", "deploy",
                       "cpus", "mem_limit"])  # fmt: skip
_VARIABLE = re.compile(r"\$(?:\{([A-Za-z_][A-Za-z0-9_]*)(?::?-([^}]*))?\}|([A-Za-z_]\w*)|(\$))")
_LOG_MOUNT = re.compile(r"\$\{?HOST_\w+_(?:LOGS?|ARTIFACTS)_PATH\}?:\$\{?ENV_\w+_PATH\}?")
_SIZE = re.compile(r"(\d{1,15}(?:\.\d{1,6})?)\s*([kmg]?)b?", re.IGNORECASE)
_MOST_CHARS, _MOST_NODES = 200_000, 100_000
_MB = {"": 1 / 1_048_576, "k": 1 / 1_024, "m": 1.0, "g": 1_024.0}


@dataclass(frozen=True, slots=True)
class Main:
    """What `main` says: an image that is there already (None: the Dockerfile's, or the task's),
    variables, where commands start, limits. `problems` are what cannot be honoured."""

    image: str | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    workdir: str | None = None
    cpus: float | None = None
    memory_mb: int | None = None
    problems: tuple[str, ...] = ()


def read(text: str, variables: Mapping[str, str]) -> Main:
    """Read a compose file. `variables` are those that the format promises to compose files."""
    try:
        document = _document(text)
    except ValueError as error:
        return Main(problems=(str(error),))
    services = document.get("services") if isinstance(document, dict) else None
    main = (services.get("main") or {}) if isinstance(services, dict) else None
    if not isinstance(document, dict) or not isinstance(services, dict):
        return Main(problems=("it has no table services",))
    if not isinstance(main, dict):
        return Main(problems=("services.main is no table",))
    reader = _Reader(variables)
    reader.problems += _others(document, services)
    return reader.main(main)


def _document(text: str) -> Any:
    """What YAML says, unless its anchors make it far larger than it is. Raises ValueError."""
    import yaml

    if len(text) > _MOST_CHARS:
        raise ValueError(f"it is longer than {_MOST_CHARS:,} characters")
    loader = yaml.SafeLoader(text)
    try:
        node = loader.get_single_node()
        if node is None:
            return None
        if _size(node, {}) > _MOST_NODES:
            raise ValueError(f"its anchors stand for more than {_MOST_NODES:,} values")
        return loader.construct_document(node)
    except (yaml.YAMLError, RecursionError) as error:
        raise ValueError(f"it is not YAML: {str(error).splitlines()[0]}") from None
    except (ValueError, OverflowError) as error:  # a date or number that is none
        raise ValueError(f"it cannot be read: {error}") from None
    finally:
        loader.dispose()


def _size(node: Any, known: dict[int, int]) -> int:
    """How many values a node stands for with all its anchors written out. Raises ValueError."""
    seen = known.get(id(node))
    if seen == 0:
        raise ValueError("one of its anchors holds itself")
    if seen is None:
        known[id(node)] = 0
        pairs = node.value if isinstance(node.value, list) else ()
        parts = (p for pair in pairs for p in (pair if isinstance(pair, tuple) else (pair,)))
        seen = known[id(node)] = 1 + sum(_size(part, known) for part in parts)
    return seen


def _others(document: Mapping[Any, Any], services: Mapping[Any, Any]) -> Iterator[str]:
    for name in services:
        if name != "main":
            yield f"the service {name!r} (only `main` is run)"
    for key, value in document.items():
        if key not in _TOP and not str(key).startswith("x-"):
            yield f"{key}"
        elif key in ("volumes", "networks") and value:
            yield f"{key} of its own"


class _Reader:
    """Reads one service, and collects what cannot be honoured."""

    def __init__(self, variables: Mapping[str, str]) -> None:
        self._variables = variables
        self.problems: list[str] = []

    def main(self, main: Mapping[Any, Any]) -> Main:
        for key in main:
            if key not in _HONOURED | _WITHOUT_EFFECT:
                self.problems.append(f"services.main.{key}")
        volumes = main.get("volumes") or ()
        for volume in volumes if isinstance(volumes, (list, tuple)) else (volumes,):
            if not (isinstance(volume, str) and _LOG_MOUNT.match(volume)):
                self.problems.append("services.main.volumes")
        limits = self._limits(main)
        return Main(
            image=self._image(main),
            env=self._environment(main.get("environment")),
            workdir=self._workdir(main.get("working_dir")),
            cpus=self._cpus(limits.get("cpus", main.get("cpus"))),
            memory_mb=self._memory(limits.get("memory", main.get("mem_limit"))),
            problems=tuple(dict.fromkeys(self.problems)),
        )

    def _image(self, main: Mapping[Any, Any]) -> str | None:
        build = main.get("build")
        if build is None:
            return self._optional(main.get("image"))
        context = build.get("context", ".") if isinstance(build, dict) else build
        known = {"context", "dockerfile"}
        more = sorted(map(str, set(build) - known)) if isinstance(build, dict) else []
        self.problems += [f"services.main.build.{key}" for key in more]
        if self.text(context) not in (".", "./", ""):
            self.problems.append("services.main.build.context other than the folder itself")
        recipe = build.get("dockerfile", "Dockerfile") if isinstance(build, dict) else "Dockerfile"
        if self.text(recipe) not in ("Dockerfile", "./Dockerfile"):
            self.problems.append("services.main.build.dockerfile other than Dockerfile")
        return None

    def _environment(self, given: Any) -> dict[str, str]:
        if isinstance(given, list) and all(isinstance(item, str) for item in given):
            pairs = [item.partition("=") for item in given]
            return {self.text(name): self.text(value) for name, _, value in pairs}
        if isinstance(given, dict):
            return {self.text(name): self.text(value) for name, value in given.items()}
        if given is not None:
            self.problems.append("services.main.environment")
        return {}

    def _workdir(self, given: Any) -> str | None:
        path = self._optional(given)
        if path is not None and not path.startswith("/"):
            self.problems.append(f"services.main.working_dir = {path[:80]!r} (an absolute path)")
        return path

    def _limits(self, main: Mapping[Any, Any]) -> Mapping[Any, Any]:
        deploy = main.get("deploy")
        resources = deploy.get("resources") if isinstance(deploy, dict) else None
        limits = resources.get("limits") if isinstance(resources, dict) else None
        if deploy is not None and limits is None:
            self.problems.append("services.main.deploy without resources.limits")
        return limits if isinstance(limits, dict) else {}

    def _cpus(self, given: Any) -> float | None:
        text = self._optional(given)
        try:
            cpus = float(text) if text else None
        except ValueError:
            cpus = math.nan
        if cpus is None or (math.isfinite(cpus) and cpus > 0):
            return cpus
        self.problems.append(f"services.main: cpus = {text!r}")
        return None

    def _memory(self, given: Any) -> int | None:
        text = self._optional(given)
        if not text:
            return None
        match = _SIZE.fullmatch(text.strip())
        if match is None:
            self.problems.append(f"services.main: memory = {text!r}")
            return None
        return max(1, round(float(match[1]) * _MB[match[2].lower()]))

    def _optional(self, given: Any) -> str | None:
        return None if given is None else self.text(given) or None

    def text(self, given: Any) -> str:
        """A value with its variables filled in."""
        if given is not None and not isinstance(given, (str, int, float, date)):
            self.problems.append(f"services.main: a {type(given).__name__} where a value belongs")
            return ""
        return _VARIABLE.sub(self._value, "" if given is None else str(given))

    def _value(self, match: re.Match[str]) -> str:
        name = match[1] or match[3]
        if name is None:  # $$
            return "$"
        value = self._variables.get(name)
        if value is None and match[2] is None:
            self.problems.append(f"the variable {name}")
        return value or match[2] or ""
