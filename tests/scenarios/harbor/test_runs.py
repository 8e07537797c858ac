"""Whole runs of Harbor data sets through the Python API."""

import json
from pathlib import Path

import pytest
from tests.unit.benchmarks.harbor.folders import MINIMAL, PORTABLE, write

import proctor
from proctor.benchmarks import samples

GRADED = {
    "tests/test.sh": """#!/bin/sh
echo graded
[ -f "$WORKSPACE/answer" ] && reward=1 || reward=0
echo $reward > "$LOGS_DIR/verifier/reward.txt"
""",
    "solution/solve.sh": "#!/bin/sh\ntouch answer\n",
}


def run(data, results, harness="oracle", **more):
    return proctor.run(
        {
            "benchmark": {"id": "harbor", "data": str(data)},
            "harness": harness,
            "runtime": {"results_dir": str(results)},
            **more,
        }
    )


def records(run_dir):
    found = {}
    for path in Path(run_dir).glob("details/*/*/attempt-1/result.json"):
        record = json.loads(path.read_text())
        found[record["task_id"]] = record
    return found


@pytest.mark.slow
@pytest.mark.parametrize(("harness", "value"), [("oracle", 1.0), ("nop", 0.0)])
def test_the_samples(tmp_path, harness, value):
    report = run(samples.path(), tmp_path, harness)
    assert report.exit_code == 0
    assert (report.counts.tasks, report.counts.normal) == (12, 12)
    assert report.metrics.primary.metric == "passed"
    assert report.metrics.primary.value == value


def test_an_unusable_task_is_unavailable_and_the_others_count(tmp_path):
    write(tmp_path / "set/good", PORTABLE, GRADED)
    write(tmp_path / "set/bad", PORTABLE, GRADED, {"task.toml": "a ="})
    report = run(tmp_path / "set", tmp_path / "results")
    series = report.metrics.to_json()["passed"]["avg@1"]
    assert (series["value"], series["evaluated"], series["unavailable"]) == (1.0, 1, 1)
    assert series["partial"] is True
    assert report.exit_code == 1
    (issue,) = records(report.run_dir)["bad"]["issues"]
    assert issue["code"] == "invalid_task"
    assert issue["cause"] == "benchmark"
    assert issue["message"].startswith("task.toml is not valid TOML")


def test_the_record_says_how_it_was_graded(tmp_path):
    write(tmp_path / "set/good", PORTABLE, GRADED)
    report = run(tmp_path / "set", tmp_path / "results", "nop")
    record = records(report.run_dir)["good"]
    assert record["metrics"] == {"passed": False, "reward": 0.0}
    assert record["meta"]["benchmark"]["rewards"] == {"reward": 0.0}
    assert [a["path"] for a in record["artifacts"]] == ["verifier/test-stdout.txt"]


def test_no_verdict_is_unavailable(tmp_path):
    write(tmp_path / "set/mute", PORTABLE, GRADED, {"tests/test.sh": "#!/bin/sh\n"})
    report = run(tmp_path / "set", tmp_path / "results")
    series = report.metrics.to_json()["passed"]["avg@1"]
    assert (series["value"], series["unavailable"], series["error"]) == (None, 1, 1)
    (issue,) = records(report.run_dir)["mute"]["issues"]
    assert (issue["code"], issue["cause"]) == ("reward_missing", "evaluator")


def test_local_refuses_a_data_set_of_absolute_tasks_before_anything_runs(tmp_path):
    write(tmp_path / "set/absolute", MINIMAL, GRADED)
    with pytest.raises(proctor.UsageError, match="needs bubblewrap or docker"):
        run(tmp_path / "set", tmp_path / "results")


@pytest.mark.parametrize(
    ("mode", "message"),
    [("none", "does not allow evaluation mode 'none'"), ("fresh", "is 'reuse', not 'fresh'")],
)
def test_a_mode_that_a_task_is_not_graded_in_is_refused(tmp_path, mode, message):
    write(tmp_path / "set/good", PORTABLE, GRADED)
    with pytest.raises(proctor.UsageError, match=message):
        run(tmp_path / "set", tmp_path / "results", execution={"evaluation_mode": mode})


def test_duplicate_names_refuse_the_request(tmp_path):
    same = {"task.toml": PORTABLE["task.toml"] + '[task]\nname = "o/x"\n'}
    write(tmp_path / "set/a", PORTABLE, GRADED, same)
    write(tmp_path / "set/b", PORTABLE, GRADED, same)
    with pytest.raises(proctor.DataError, match="'o/x' is the name of 2 tasks: a, b"):
        run(tmp_path / "set", tmp_path / "results")
