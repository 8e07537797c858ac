"""Compose files: the service `main`, and everything that one container cannot honour."""

import pytest

# ruff: noqa: E501 - one case a line
from tests.unit.benchmarks.harbor.folders import MINIMAL, write

from proctor.benchmarks.harbor import load_folder
from proctor.benchmarks.harbor.compose import Main, read

VARIABLES = {"MAIN_IMAGE_NAME": "", "CONTEXT_DIR": ".", "PREBUILT_IMAGE_NAME": "its:1",
             "CPUS": "2", "MEMORY": "512M"}  # fmt: skip
USUAL = """
version: "3"
x-notes: [anything]
services:
  main:
    build: {context: "${CONTEXT_DIR}", dockerfile: Dockerfile}
    image: ${MAIN_IMAGE_NAME}
    command: [sh, -c, "sleep infinity"]
    environment:
      - A=1
      - B=${CPUS}x$$
    working_dir: /srv/work
    volumes:
      - ${HOST_VERIFIER_LOGS_PATH}:${ENV_VERIFIER_LOGS_PATH}
    deploy: {resources: {limits: {cpus: "${CPUS}", memory: "${MEMORY}"}}}
"""


def test_the_usual_file():
    assert read(USUAL, VARIABLES) == Main(
        None, {"A": "1", "B": "2x$"}, "/srv/work", 2.0, 512, problems=()
    )


@pytest.mark.parametrize(
    ("main", "found"),
    [
        ("image: ${PREBUILT_IMAGE_NAME}", Main("its:1")),
        ("image: '${OTHER:-debian:12}'", Main("debian:12")),
        ("environment: {A: 1, B: null}", Main(env={"A": "1", "B": ""})),
        ("mem_limit: 1.5g", Main(memory_mb=1536)),
        ("cpus: 0.5", Main(cpus=0.5)),
        ("build: .", Main()),
        ("image: ${OTHER}", Main(problems=("the variable OTHER",))),
        ("ports: [80]", Main(problems=("services.main.ports",))),
        ("volumes: ['/:/host']", Main(problems=("services.main.volumes",))),
        ("volumes: [{type: bind}]", Main(problems=("services.main.volumes",))),
        ("build: ../other", Main(problems=("services.main.build.context other than the folder itself",))),
        ("build: {context: ., args: {X: 1}}", Main(problems=("services.main.build.args",))),
        ("build: {dockerfile: Other}", Main(problems=("services.main.build.dockerfile other than Dockerfile",))),
        ("mem_limit: lots", Main(problems=("services.main: memory = 'lots'",))),
        ("cpus: many", Main(problems=("services.main: cpus = 'many'",))),
        ("environment: 7", Main(problems=("services.main.environment",))),
        ("deploy: {replicas: 2}", Main(problems=("services.main.deploy without resources.limits",))),
        ("network_mode: host", Main(problems=("services.main.network_mode",))),
        ("privileged: true", Main(problems=("services.main.privileged",))),
        ("cap_add: [SYS_ADMIN]", Main(problems=("services.main.cap_add",))),
    ],
)  # fmt: skip
def test_one_line_of_main(main, found):
    assert read(f"services:\n  main:\n    {main}\n", VARIABLES) == found


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("services: {main: {}, db: {image: x}}", "the service 'db' (only `main` is run)"),
        ("services: {main: {}}\nvolumes: {data: {}}", "volumes of its own"),
        ("services: {main: {}}\nsecrets: {a: {}}", "secrets"),
        ("services: [main]", "it has no table services"),
        ("[]", "it has no table services"),
        ("services: {main: 3}", "services.main is no table"),
        ("services: {main: !!python/object:os.system {}}", "it is not YAML"),
        ("a: [", "it is not YAML"),
        ("[" * 50_000, "it is not YAML"),
    ],
)
def test_what_is_more_than_one_container_is_named(text, problem):
    (found,) = read(text, VARIABLES).problems
    assert found.startswith(problem)


def test_a_task_with_a_compose_file(tmp_path):
    compose = {"environment/docker-compose.yaml": USUAL}
    task = load_folder(write(tmp_path / "built", MINIMAL, compose))
    assert task.invalid is None
    spec = task.environment
    assert (spec.image, spec.context) == (None, str(tmp_path / "built/environment"))
    assert (spec.workdir, spec.env["A"]) == ("/srv/work", "1")
    image = {"environment/compose.yaml": "services: {main: {image: 'debian:12'}}"}
    task = load_folder(write(tmp_path / "named", MINIMAL, {"environment/Dockerfile": None}, image))
    assert (task.environment.image, task.environment.context) == ("debian:12", None)
    none = {"environment/compose.yaml": "services: {main: {}}"}
    task = load_folder(write(tmp_path / "none", MINIMAL, {"environment/Dockerfile": None}, none))
    assert "services.main names no image, and there is no environment/Dockerfile" in task.invalid
