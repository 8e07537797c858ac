"""The commands of one evaluation, each as a process: run, resume, show, list, validate, version."""

import subprocess
from pathlib import Path

import pytest
from tests.acceptance.command import answering, command, environment, proctor, runs_in, table

import proctor as package

COMMANDS = ("demo", "run", "resume", "show", "list", "validate", "version")
COUNTS = ["tasks", "normal", "error", "fatal", "interrupted", "attempts", "reused_attempts"]
SERIES = [
    "value", "reference_value", "evaluated", "unavailable", "invalidated", "total", "error",
    "partial", "ci95",
]  # fmt: skip


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help_with_an_example(name, tmp_path):
    done = proctor(name, "--help", cwd=tmp_path)
    assert done.code == 0
    assert f"proctor {name}" in done.out.split("Example:")[1]


def test_the_command_alone_says_what_there_is_and_where_to_start(tmp_path):
    done = proctor("--help", cwd=tmp_path)
    assert done.code == 0
    assert "Start with: proctor demo" in done.out
    assert [n for n in COMMANDS if f"\n  {n} " not in done.out] == []
    assert proctor(cwd=tmp_path).code == 2


def test_version(tmp_path):
    document = proctor("version", "--json", cwd=tmp_path).document
    assert document["proctor"] == package.__version__
    assert package.__version__ in proctor("version", cwd=tmp_path).out
    assert proctor("--version", cwd=tmp_path).out == proctor("version", cwd=tmp_path).out


@pytest.mark.slow
def test_the_demo_scores_1_and_0_and_says_what_next(tmp_path):
    done = proctor("demo", cwd=tmp_path, PROCTOR_RESULTS="elsewhere")
    assert done.code == 0, done.err
    assert "passed avg@1           1.0000" in done.out
    assert "passed avg@1           0.0000" in done.out
    shown = next(line for line in done.out.splitlines() if "look at a run" in line)
    folder = shown.split("proctor show ")[1]
    assert Path(tmp_path, folder) in runs_in(tmp_path / "elsewhere")
    assert proctor("show", folder, cwd=tmp_path).code == 0


@pytest.mark.slow
def test_the_demo_as_a_document_has_both_runs(tmp_path):
    done = proctor("demo", "--json", cwd=tmp_path)
    document = done.document
    assert done.code == 0
    assert document["status"] == "completed"
    assert [run["primary"]["value"] for run in document["runs"]] == [1.0, 0.0]


def test_the_document_of_a_run_is_the_specified_one(rows, tmp_path):
    right_once = 'read n; [ "$PROCTOR_ATTEMPT" = 1 ] && echo $n || echo no'
    done = proctor(*table(rows, *answering(right_once), "-k", "3", "--json"), cwd=tmp_path)
    document = done.document
    assert done.code == 0
    assert list(document) == ["status", "runs"]
    assert document["status"] == "completed"
    (run,) = document["runs"]
    assert [*run] == [
        "name", "run_dir", "status", "counts", "primary", "metrics", "usage"
    ]  # fmt: skip
    assert list(run["counts"]) == COUNTS
    assert list(run["counts"].values()) == [3, 3, 0, 0, 0, 9, 0]
    assert run["primary"] == {
        "metric": "correct", "reducer": "avg@3", "value": pytest.approx(1 / 3)
    }  # fmt: skip
    reducers = run["metrics"]["correct"]
    assert list(reducers) == [
        "avg@3", "pass@1", "pass@2", "pass@3", "pass^2", "pass^3", "solved@3"
    ]  # fmt: skip
    assert [s["value"] for s in reducers.values()] == pytest.approx(
        [1 / 3, 1 / 3, 2 / 3, 1.0, 0.0, 0.0, 1.0]
    )
    for series in reducers.values():
        assert list(series) == SERIES
        assert (series["evaluated"], series["total"], series["partial"]) == (3, 3, False)
        low, high = series["ci95"]
        assert 0 <= low <= series["value"] <= high <= 1
    assert run["usage"]["requests"] == 0
    assert Path(run["run_dir"]) in runs_in(tmp_path / "results")
    assert done.err.startswith("table · command · none: 3 tasks × 3 attempts, results/")


