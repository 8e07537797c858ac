"""An environment: `local`, in which commands see the same settings on every machine.

proctor run --benchmark table --data examples/settings.jsonl -p benchmark.scorer=exact \\
    --harness command -p harness.command='printenv "$(cat)"' \\
    --environment examples/environment_reproducible.py:Reproducible
"""

from dataclasses import replace

from proctor.environments.local import LocalEnvironment

SETTINGS = {"TZ": "UTC", "LC_ALL": "C.UTF-8", "PYTHONHASHSEED": "0", "SOURCE_DATE_EPOCH": "0"}


class Reproducible(LocalEnvironment):
    """`local` with a fixed time zone, locale, hash seed and build date."""

    id = "reproducible"

    def adapt(self, spec):
        spec = super().adapt(spec)
        return replace(spec, env={**SETTINGS, **spec.env})
