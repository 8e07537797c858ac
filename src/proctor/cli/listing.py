"""`proctor list`."""

from dataclasses import asdict

from proctor.cli.output import emit, one_line, say
from proctor.evals import registry
from proctor.evals.options import nearest
from proctor.kernel.errors import OptionError


def list_components(kind: str, as_json: bool) -> int:
    """Every registered component of a kind with its state; exit 0 also when some are broken."""
    if kind not in registry.KINDS:
        raise OptionError(f"unknown kind {kind!r}", hint=nearest(kind, registry.KINDS))
    found = registry.listings(kind)
    if kind == "reducers":
        found = sorted([*_reducers(), *found], key=lambda item: item.id)
    if as_json:
        emit({"kind": kind, "components": [asdict(item) for item in found]})
        return 0
    if not found:
        say(f"no {kind} are registered")
    width = max((len(item.id) for item in found), default=0)
    for item in found:
        text = item.summary if item.status == "available" else f"{item.status}: {item.reason}"
        say(f"{one_line(item.id):{width}}  {one_line(text)}")
    return 0


def _reducers() -> list[registry.Listing]:
    """The built-in families; they need no registration."""
    from proctor.evals.metrics.reducers import BUILT_IN

    return [
        registry.Listing(
            family.id,
            "available",
            (type(family).__doc__ or "").strip().splitlines()[0],
            origin=f"{type(family).__module__}:{type(family).__name__}",
        )
        for family in BUILT_IN
    ]
