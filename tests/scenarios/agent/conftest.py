"""What the scenarios of agent runs share."""

import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from tests.scenarios.agent.places import Place

from proctor.testing.otherside import other_side

ROOT = Path(__file__).resolve().parents[3]
KINDS = ("sqlite", "postgresql")


@pytest.fixture(scope="session")
def socket():
    """One other side for all scenarios: operation keys tell their effects apart."""
    with tempfile.TemporaryDirectory(prefix="proctor-other-") as folder:
        path = f"{folder}/other"
        with other_side(path):
            yield path


@pytest.fixture
def place(request, tmp_path):
    """A new journal; parametrize indirectly with a kind, `sqlite` by default."""
    kind = getattr(request, "param", "sqlite")
    url = request.getfixturevalue("postgresql_url") if kind == "postgresql" else ""
    return Place.new(kind, tmp_path, url)


@pytest.fixture
def worker(socket):
    """`worker(place, run_id, point, hit)`: a worker that is killed there, to its end; its exit
    code. Without a point: the hit-th of all points."""

    def run(place, run_id, *fault):
        argv = [sys.executable, "-m", "tests.scenarios.agent.child"]
        argv += [place.text(), socket, run_id]
        fault = ("any", *fault) if len(fault) == 1 else fault
        argv += ["kill", *(str(word) for word in fault)] if fault else []
        done = subprocess.run(
            argv, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
        )
        assert done.returncode in (0, -9), done.stderr
        return done.returncode

    return run
