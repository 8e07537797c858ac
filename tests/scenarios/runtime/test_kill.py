"""kill -9 from outside at random moments, in the run and in its resume."""

import random
import subprocess
import sys
import time

import pytest
from tests.scenarios.runtime.killing import (
    COMMAND,
    FRESH,
    LIMIT_S,
    RETRYING,
    Scene,
    Workload,
    examine,
    killed_at,
    resumed,
)

TASKS, K = 8, 3
MOMENTS = {COMMAND: 12, RETRYING: 9, FRESH: 9}
"""30 moments. Every third is a fraction of the time that a whole run took, the others follow the
run's own progress, which other load on the machine does not shift."""


def _scene(place, workload: Workload) -> Scene:
    return Scene(place, workload, TASKS, K, works_s=0.03)


@pytest.fixture(scope="module")
def whole_run_s(tmp_path_factory) -> dict[Workload, float]:
    """How long each kind of run takes undisturbed, from its start to its exit."""
    taken = {}
    for number, workload in enumerate(MOMENTS):
        scene = _scene(tmp_path_factory.mktemp(f"whole-{number}"), workload)
        began = time.monotonic()
        assert scene.run().wait(LIMIT_S) == 0
        taken[workload] = time.monotonic() - began
        assert set(scene.files("result.json")) == scene.announced() == scene.grid
    return taken


@pytest.mark.slow
@pytest.mark.parametrize(
    ("workload", "moment"),
    [(w, m) for w, moments in MOMENTS.items() for m in range(moments)],
    ids=lambda value: value.name if isinstance(value, Workload) else str(value),
)
def test_kill_at_a_random_moment(tmp_path, whole_run_s, workload, moment):
    dice = random.Random(f"{workload.name} {moment}")
    scene = _scene(tmp_path, workload)
    process = scene.run()
    if moment % 3 == 0:
        end = time.monotonic() + whole_run_s[workload] * dice.uniform(0.2, 1.0)
        killed_at(process, lambda: time.monotonic() >= end)
    else:
        _kill_in_the_middle(scene, process, dice)
    left = examine(scene)
    if moment % 3 == 1 and left.results:
        again = scene.resume()
        _kill_in_the_middle(scene, again, dice, len(left.announced))
        kept, left = left.results, examine(scene)
        assert kept.items() <= left.results.items()
    resumed(scene, left)


def _kill_in_the_middle(scene: Scene, process, dice: random.Random, announced: int = 0) -> None:
    """After a random number of announcements more, and a random little while."""
    wanted = dice.randrange(announced + 1, max(len(scene.grid), announced + 2))
    delay_s = dice.uniform(0, 0.03)
    reached: list[float] = []

    def due() -> bool:
        if not reached and len(scene.announced()) >= wanted:
            reached.append(time.monotonic())
        return bool(reached) and time.monotonic() - reached[0] >= delay_s

    killed_at(process, due)
    assert len(scene.announced()) >= min(wanted, len(scene.grid))


@pytest.mark.slow
def test_show_says_that_the_owner_is_dead(tmp_path):
    scene = _scene(tmp_path, COMMAND)
    process = scene.run()
    assert killed_at(process, lambda: len(scene.announced()) >= 3)
    shown = subprocess.run(
        [sys.executable, "-m", "proctor", "show", str(scene.run_dir)],
        capture_output=True, text=True, check=True, timeout=LIMIT_S,
    ).stdout  # fmt: skip
    assert ": dead\n" in shown
    assert f"process {process.pid} " in shown
    assert "proctor resume" in shown
