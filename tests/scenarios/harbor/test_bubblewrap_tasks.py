"""Tasks with absolute paths: run and graded in bubblewrap, refused by local."""

import asyncio
import os
from pathlib import Path

import pytest
from tests.scenarios.harbor.driving import attempt, codes, opened, solve

from proctor.benchmarks import samples
from proctor.benchmarks.harbor import Harbor
from proctor.environments.local import LocalEnvironment

ABSOLUTE = Path(__file__).parents[2] / "data" / "harbor_absolute"
TASKS = {task.id: task for task in Harbor(data=ABSOLUTE).load_tasks()}
PRIVATE = ("/task", "/app", "/tests", "/logs", "/solution")


@pytest.fixture
def bubblewrap(need):
    from proctor.environments.bubblewrap import BubblewrapEnvironment

    environment = BubblewrapEnvironment()
    need(not environment.requirements(), "; ".join(environment.requirements()))
    return environment


@pytest.fixture
def host_untouched():
    """The host's own folders of those names are as before."""
    before = {place: os.path.exists(place) for place in PRIVATE}
    yield
    assert {place: os.path.exists(place) for place in PRIVATE} == before


@pytest.mark.parametrize("name", sorted(TASKS))
def test_right_with_the_reference_solution_and_wrong_without(name, bubblewrap, host_untouched):
    task = TASKS[name]

    async def oracle(session):
        await solve(session, task)

    solved = asyncio.run(attempt(task, oracle, environment=bubblewrap))
    assert solved.metrics.get("passed") is True, solved
    untouched = asyncio.run(attempt(task, environment=bubblewrap))
    assert untouched.metrics.get("passed") is False, untouched


def test_a_reward_of_several_keys(bubblewrap):
    task = TASKS["absolute/word-counts"]
    found = asyncio.run(attempt(task, "echo 7 > total.txt", environment=bubblewrap))
    assert found.evidence["rewards"] == {"counts": 0.0, "total": 1.0, "place": 1.0}
    assert found.metrics["reward"] == pytest.approx(2 / 3)
    assert found.metrics["passed"] is False


@pytest.mark.parametrize("name", sorted(TASKS))
def test_local_refuses_them_before_anything_opens(name, host_untouched):
    (problem, *_) = LocalEnvironment().problems(TASKS[name].environment)
    assert problem.startswith("needs bubblewrap or docker")


def test_processes_of_the_agent_cannot_write_the_verdict(bubblewrap):
    daemon = "while :; do echo 1 > /logs/verifier/reward.txt; done"
    agent = f"setsid sh -c 'touch /app/begun; {daemon}' > /dev/null 2>&1 &\nsleep 0.2"
    found = asyncio.run(attempt(TASKS["sum-column"], agent, environment=bubblewrap))
    assert dict(found.metrics) == {"passed": False, "reward": 0.0}


def test_links_to_the_host_in_place_of_the_verdict(bubblewrap, tmp_path):
    (tmp_path / "reward.txt").write_text("1")
    agent = (
        f"rm -rf /logs/verifier /tests; ln -s {tmp_path} /logs/verifier; ln -s {tmp_path} /tests"
    )
    found = asyncio.run(attempt(TASKS["sum-column"], agent, environment=bubblewrap))
    assert dict(found.metrics) == {"passed": False, "reward": 0.0}
    assert os.listdir(tmp_path) == ["reward.txt"]


@pytest.mark.slow
def test_the_humanevalpack_tasks_are_run_and_graded(bubblewrap, shared_data, host_untouched):
    """Their tests hold the answer and their solve.sh fails: they prove the path, not the grade."""
    tasks = list(Harbor(data=shared_data / "harbor_humanevalpack").load_tasks())
    assert len(tasks) == 20

    async def one(task, gate):
        async with gate, opened(task, bubblewrap) as session:
            listed = await session.exec("pwd; cat solution/solution.py")
            assert listed.stdout.startswith("/task\n"), listed
        async with gate:
            return await attempt(task, environment=bubblewrap)

    async def all_of_them():
        gate = asyncio.Semaphore(2)
        return await asyncio.gather(*(one(task, gate) for task in tasks))

    for found in asyncio.run(all_of_them()):
        assert codes(found) == []
        assert dict(found.metrics) == {"passed": True, "reward": 1.0}


@pytest.mark.slow
def test_portable_samples_run_in_bubblewrap_too(bubblewrap):
    async def both(task):
        async def oracle(session):
            await solve(session, task)

        return [
            (await attempt(task, agent, environment=bubblewrap)).metrics.get("passed")
            for agent in (oracle, None)
        ]

    for task in Harbor(data=samples.path()).load_tasks():
        assert asyncio.run(both(task)) == [True, False], task.id
