"""SIGKILL at every named write point: its first, a middle and its last hit.

Which points there are is found out by recording a run and a resume. By default a seeded sample of
them is tried, at least one of every file's role; `scripts/test --full` tries all.
"""

import random
import signal
from collections.abc import Iterator

import pytest
from tests.scenarios.runtime.killing import (
    COMMAND,
    FRESH,
    LIMIT_S,
    RETRYING,
    WORKLOADS,
    Scene,
    Workload,
    examine,
    resumed,
)

TASKS, K = 3, 2
CHUNKS = 6
"""Parts that may run side by side."""
ROLES = {"artifact", "log", "owner", "plans", "result", "run_info", "state", "summary",
         "summary_text", "task"}  # fmt: skip
"""Written by every kind of run; modes none and fresh write `run`, retries `try` and `aside`."""
SAMPLED = {
    COMMAND: ROLES - {"artifact"} | {"run"},
    RETRYING: {"aside", "result", "state", "try"},
    FRESH: {"artifact", "aside", "result", "run", "try"},
}
"""Roles of which a hit is tried by default."""

Point = tuple[str, int]


def _scene(place, workload: Workload) -> Scene:
    return Scene(place, workload, TASKS, K, concurrency=2)


def _recorded(place, workload: Workload, *, resume: bool) -> list[str]:
    """The points that a run hits, or the resume of one that was killed in its middle."""
    scene = _scene(place, workload)
    plan = ("--do", f"record={place / 'points'}")
    if resume:
        _middle(scene)
        assert scene.resume(plan).wait(LIMIT_S) == 0
    else:
        assert scene.run(plan).wait(LIMIT_S) == 0
    return (place / "points").read_text("utf-8").split()


def _middle(scene: Scene) -> None:
    """A run that was killed when half of its attempts were recorded."""
    hit = str(TASKS * K // 2 + 1)
    killed = scene.run(("--at", "result.partial", "--hit", hit, "--do", "kill"))
    assert killed.wait(LIMIT_S) == -signal.SIGKILL


def _hits(points: list[str]) -> Iterator[Point]:
    for name in sorted(set(points)):
        hits = points.count(name)
        yield from ((name, hit) for hit in sorted({1, (hits + 1) // 2, hits}))


def _sample(points: list[str], roles: set[str], dice: random.Random) -> list[Point]:
    """One hit of each of these roles."""
    every = list(_hits(points))
    return [dice.choice([p for p in every if p[0].startswith(f"{r}.")]) for r in sorted(roles)]


@pytest.fixture(scope="module")
def points(tmp_path_factory):
    """The recorded points of a workload's run or resume."""
    known: dict[tuple[str, bool], list[str]] = {}

    def of(workload: Workload, resume: bool) -> list[str]:
        key = workload.name, resume
        if key not in known:
            place = tmp_path_factory.mktemp("recorded")
            known[key] = _recorded(place, workload, resume=resume)
        return known[key]

    return of


def _killed_in_the_run(place, workload: Workload, point: Point) -> None:
    scene = _scene(place, workload)
    name, hit = point
    process = scene.run(("--at", name, "--hit", str(hit), "--do", "kill"))
    assert process.wait(LIMIT_S) == -signal.SIGKILL, f"{point} was not reached"
    resumed(scene, examine(scene))


def _killed_in_the_resume(place, workload: Workload, point: Point) -> None:
    scene = _scene(place, workload)
    _middle(scene)
    before = examine(scene)
    name, hit = point
    process = scene.resume(("--at", name, "--hit", str(hit), "--do", "kill"))
    assert process.wait(LIMIT_S) in (-signal.SIGKILL, 0), f"{point}"
    left = examine(scene)
    assert before.results.items() <= left.results.items()
    resumed(scene, left)


def _try_all(place, workload: Workload, chosen: list[Point], *, resume: bool) -> None:
    kill = _killed_in_the_resume if resume else _killed_in_the_run
    for number, point in enumerate(chosen):
        try:
            kill(place / str(number), workload, point)
        except AssertionError as error:
            raise AssertionError(f"killed at {point}: {error}") from error


@pytest.mark.slow
@pytest.mark.parametrize("workload", WORKLOADS, ids=lambda w: w.name)
def test_every_role_has_its_points(points, workload):
    roles = {name.split(".")[0] for name in points(workload, False)}
    expected = set(ROLES)
    if workload.command:
        expected -= {"artifact"}
    if workload.grades_detached:
        expected |= {"run"}
    if workload.fails_first:
        expected |= {"try", "aside"}
    assert roles == expected
    assert SAMPLED[workload] <= expected


@pytest.mark.slow
@pytest.mark.parametrize("part", range(2))
@pytest.mark.parametrize("workload", WORKLOADS, ids=lambda w: w.name)
def test_kill_at_a_sample_of_the_points_of_a_run(tmp_path, points, workload, part):
    dice = random.Random(f"run {workload.name}")
    chosen = _sample(points(workload, False), SAMPLED[workload], dice)
    _try_all(tmp_path, workload, chosen[part::2], resume=False)


@pytest.mark.slow
@pytest.mark.parametrize("workload", WORKLOADS, ids=lambda w: w.name)
def test_kill_at_a_sample_of_the_points_of_a_resume(tmp_path, points, workload):
    dice = random.Random(f"resume {workload.name}")
    every = list(_hits(points(workload, True)))
    _try_all(tmp_path, workload, dice.sample(every, 4), resume=True)


@pytest.mark.full
@pytest.mark.slow
@pytest.mark.parametrize("part", range(CHUNKS))
@pytest.mark.parametrize("resume", [False, True], ids=["run", "resume"])
@pytest.mark.parametrize("workload", WORKLOADS, ids=lambda w: w.name)
def test_kill_at_every_point(tmp_path, points, workload, resume, part):
    every = list(_hits(points(workload, resume)))
    _try_all(tmp_path, workload, every[part::CHUNKS], resume=resume)
