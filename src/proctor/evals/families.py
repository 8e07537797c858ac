"""Reducers of plug-ins, registered under `proctor.reducers`: reported where a metric names them."""

from proctor.evals import registry
from proctor.evals.metrics.contract import MetricContract
from proctor.evals.metrics.reducers import BUILT_IN, ReducerFamily
from proctor.kernel.errors import BrokenComponent


def families_of(contract: MetricContract) -> tuple[ReducerFamily, ...]:
    """The built-in families, and the registered ones that a metric of `contract` names. A broken
    one is refused here, before anything runs, and stops only who names it. Raises
    BrokenComponent."""
    named = {name for metric in contract.metrics for name in metric.reducers or ()}
    built_in = {family.id for family in BUILT_IN}
    registered = sorted((named - built_in).intersection(registry.names("reducers")))
    return (*BUILT_IN, *map(_made, registered))


def _made(name: str) -> ReducerFamily:
    component = registry.load("reducers", name)
    if not issubclass(component, ReducerFamily):
        raise BrokenComponent(
            f"reducer {name!r} is not a ReducerFamily",
            hint=f"derive the class from ReducerFamily of {ReducerFamily.__module__}",
        )
    if component.id != name:
        raise BrokenComponent(
            f"reducer {name!r} has the id {component.id!r}",
            hint="register it under its id: metrics name it so",
        )
    family: ReducerFamily = component()
    return family