def test_metrics_come_primary_first_then_by_id(tmp_path):
    (tmp_path / "many.py").write_text(
        "from proctor import Benchmark, Evaluation, MetricContract, MetricSpec, TaskSpec\n"
        "class Many(Benchmark):\n"
        "    id = 'many'\n"
        "    data_required = False\n"
        "    evaluation_modes = ('none',)\n"
        "    def load_tasks(self):\n"
        "        return [TaskSpec('t', 'input')]\n"
        "    def metrics(self):\n"
        "        names = ('zeta', 'alpha', 'middle', 'beta')\n"
        "        return MetricContract(tuple(MetricSpec(n) for n in names), 'middle')\n"
        "    async def evaluate(self, prepared, result, session):\n"
        "        return Evaluation(metrics={'zeta': 1, 'alpha': 0, 'middle': 1, 'beta': 0})\n"
    )
    words = ["run", "--benchmark", "many.py:Many", "--harness", "nop", "-k", "2", "--json"]
    (run,) = proctor(*words, cwd=tmp_path).document["runs"]
    assert list(run["metrics"]) == ["middle", "alpha", "beta", "zeta"]
    assert all(next(iter(reducers)) == "avg@2" for reducers in run["metrics"].values())
    assert run["primary"] == {"metric": "middle", "reducer": "avg@2", "value": 1.0}


def test_people_read_scores_the_place_and_what_next(rows, tmp_path):
    done = proctor(*table(rows, "--run-id", "one", *answering("cat; exit 7")), cwd=tmp_path)
    assert done.code == 0
    assert done.out.splitlines() == [
        "table · command · none: completed",
        next(line for line in done.out.splitlines() if line.startswith("  3 tasks: 3 normal")),
        "  correct avg@1          1.0000  95 % [0.4385, 1.0000]  on 3/3 tasks",
        next(line for line in done.out.splitlines() if "issue agent_exit × 3: t" in line),
        "  run directory: results/table/command/none/one",
        "",
        "  look at it:  proctor show results/table/command/none/one",
    ]
    assert "the agent exited with code 7" in done.out


def test_a_suggested_command_can_be_typed_as_it_stands(rows, tmp_path):
    done = proctor(*table(rows, *answering("cat"), "--results", "my runs' place"), cwd=tmp_path)
    suggestion = done.out.split("look at it:  ")[1].strip()
    shown = subprocess.run(
        ["bash", "-c", suggestion.replace("proctor ", '"$0" -m proctor ', 1), command()[0]],
        cwd=tmp_path, env=environment(), capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert shown.returncode == 0, shown.stderr
    assert "correct avg@1          1.0000" in shown.stdout


def test_score_0_is_exit_0(rows, tmp_path):
    done = proctor(*table(rows, "--harness", "nop", "--json"), cwd=tmp_path)
    assert done.code == 0
    assert done.document["runs"][0]["primary"]["value"] == 0.0


def test_an_unevaluated_task_is_exit_1_and_named(rows, tmp_path):
    agent = '[ "$PROCTOR_TASK_ID" = t2 ] || cat > answer'
    words = table(rows, *answering(agent), "-p", "harness.answer_file=answer")
    done = proctor(*words, "--json", cwd=tmp_path)
    assert done.code == 1
    document = done.document
    (run,) = document["runs"]
    assert (document["status"], run["status"]) == ("completed", "completed")
    series = run["metrics"]["correct"]["avg@1"]
    assert (series["evaluated"], series["unavailable"], series["partial"]) == (2, 1, True)
    assert "without a valid correct: 1 of 3 tasks (exit code 1)" in done.err
    assert f"go on:       proctor resume {Path(run['run_dir']).relative_to(tmp_path)}" in done.err


def test_fatal_tasks_leave_no_official_value_and_are_listed(rows, tmp_path):
    (tmp_path / "crash.py").write_text(
        "async def agent(task, session, model):\n"
        "    if task.id == 't3':\n"
        "        raise RuntimeError('my agent is broken')\n"
        "    return task.input\n"
    )
    words = table(rows, "--harness", "python", "-p", "harness.callable=crash.py:agent")
    done = proctor(*words, "--json", cwd=tmp_path)
    (run,) = done.document["runs"]
    assert done.code == 1
    assert run["primary"]["value"] is None
    series = run["metrics"]["correct"]["avg@1"]
    assert (series["value"], series["reference_value"], series["invalidated"]) == (None, 1.0, 1)
    assert run["counts"]["fatal"] == 1
    line = next(line for line in done.err.splitlines() if line.startswith("  fatal t3 #1: "))
    assert "my agent is broken" in line
