"""The environments that whole runs of task folders are tried in."""

import pytest
from tests.engines import IMAGE, address, ensure_image, missing

from proctor.environments.bubblewrap import BubblewrapEnvironment

EVERYWHERE = ("local", "bubblewrap", "docker", pytest.param("podman", marks=pytest.mark.full))


def place(name, need):
    """What a request says about an environment. `local` runs portable tasks only."""
    if name in ("docker", "podman"):
        need(*missing(name))
        ensure_image(name)
        return {"id": "docker", "host": address(name), "image": IMAGE}
    if name == "bubblewrap":
        problems = BubblewrapEnvironment().requirements()
        need(not problems, "; ".join(problems))
    return {"id": name}
