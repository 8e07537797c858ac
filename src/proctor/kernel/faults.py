"""Named points where a test may make the process fail. Inert in production.

A point costs one comparison. `proctor.testing.faults` installs a hook; nothing in `src` does.
"""

from collections.abc import Callable

_hook: Callable[[str], None] | None = None


def fault_point(name: str) -> None:
    """Give an installed hook the chance to kill the process or raise here."""
    if _hook is not None:
        _hook(name)


def active() -> bool:
    """Whether a hook is installed."""
    return _hook is not None


def install(hook: Callable[[str], None] | None) -> None:
    """Install `hook(name)` for every point, or remove it with None. For tests only."""
    global _hook
    _hook = hook
