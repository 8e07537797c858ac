"""Finding components: entry points, `module:Class`, or `file.py:Class`. Imported on use.

A broken plug-in is listed as broken with its error and stops nothing but the requests that
name it; a component whose optional dependency is missing is listed with the extra to install.
"""

import functools
import importlib
import importlib.util
import os
import sys
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any

from proctor.evals.options import nearest
from proctor.kernel.digest import of_bytes
from proctor.kernel.errors import BrokenComponent, UnknownComponent

_SINGULAR = {
    "benchmarks": "benchmark",
    "harnesses": "harness",
    "environments": "environment",
    "models": "model adapter",
    "strategies": "strategy",
    "reducers": "reducer",
    "analyzers": "analyzer",
    "judges": "judge",
    "recipes": "recipe",
    "executors": "executor",
}
KINDS = tuple(_SINGULAR)
"""What can be registered, each under the entry-point group `proctor.<kind>`."""


@dataclass(frozen=True, slots=True)
class Listing:
    """One registered component as `proctor list` shows it."""

    id: str
    status: str
    """`available`, `unavailable` (something is missing; see `reason`) or `broken`."""
    summary: str
    reason: str | None = None
    origin: str | None = None


@functools.cache
def _points() -> Any:  # its type depends on the version of Python
    """Those of every kind: reading what is installed costs more than the rest of a look-up."""
    return entry_points()


@functools.cache
def _registered(kind: str) -> dict[str, EntryPoint]:
    found: dict[str, EntryPoint] = {}
    for point in _points().select(group=f"proctor.{kind}"):
        ours = point.value.startswith("proctor.")
        if point.name not in found or ours:  # a plug-in never replaces a built-in
            found[point.name] = point
    return found


def names(kind: str) -> list[str]:
    """The registered ids of a kind, sorted."""
    return sorted(_registered(kind))


def load(kind: str, ref: str) -> type[Any]:
    """The component class that `ref` names. Raises UnknownComponent or BrokenComponent."""
    point = _registered(kind).get(ref)
    what = f"{_SINGULAR[kind]} {ref!r}"
    if point is not None:
        return _checked(_import_entry(point, what), what)
    if ":" in ref:
        return _checked(_attribute(ref, what), what)
    raise UnknownComponent(f"unknown {what}", hint=nearest(ref, names(kind)))


def load_callable(ref: str) -> Any:
    """The function that `module:function` or `file.py:function` names."""
    what = f"callable {ref!r}"
    if ":" not in ref:
        raise UnknownComponent(f"{what} has no function name", hint="give file.py:function")
    found = _attribute(ref, what)
    if not callable(found):
        raise BrokenComponent(f"{what} cannot be called: it is {type(found).__name__}")
    return found


def _attribute(ref: str, what: str) -> Any:
    location, _, attribute = ref.rpartition(":")
    module = _import_place(location, what)
    if not hasattr(module, attribute):
        known = [n for n in vars(module) if not n.startswith("_")]
        raise UnknownComponent(
            f"{what}: {location} has no {attribute}", hint=nearest(attribute, known)
        )
    return getattr(module, attribute)


def _import_entry(point: EntryPoint, what: str) -> Any:
    try:
        return point.load()
    except ImportError as error:
        raise BrokenComponent(
            f"{what} cannot be imported: {error}", hint=_what_to_install(point)
        ) from error
    except (Exception, SystemExit) as error:
        raise BrokenComponent(
            f"{what} is broken: {type(error).__name__}: {error}", hint=f"it is {point.value}"
        ) from error


def _what_to_install(point: EntryPoint) -> str:
    if not point.extras or point.dist is None:
        return f"it is {point.value}"
    return f"pip install '{point.dist.name}[{','.join(point.extras)}]'"


def _import_place(location: str, what: str) -> Any:
    try:
        if location.endswith(".py"):
            return _import_file(location, what)
        if os.getcwd() not in sys.path:
            sys.path.insert(0, os.getcwd())
        return importlib.import_module(location)
    except (UnknownComponent, BrokenComponent):
        raise
    except ModuleNotFoundError as error:
        if location.endswith(".py") or not f"{location}.".startswith(f"{error.name}."):
            raise BrokenComponent(
                f"{what} cannot be imported: {error}", hint=f"install what provides {error.name}"
            ) from error
        raise UnknownComponent(
            f"{what}: {error}", hint="give module:Class (importable) or file.py:Class"
        ) from error
    except (Exception, SystemExit) as error:
        raise BrokenComponent(
            f"{what} fails to import: {type(error).__name__}: {error}",
            hint="its own traceback shows when Python imports it alone",
        ) from error


def _import_file(location: str, what: str) -> Any:
    path = Path(location).resolve()
    if not path.is_file():
        raise UnknownComponent(f"{what}: no such file: {location}")
    name = f"proctor_file_{path.stem}_{of_bytes(os.fsencode(path))[7:19]}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise BrokenComponent(f"{what}: {location} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _checked(component: Any, what: str) -> type[Any]:
    if not isinstance(component, type):
        raise BrokenComponent(f"{what} is not a class but {type(component).__name__}")
    if not isinstance(getattr(component, "id", None), str):
        raise BrokenComponent(f"{what} has no id", hint='set `id = "…"` in the class')
    if missing := sorted(getattr(component, "__abstractmethods__", ())):
        raise BrokenComponent(f"{what} does not define: {', '.join(missing)}")
    return component


def listings(kind: str) -> list[Listing]:
    """Every registered component of a kind with its state on this machine."""
    return [_listing(kind, name, point) for name, point in sorted(_registered(kind).items())]


def _listing(kind: str, name: str, point: EntryPoint) -> Listing:
    try:
        component = load(kind, name)
        missing = _missing(kind, component)
    except BrokenComponent as error:
        status = "unavailable" if isinstance(error.__cause__, ImportError) else "broken"
        reason = error.message + (f" ({error.hint})" if error.hint else "")
        return Listing(name, status, "", reason, point.value)
    except Exception as error:  # noqa: BLE001 - a plug-in may raise anything when it is asked
        return Listing(name, "broken", "", f"{type(error).__name__}: {error}", point.value)
    summary = next(iter((component.__doc__ or "").strip().splitlines()), "")
    status = "unavailable" if missing else "available"
    return Listing(name, status, summary, "; ".join(missing) or None, point.value)


def _missing(kind: str, component: type[Any]) -> list[str]:
    """What the component lacks on this machine. A model's needs depend on its name and endpoint,
    so they are known only in a request's preflight."""
    if kind == "models" or not hasattr(component, "requirements"):
        return []
    return list(component().requirements())
