"""A separate verifier: its own environment, the artifacts that are handed over, nothing else."""

import pytest
from tests.scenarios.harbor.places import EVERYWHERE, place
from tests.scenarios.harbor.test_runs import records, run
from tests.unit.benchmarks.harbor.folders import write

HEAD = (
    'schema_version = "1.4"\n'
    'artifacts = ["/app/out.txt", { source = "/app/tree", destination = "kept" }]\n'
)
PORTABLE = '[metadata]\nportable = true\n[verifier]\nenvironment_mode = "separate"\n'
# Neither what the agent left beside its artifacts, nor a verdict of its own, is there.
TEST = """#!/bin/sh
logs="${LOGS_DIR:-/logs}"
set -- "$(cat out.txt)" "$(cat "$logs/artifacts/app/out.txt")" "$(cat "$logs/artifacts/kept/a/b")"
echo "$* $(cat tree/a/b) $(cat given.txt)"
ls "$logs/verifier" "$logs/artifacts"
[ "$*" = "answer answer deep" ] && [ "$(cat tree/a/b)" = deep ] && [ ! -e left.txt ] &&
  [ "$(cat given.txt)" = given ] && reward=1
echo "${reward:-0}" > "$logs/verifier/reward.txt"
"""
AGENT = (
    "echo answer > out.txt; mkdir -p tree/a; echo deep > tree/a/b; echo x > left.txt;"
    "echo bad > given.txt;"
    'echo 1 > "$LOGS_DIR/verifier/reward.txt" || mkdir -p "$LOGS_DIR/verifier"'
)
TASK = {
    "instruction.md": "Write the answer.\n",
    "environment/given.txt": "given\n",
    "tests/test.sh": TEST,
    "task.toml": HEAD + PORTABLE,
}


def graded(tmp_path, environment, *parts, command=AGENT, **more):
    write(tmp_path / "set/t", TASK, *parts)
    report = run(
        tmp_path / "set", tmp_path / "results", {"id": "command", "command": command},
        environment=environment, **more,
    )  # fmt: skip
    return records(report.run_dir)["t"]


@pytest.mark.parametrize("name", EVERYWHERE)
def test_the_tests_see_the_artifacts_in_a_place_of_their_own(name, need, tmp_path):
    record = graded(tmp_path, place(name, need))
    assert record["metrics"] == {"passed": True, "reward": 1.0}, record
    assert {a["path"] for a in record["artifacts"]} >= {
        "collected/app/out.txt",
        "collected/kept/a/b",
    }


def test_without_artifacts_there_is_nothing_to_see(tmp_path):
    record = graded(tmp_path, {"id": "local"}, command='echo 1 > "$LOGS_DIR/verifier/reward.txt"')
    assert record["metrics"] == {"passed": False, "reward": 0.0}
    assert {i["code"] for i in record["issues"]} == {"artifact_missing"}


ABSOLUTE = TASK["task.toml"].replace(PORTABLE, "")
DOCKERFILE = {"environment/Dockerfile": "FROM scratch\nWORKDIR /app\nCOPY given.txt .\n"}


@pytest.mark.parametrize("name", EVERYWHERE[1:])
def test_an_image_of_its_own_holds_the_tests(name, need, tmp_path):
    recipe = "FROM scratch\nWORKDIR /app\nCOPY given.txt .\nCOPY test.sh /tests/\n"
    parts = {
        "task.toml": ABSOLUTE + '[verifier]\nenvironment_mode = "separate"\n',
        "tests/Dockerfile": recipe,
        "tests/given.txt": "given\n",
    }
    record = graded(tmp_path, place(name, need), DOCKERFILE, parts)
    assert record["metrics"] == {"passed": True, "reward": 1.0}, record


@pytest.mark.parametrize("name", EVERYWHERE[1:])
def test_its_network_and_its_resources_are_its_own(name, need, tmp_path):
    toml = (
        ABSOLUTE + '[environment]\nnetwork_mode = "no-network"\n'
        '[verifier.environment]\nnetwork_mode = "public"\nmemory_mb = 300\n'
        '[verifier]\nnetwork_mode = "no-network"\n'
    )
    script = TEST + "\nls /sys/class/net 2>/dev/null; cat /proc/net/dev | tail -n +3 | wc -l\n"
    record = graded(
        tmp_path, place(name, need), DOCKERFILE, {"task.toml": toml, "tests/test.sh": script}
    )
    assert record["metrics"] == {"passed": True, "reward": 1.0}, record


def test_what_grades_is_checked_before_anything_runs(tmp_path):
    import proctor

    toml = ABSOLUTE + "[verifier.environment]\ngpus = 2\n"
    with pytest.raises(proctor.UsageError, match="to grade it: cannot give 2 GPU"):
        graded(tmp_path, {"id": "bubblewrap"}, DOCKERFILE, {"task.toml": toml})


@pytest.mark.every_engine
@pytest.mark.parametrize("engine", ["docker", "podman"])
def test_both_images_are_built_from_their_own_recipes(engine, need, tmp_path):
    own = place(engine, need)
    base = f"FROM {own.pop('image')}\nWORKDIR /app\n"
    parts = {
        "task.toml": ABSOLUTE + '[verifier]\nenvironment_mode = "separate"\n',
        "environment/Dockerfile": f"{base}COPY given.txt .\nENV WHERE=agent\n",
        "tests/Dockerfile": f"{base}COPY given.txt .\nCOPY test.sh /tests/\nENV WHERE=verifier\n",
        "tests/given.txt": "given\n",
        "tests/test.sh": f'{TEST}[ "$WHERE" = verifier ] || rm -f /logs/verifier/reward.txt\n',
    }
    command = f'{AGENT}; [ "$WHERE" = agent ] && [ ! -e /tests ] || rm out.txt'
    record = graded(tmp_path, own, parts, command=command)
    assert record["metrics"] == {"passed": True, "reward": 1.0}, record
    assert record["issues"] == []


@pytest.mark.parametrize("name", EVERYWHERE)
@pytest.mark.parametrize(
    "agent",
    [
        "rm -rf out.txt; mkdir out.txt; echo x > out.txt/x",
        "rm -rf tree; echo x > tree",
        "rm -rf tree; mkdir -p tree/file; echo x > tree/file/x; echo x > tree/folder",
    ],
)
def test_a_folder_in_place_of_a_file_is_a_wrong_answer(name, agent, need, tmp_path):
    parts = {
        "environment/out.txt": "empty\n",
        "environment/tree/file": "f\n",
        "environment/tree/folder/f": "f\n",
    }
    record = graded(tmp_path, place(name, need), parts, command=agent)
    assert record["metrics"] == {"passed": False, "reward": 0.0}, record
    assert {i["code"] for i in record["issues"]} <= {"artifact_missing"}
