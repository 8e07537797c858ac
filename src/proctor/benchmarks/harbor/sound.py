"""Values that no environment can honour: told when a task is read, not when its attempt fails.

A task folder may come from anywhere. What only an engine or a kernel refuses would be a failure of
the environment, and the agent's where it comes after its phase; it is the task's own.
"""

import math
from collections.abc import Iterator

from proctor.environments.image_names import image_name_problem
from proctor.environments.spec import EnvironmentSpec, Resources

MOST_MB = 1_000_000_000
MOST_CPUS = 100_000
MOST_VALUE_BYTES = 100_000
"""Of one variable: the kernel takes 128 KiB with its name."""
_MOST_VARIABLES_BYTES = 500_000
_NAME_BYTES, _PATH_BYTES = 255, 3_500  # a provider puts its own folders before it


def image_name(name: str) -> str:
    """`name`, when it can be that of an image. Raises ValueError."""
    if problem := image_name_problem(name):
        raise ValueError(problem)
    return name


def script(text: str) -> str:
    """`text`, when a shell can be given it. Raises ValueError."""
    if not text.strip() or "\0" in text:
        raise ValueError(f"not a command that can be run: {text[:80]!r}")
    return text


def inside(path: str) -> str:
    """`path`, when a file inside can have it. Raises ValueError."""
    data = path.encode("utf-8", "replace")
    if (
        b"\0" in data
        or len(data) > _PATH_BYTES
        or len(max(data.split(b"/"), key=len)) > _NAME_BYTES
    ):
        raise ValueError(f"not a path that a file can have: {path[:80]!r}")
    return path


def unsound(spec: EnvironmentSpec) -> list[str]:
    """What of a task's environment cannot be, wherever it was written."""
    return [*_names(spec), *_variables(spec), *_wishes(spec.resources)]


def _names(spec: EnvironmentSpec) -> Iterator[str]:
    try:
        if spec.image is not None:
            image_name(spec.image)
        for path in (spec.workdir or ".", *(target for _, target in spec.copies)):
            inside(path)
    except ValueError as error:
        yield str(error)


def _variables(spec: EnvironmentSpec) -> Iterator[str]:
    total = 0
    for name, value in spec.env.items():
        size = len(name.encode("utf-8", "replace")) + len(value.encode("utf-8", "replace"))
        total += size
        if not name or "=" in name or "\0" in name + value:
            yield f"{name[:80]!r} is not a variable that can be set"
        elif size > MOST_VALUE_BYTES:
            yield f"the variable {name[:80]!r} is longer than {MOST_VALUE_BYTES:,} bytes"
    if total > _MOST_VARIABLES_BYTES:
        yield f"the variables are together longer than {_MOST_VARIABLES_BYTES:,} bytes"


def _wishes(wishes: Resources) -> Iterator[str]:
    bounds = (
        ("cpus", wishes.cpus, MOST_CPUS),
        ("memory_mb", wishes.memory_mb, MOST_MB),
        ("storage_mb", wishes.storage_mb, MOST_MB),
        ("gpus", wishes.gpus, MOST_CPUS),
    )
    for name, value, most in bounds:
        if value is not None and not (math.isfinite(value) and 0 < value <= most):
            yield f"{name} = {value} is not above 0 and at most {most:,}"
