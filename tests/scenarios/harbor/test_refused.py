"""What of the format is not honoured is refused before anything opens or any model is asked."""

import pytest
from tests.scenarios.harbor.test_runs import records, run
from tests.scenarios.runtime.plugins import Agent, recording, register
from tests.unit.benchmarks.harbor.folders import MINIMAL, write
from tests.unit.benchmarks.harbor.test_task_folder import UNSUPPORTED

from proctor.kernel.errors import UsageError

TOML = 'schema_version = "1.4"\n'


class Asked(Agent):
    started = 0

    async def start(self, session, task, context):
        type(self).started += 1
        return await super().start(session, task, context)


def request(tmp_path, environment):
    Asked.started = 0
    return {
        "harness": register(Asked),
        "environment": register(environment),
        "execution": {"max_retries": 3, "retry_backoff_s": 0},
    }


@pytest.mark.parametrize(("text", "files", "reason"), UNSUPPORTED, ids=[r for *_, r in UNSUPPORTED])
def test_a_request_that_asks_for_it_is_refused(tmp_path, text, files, reason):
    write(tmp_path / "set/t", MINIMAL, {"task.toml": TOML + text + "\n"}, files)
    environment = recording()
    with pytest.raises(UsageError) as caught:
        run(tmp_path / "set", tmp_path / "results", **request(tmp_path, environment))
    assert f"not supported yet: {reason}" in str(caught.value)
    assert (environment.journal, Asked.started) == ([], 0)


def test_beside_tasks_that_can_run_it_is_an_error_that_voids_nothing(tmp_path):
    for number, (text, files, _) in enumerate(UNSUPPORTED):
        write(tmp_path / f"set/t{number}", MINIMAL, {"task.toml": TOML + text + "\n"}, files)
    grading = {"tests/test.sh": '#!/bin/sh\necho 1 > "$LOGS_DIR/verifier/reward.txt"\n'}
    write(tmp_path / "set/good", MINIMAL, grading)
    environment = recording()
    report = run(tmp_path / "set", tmp_path / "results", **request(tmp_path, environment))
    assert [step for step in environment.journal if step.startswith("open")] == ["open s1"]
    assert Asked.started == 1
    found = records(report.run_dir)
    for number, (_, _, reason) in enumerate(UNSUPPORTED):
        (issue,) = found[f"t{number}"]["issues"]
        assert (issue["severity"], issue["phase"], issue["code"]) == (
            "error", "prepare", "invalid_task",
        )  # fmt: skip
        assert issue["message"] == f"not supported yet: {reason}"
    series = report.metrics.primary_series
    assert (series.evaluated, series.unavailable, series.invalidated) == (1, len(UNSUPPORTED), 0)
    assert series.value == 1.0
