"""What no environment can honour is told when the task is read, and harms no other task."""

# ruff: noqa: E501 - one case a line

import pytest
from tests.unit.benchmarks.harbor.folders import MINIMAL, write

from proctor.benchmarks.harbor.compose import read
from proctor.benchmarks.harbor.dataset import load_dataset
from proctor.environments.docker import DockerEnvironment, DockerOptions
from proctor.environments.spec import EnvironmentSpec

HEAD = 'schema_version = "1.4"\n'
LONG = "a" * 300
NUL = "\\u0000"
COMPOSED = "environment/docker-compose.yaml"


def composed(text):
    return {COMPOSED: "services:\n  main:\n    build: .\n    " + text + "\n"}


ODD = {
    "image_blank": ('[environment]\ndocker_image = "a b"', {}, "'a b' is not the name of an image"),
    "image_up": ('[environment]\ndocker_image = "a/../../containers/x"', {}, "the name of an image"),
    "image_query": ('[environment]\ndocker_image = "a?fromSrc=x"', {}, "the name of an image"),
    "image_lines": ('[environment]\ndocker_image = "a\\r\\nX: y"', {}, "the name of an image"),
    "image_letter": ('[environment]\ndocker_image = "dé"', {}, "the name of an image"),
    "image_compose": ("", {COMPOSED: "services: {main: {image: 'a b'}}", "environment/Dockerfile": None},
                      "'a b' is not the name of an image"),
    "collect": (f'[[verifier.collect]]\ncommand = "x{NUL}"', {}, "verifier.collect.0.command: not a command"),
    "collect_empty": ('[[verifier.collect]]\ncommand = " "', {}, "not a command"),
    "health": (f'[environment.healthcheck]\ncommand = "x{NUL}"', {}, "healthcheck.command: not a command"),
    "artifact": (f'artifacts = ["/{LONG}"]', {}, "artifacts.0: not a path"),
    "artifact_deep": (f'artifacts = ["/{"a/" * 2_000}"]', {}, "artifacts.0: not a path"),
    "destination": (f'artifacts = [{{ source = "/a", destination = "{LONG}" }}]', {}, "not a path"),
    "workdir": (f'[environment]\nworkdir = "/{LONG}"', {}, "not a path that a file can have"),
    "workdir_recipe": ("", {"environment/Dockerfile": f"FROM x\nWORKDIR /{LONG}\n"}, "not a path"),
    "copy": ("", {"environment/Dockerfile": f"FROM x\nCOPY f /{LONG}\n", "environment/f": ""}, "not a path"),
    "memory": ("[environment]\nmemory_mb = 9007199254740993", {}, "memory_mb = 9007199254740993 is not"),
    "memory_text": ('[environment]\nmemory = "999999999999G"', {}, "memory_mb = "),
    "storage": ("[environment]\nstorage_mb = 9007199254740993", {}, "storage_mb = "),
    "cpus": ("[environment]\ncpus = 1e300", {}, "cpus = 1e+300 is not above 0 and at most 100,000"),
    "gpus": ("[environment]\ngpus = 999999999", {}, "gpus = "),
    "long_variable": (f'[verifier.env]\nA = "{"a" * 100_001}"', {}, "verifier.env.A is too long"),
    "long_variables": ("[environment.env]\n" + "\n".join(f'A{n} = "{"a" * 90_000}"' for n in range(6)), {},
                       "together longer than 500,000 bytes"),
    "compose_volumes": ("", composed("volumes: 5"), "services.main.volumes"),
    "compose_build": ("", {COMPOSED: "services: {main: {build: {1: 2, x: 3}}}"}, "services.main.build.1"),
    "compose_nan": ("", composed("cpus: .nan"), "services.main: cpus = 'nan'"),
    "compose_inf": ("", composed("cpus: .inf"), "services.main: cpus = 'inf'"),
    "compose_digits": ("", composed("cpus: 1e999"), "services.main: cpus = '1e999'"),
    "compose_minus": ("", composed("cpus: -1"), "services.main: cpus = '-1'"),
    "compose_memory": ("", composed(f"mem_limit: {'9' * 400}g"), "services.main: memory = "),
    "compose_memory_most": ("", composed("mem_limit: 999999999999999g"), "memory_mb = "),
    "compose_workdir": ("", composed("working_dir: rel/../.."), "services.main.working_dir = 'rel/../..'"),
    "compose_variable": ("", composed('environment: {"": x}'), "'' is not a variable that can be set"),
    "compose_nul": ("", composed('environment: {A: "b\\0"}'), "'A' is not a variable that can be set"),
    "compose_list": ("", composed("environment: [5, null]"), "services.main.environment"),
    "compose_table": ("", composed("image: {a: b}\n    working_dir: [a]"), "a list where a value belongs"),
    "compose_number": ("", composed("cpus: " + "9" * 5_000), "it cannot be read"),
    "compose_date": ("", composed("working_dir: 2020-13-45"), "it cannot be read"),
    "compose_itself": ("", {COMPOSED: "services: &s {main: {build: ., x: *s}}"}, "holds itself"),
    "compose_long": ("", {COMPOSED: "#" * 200_001}, "longer than 200,000 characters"),
}  # fmt: skip


@pytest.mark.parametrize(("text", "files", "reason"), ODD.values(), ids=ODD)
def test_it_is_the_tasks_own_fault_and_the_others_load(tmp_path, text, files, reason):
    write(tmp_path / "good", MINIMAL)
    write(tmp_path / "odd", MINIMAL, {"task.toml": f"{HEAD}{text}\n"}, files)
    good, odd = load_dataset(tmp_path)
    assert good.invalid is None
    assert odd.invalid is not None
    assert reason in odd.invalid


@pytest.mark.parametrize("kind", ["values", "merges"])
def test_anchors_cannot_make_a_file_larger_than_it_is(kind):
    """Ten values that are each ten values, and so on, would be more than any memory holds."""
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    if kind == "merges":
        lines = ["a0: &a0 {x: 1, y: 2}"]
    for level in range(1, 12):
        held = ", ".join([f"*a{level - 1}"] * 10)
        value = f"[{held}]" if kind == "values" else f"{{<<: [{held}], z{level}: 1}}"
        lines.append(f"a{level}: &a{level} {value}")
    text = "\n".join([*lines, "services: {main: {build: ., working_dir: *a11}}"])
    (problem,) = read(text, {}).problems
    assert "its anchors stand for more than 100,000 values" in problem


def test_anchors_as_people_use_them_are_read():
    text = "x-usual: &usual {environment: {A: '1'}}\nservices: {main: {<<: *usual, image: its:1}}"
    assert (read(text, {}).env, read(text, {}).problems) == ({"A": "1"}, ())


@pytest.mark.parametrize("name", ["a b", "../x", "a//b", "a?b", "", "é", "a/./b", "-a"])
def test_an_engine_is_not_asked_for_what_is_no_name(name):
    problems = DockerEnvironment(DockerOptions(host="unix:///none")).problems(
        EnvironmentSpec(image=name)
    )
    assert f"{name!r} is not the name of an image" in problems


@pytest.mark.parametrize(
    "name",
    ["debian", "debian:12.1-slim", "localhost/a_b:x", "ghcr.io/a/b/c@sha256:" + "0" * 64,
     "host.example:5000/Team/x", "sha256:" + "f" * 64],
)  # fmt: skip
def test_names_of_images_are_taken(name):
    problems = DockerEnvironment(DockerOptions(host="unix:///none")).problems(
        EnvironmentSpec(image=name)
    )
    assert not any("name of an image" in problem for problem in problems)
