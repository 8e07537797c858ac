"""What of a specification a provider without images and cgroups skips, notes or sets."""

from proctor.environments.contract import EnvironmentSpec, Resources
from proctor.environments.limits import ProcessLimits


def image_notices(spec: EnvironmentSpec) -> list[tuple[str, str]]:
    """What a provider without images skips: the image's name, the lines that would build it."""
    skipped = ([f"image {spec.image}"] if spec.image else []) + list(spec.build)
    if not skipped:
        return []
    return [("image_not_built", "the machine's own system is used; skipped: " + "; ".join(skipped))]


def resource_notices(resources: Resources, enforced: tuple[str, ...]) -> list[tuple[str, str]]:
    """The wishes that a provider does not enforce."""
    skipped = [f"{n}={v}" for n, v in resources.to_json().items() if n not in enforced]
    if not skipped:
        return []
    return [("resource_not_enforced", "not enforced by this environment: " + ", ".join(skipped))]


def process_limits(resources: Resources) -> ProcessLimits | None:
    """What of `resources` can be set on a process without privileges."""
    if resources.memory_mb is None:
        return None
    return ProcessLimits(memory_mb=max(1, int(resources.memory_mb)))
