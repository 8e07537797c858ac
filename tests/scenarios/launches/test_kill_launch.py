"""SIGKILL of a launch with 3 requests, k=3, retries and fresh evaluation: at random points of all
its writes, and at every named write point. By default a seeded sample; `--full` tries them all.
"""

import random
import signal

import pytest
from tests.scenarios.launches.night import Night
from tests.scenarios.runtime.killing import LIMIT_S

SAMPLE_RANDOM, SAMPLE_NAMED, SAMPLE_RESUME = 5, 5, 3
FULL_RANDOM, CHUNKS = 200, 10
ROLES = {"artifact", "aside", "launch", "log", "owner", "plans", "result", "run", "run_info",
         "state", "summary", "summary_text", "task", "try"}  # fmt: skip


@pytest.fixture(scope="module")
def points(tmp_path_factory):
    """All write points in the order in which they were hit, of a launch and of a resume."""
    known: dict[bool, list[str]] = {}

    def of(*, resume: bool) -> list[str]:
        if resume not in known:
            night = Night(tmp_path_factory.mktemp("recorded") / "night")
            known[resume] = night.recorded(resume=resume)
        return known[resume]

    return of


def killed(place, plan: tuple[str, ...], *, resume: bool = False) -> None:
    """Kill at a point, then resume and check; the point may come earlier or not at all, since
    requests overlap."""
    night = Night(place)
    kill = (*plan, "--do", "kill")
    if resume:
        night.killed_in_the_middle()
        before = night.examine()
        code = night.resume(kill).wait(LIMIT_S)
    else:
        code = night.launch(kill)
    assert code in (-signal.SIGKILL, 0), night.complaint()
    left = night.examine()
    if resume:
        for name, member in before.members.items():
            assert member.results.items() <= left.members[name].results.items()
    try:
        night.resumed(left)
    except AssertionError as error:
        raise AssertionError(f"killed at {plan}: {error}") from error


def hits(points: list[str]) -> list[tuple[str, ...]]:
    """The first, a middle and the last hit of every named point."""
    found: list[tuple[str, ...]] = []
    for name in sorted(set(points)):
        number = points.count(name)
        found += [("--at", name, "--hit", str(h)) for h in sorted({1, (number + 1) // 2, number})]
    return found


def at_random(points: list[str], count: int, seed: str) -> list[tuple[str, ...]]:
    dice = random.Random(seed)
    return [("--hit-any", str(dice.randint(1, len(points)))) for _ in range(count)]


@pytest.mark.slow
def test_every_role_has_its_points(points):
    assert {name.split(".")[0] for name in points(resume=False)} == ROLES


@pytest.mark.slow
@pytest.mark.parametrize("number", range(SAMPLE_RANDOM))
def test_kill_at_a_random_point(tmp_path, points, number):
    chosen = at_random(points(resume=False), SAMPLE_RANDOM, "random")[number]
    killed(tmp_path / "night", chosen)


@pytest.mark.slow
@pytest.mark.parametrize("number", range(SAMPLE_NAMED))
def test_kill_at_a_named_point(tmp_path, points, number):
    chosen = random.Random("named").sample(hits(points(resume=False)), SAMPLE_NAMED)[number]
    killed(tmp_path / "night", chosen)


@pytest.mark.slow
@pytest.mark.parametrize("number", range(SAMPLE_RESUME))
def test_kill_in_the_resume(tmp_path, points, number):
    chosen = random.Random("resume").sample(hits(points(resume=True)), SAMPLE_RESUME)[number]
    killed(tmp_path / "night", chosen, resume=True)


@pytest.mark.slow
@pytest.mark.parametrize("hit", [1, 2, 3])
def test_kill_around_the_first_writes(tmp_path, hit):
    """The document of the launch itself, and the claim on it."""
    killed(tmp_path / "night", ("--hit-any", str(hit * 3)))


@pytest.mark.full
@pytest.mark.slow
@pytest.mark.parametrize("part", range(CHUNKS))
@pytest.mark.parametrize("which", ["random", "named", "resume"])
def test_kill_everywhere(tmp_path, points, which, part):
    if which == "random":
        every = at_random(points(resume=False), FULL_RANDOM, "full")
    elif which == "named":
        every = hits(points(resume=False))
    else:
        every = [plan for plan in hits(points(resume=True)) if plan[-1] == "1"]
    for number, plan in enumerate(every[part::CHUNKS]):
        killed(tmp_path / str(number), plan, resume=which == "resume")
