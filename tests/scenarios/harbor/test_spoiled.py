"""Agents that are root where they work and break it: no score, and no fatal issue either."""

import pytest
from tests.scenarios.harbor.places import place
from tests.scenarios.harbor.test_runs import records, run
from tests.unit.benchmarks.harbor.folders import write

TASK = {
    "task.toml": 'schema_version = "1.4"\n[metadata]\nportable = true\n',
    "instruction.md": "Do.\n",
    "environment/given.txt": "given\n",
    "tests/test.sh": '#!/bin/sh\necho 0 > "$LOGS_DIR/verifier/reward.txt"\n',
}


@pytest.mark.parametrize(
    "agent", ["rm -f $(command -v rm); cp /bin/true /bin/rm", "cp -f /bin/true /bin/sh; rm /bin/sh"]
)
def test_a_place_whose_programs_are_broken_is_no_score_and_voids_nothing(agent, need, tmp_path):
    write(tmp_path / "set/t", TASK)
    report = run(
        tmp_path / "set", tmp_path / "results", {"id": "command", "command": agent},
        environment=place("docker", need),
    )  # fmt: skip
    record = records(report.run_dir)["t"]
    assert record["metrics"] == {}
    (issue,) = record["issues"]
    found = issue["severity"], issue["cause"], issue["code"]
    assert found == ("error", "agent", "environment_spoiled"), issue


END_IT = r"""python3 - <<'END'
import os, re
with open("/proc/1/maps") as maps, open("/proc/1/mem", "r+b", 0) as memory:
    for line in maps:
        place = re.match(r"([0-9a-f]+)-([0-9a-f]+) r-x.*/", line)
        if place:
            start, end = (int(word, 16) for word in place.groups())
            memory.seek(start)
            memory.write(bytes(end - start))
for pid in os.listdir("/proc"):
    if pid.isdigit() and pid not in ("1", str(os.getpid())):
        if open(f"/proc/{pid}/comm").read() == "sleep\n":
            os.kill(int(pid), 9)
END
sleep 60"""
"""Write over the program of the first process, and wake it."""


@pytest.mark.parametrize("engine", ["docker", "podman"])
def test_an_agent_that_ends_its_container_voids_nothing_and_is_not_tried_again(
    engine, need, tmp_path
):
    write(tmp_path / "set/ends", TASK)
    write(tmp_path / "set/works", TASK)
    agent = f'if [ "$PROCTOR_TASK_ID" = works ]; then exit 0; fi\n{END_IT}'
    report = run(
        tmp_path / "set", tmp_path / "results", {"id": "command", "command": agent},
        environment=place(engine, need), execution={"max_retries": 2, "retry_backoff_s": 0},
    )  # fmt: skip
    record = records(report.run_dir)["ends"]
    assert (record["status"], record["metrics"]) == ("run_error", {})
    issue = record["issues"][0]
    found = issue["severity"], issue["phase"], issue["cause"], issue["code"]
    assert found == ("error", "run", "agent", "environment_spoiled"), issue
    assert "environment_gone" in issue["message"]
    assert record["retry_count"] == 0
    series = report.metrics.primary_series
    assert (series.evaluated, series.unavailable, series.invalidated) == (1, 1, 0)
