"""Tasks with absolute paths in containers, on every engine: the path, the grade, the order."""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest
from tests.engines import IMAGE, address, ensure_image, missing
from tests.scenarios.harbor.driving import attempt, codes, solve
from tests.unit.benchmarks.harbor.folders import write

from proctor.benchmarks.harbor import Harbor, load_folder
from proctor.environments.docker import DockerEnvironment, DockerOptions
from proctor.environments.network import NetworkMode, NetworkPhases, NetworkPolicy

ABSOLUTE = Path(__file__).parents[2] / "data" / "harbor_absolute"
TASKS = {task.id: task for task in Harbor(data=ABSOLUTE).load_tasks()}
OFFLINE = NetworkPolicy(NetworkMode.NO_NETWORK)


@pytest.fixture(params=["docker", pytest.param("podman", marks=pytest.mark.full)])
def docker(request, need):
    need(*missing(request.param))
    ensure_image(request.param)
    return DockerEnvironment(DockerOptions(host=address(request.param), image=IMAGE))


@pytest.mark.parametrize("name", sorted(TASKS))
def test_right_with_the_reference_solution_and_wrong_without(name, docker):
    task = TASKS[name]

    async def both():
        async def oracle(session):
            await solve(session, task)

        return await asyncio.gather(
            attempt(task, oracle, environment=docker), attempt(task, environment=docker)
        )

    solved, untouched = asyncio.run(both())
    assert solved.metrics.get("passed") is True, solved
    assert untouched.metrics.get("passed") is False, untouched


def test_processes_of_the_agent_cannot_write_the_verdict(docker):
    daemon = "while :; do echo 1 > /logs/verifier/reward.txt; done"
    agent = (
        f"setsid sh -c 'touch /app/begun; {daemon}' > /dev/null 2>&1 &\n"
        "until [ -e /app/begun ]; do :; done"
    )
    found = asyncio.run(attempt(TASKS["sum-column"], agent, environment=docker))
    assert dict(found.metrics) == {"passed": False, "reward": 0.0}


def test_links_in_place_of_the_verdict(docker):
    agent = (
        "mkdir /mine; echo 1 > /mine/reward.txt; rm -rf /logs/verifier /tests;"
        "ln -s /mine /logs/verifier; ln -s /mine /tests"
    )
    found = asyncio.run(attempt(TASKS["sum-column"], agent, environment=docker))
    assert dict(found.metrics) == {"passed": False, "reward": 0.0}


@pytest.mark.full
@pytest.mark.slow
def test_the_humanevalpack_tasks_are_run_and_graded(docker, shared_data):
    """Their tests hold the answer: they prove the path, offline, not the grade."""
    tasks = list(Harbor(data=shared_data / "harbor_humanevalpack").load_tasks())
    assert len(tasks) == 20
    phases = NetworkPhases(OFFLINE, OFFLINE, OFFLINE)

    async def one(task, gate):
        offline = replace(task, environment=replace(task.environment, network=phases))
        async with gate:
            return await attempt(offline, environment=docker)

    async def all_of_them():
        gate = asyncio.Semaphore(4)
        return await asyncio.gather(*(one(task, gate) for task in tasks))

    for found in asyncio.run(all_of_them()):
        assert codes(found) == []
        assert dict(found.metrics) == {"passed": True, "reward": 1.0}


def test_the_service_main_of_a_compose_file(docker, tmp_path):
    compose = (
        "services:\n  main:\n"
        f"    image: {IMAGE}\n    command: [sh, -c, exit 1]\n    working_dir: /srv/work\n"
        "    environment: {GREETING: hello}\n    mem_limit: ${MEMORY}\n"
        "    volumes: ['${HOST_AGENT_LOGS_PATH}:${ENV_AGENT_LOGS_PATH}']\n"
    )
    parts = {
        "task.toml": '[environment]\nmemory_mb = 200\n[environment.env]\nOWN = "1"\n',
        "instruction.md": "Greet.\n",
        "environment/docker-compose.yaml": compose,
        "tests/test.sh": "#!/bin/sh\n"
        '[ "$PWD $GREETING $OWN $(cat greeting)" = "/srv/work hello 1 hello" ] && reward=1\n'
        'echo "${reward:-0}" > /logs/verifier/reward.txt\n',
    }
    task = load_folder(write(tmp_path / "composed", parts))
    assert task.invalid is None
    plain = DockerEnvironment(DockerOptions(host=docker.options.host))
    found = asyncio.run(attempt(task, 'echo "$GREETING" > greeting', environment=plain))
    assert dict(found.metrics) == {"passed": True, "reward": 1.0}, found
    assert task.environment.resources.memory_mb == 200
