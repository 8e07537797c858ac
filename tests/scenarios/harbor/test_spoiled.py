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
