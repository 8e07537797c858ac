"""Tasks of several steps: one environment, one instruction and one verdict after the other."""

from pathlib import Path

import pytest
from tests.scenarios.harbor.places import EVERYWHERE, place
from tests.scenarios.harbor.test_runs import records, run
from tests.unit.benchmarks.harbor.folders import write

TOML = 'schema_version = "1.4"\n[metadata]\nportable = true\n'
# What the agent of a step sees, and does, is written down; the verdict is what the step left.
AGENT = (
    'cat; find "$TESTS_DIR" "$LOGS_DIR/verifier" -type f 2>/dev/null | wc -l;'
    " cat begun.txt 2>/dev/null; echo done >> done.txt"
)
SHARED = {
    "environment/given.txt": "given\n",
    "tests/common.sh": 'reward() { echo "$1" > "$LOGS_DIR/verifier/reward.txt"; }\n',
    "tests/test.sh": '#!/bin/sh\n. "$TESTS_DIR/common.sh"\nreward 0\n',
}


def step(name, count, **more):
    """A step whose tests want `count` lines in done.txt."""
    below = f"steps/{name}"
    return {
        f"{below}/instruction.md": f"Step {name}.\n",
        f"{below}/tests/test.sh": (
            '#!/bin/sh\n. "$TESTS_DIR/common.sh"\n'
            f'[ "$(wc -l < done.txt)" = {count} ] && reward 1 || reward 0\n'
        ),
        f"{below}/solution/solve.sh": "#!/bin/sh\necho done >> done.txt\n",
        **{f"{below}/{path}": text for path, text in more.items()},
    }


def steps(*tables, head=""):
    lines = [f'[[steps]]\nname = "{name}"\n{text}' for name, text in tables]
    return {"task.toml": f"{head}{TOML}" + "\n".join(lines)}


@pytest.mark.parametrize("name", EVERYWHERE)
def test_step_after_step_in_one_environment(name, need, tmp_path):
    toml = steps(("one", ""), ("two", 'artifacts = ["done.txt"]\n'), ("three", "min_reward = 1\n"))
    setup = {"workdir/setup.sh": "#!/bin/sh\necho setup >> begun.txt\n", "workdir/two.txt": "2\n"}
    write(tmp_path / "set/t", SHARED, toml, step("one", 1), step("two", 2), step("three", 3))
    write(tmp_path / "set/t", {f"steps/two/{path}": text for path, text in setup.items()})
    report = run(
        tmp_path / "set",
        tmp_path / "results",
        {"id": "command", "command": AGENT},
        environment=place(name, need),
    )
    record = records(report.run_dir)["t"]
    assert record["metrics"] == {"passed": True, "reward": 1.0}, record
    assert record["status"] == "completed"
    # The last agent saw its own instruction, no tests and no verdict, and what setup.sh did.
    assert record["final_answer"].split("\n") == ["Step three.", "0", "setup"]
    found = record["meta"]["benchmark"]
    assert [s["step"] for s in found["steps"]] == ["one", "two", "three"]
    assert found["dropped_steps"] == []
    kept = {a["path"] for a in record["artifacts"]}
    assert "collected/steps/two/done.txt" in kept


@pytest.mark.parametrize("harness", ["oracle", "nop"])
def test_the_reference_solves_every_step(harness, tmp_path):
    write(
        tmp_path / "set/t", SHARED, steps(("one", ""), ("two", "")), step("one", 1), step("two", 2)
    )
    report = run(tmp_path / "set", tmp_path / "results", harness)
    record = records(report.run_dir)["t"]
    solved = harness == "oracle"
    assert record["metrics"] == {"passed": solved, "reward": float(solved)}, record


def test_what_the_agents_of_the_steps_keep_is_kept_apart(tmp_path):
    write(
        tmp_path / "set/t", SHARED, steps(("one", ""), ("two", "")), step("one", 1), step("two", 2)
    )
    agent = tmp_path / "agent.py"
    agent.write_text(
        "from proctor import RunResult\n"
        "from proctor.evals.contracts import Harness, HarnessSession\n"
        "class Keeps(Harness):\n"
        "    id = 'keeps'\n"
        "    async def start(self, session, task, context):\n"
        "        self.asked, self.context, self.session = task.input, context, session\n"
        "        return Kept(self)\n"
        "class Kept(HarnessSession):\n"
        "    def __init__(self, mine):\n"
        "        self.mine = mine\n"
        "    async def run(self):\n"
        "        self.mine.context.artifact_path('asked.txt').write_text(self.mine.asked)\n"
        "        await self.mine.session.exec('echo done >> done.txt')\n"
        "        return RunResult(final_answer='')\n"
    )
    report = run(tmp_path / "set", tmp_path / "results", f"{agent}:Keeps")
    record = records(report.run_dir)["t"]
    assert record["metrics"]["passed"] is True
    for name in ("one", "two"):
        (kept,) = Path(report.run_dir).rglob(f"artifacts/steps/{name}/asked.txt")
        assert kept.read_text().strip() == f"Step {name}."


def test_below_the_least_reward_later_steps_are_dropped(tmp_path):
    toml = steps(("one", ""), ("two", "min_reward = 0.5\n"), ("three", ""))
    write(tmp_path / "set/t", SHARED, toml, step("one", 1), step("two", 7), step("three", 3))
    report = run(tmp_path / "set", tmp_path / "results")
    record = records(report.run_dir)["t"]
    assert record["metrics"] == {"passed": False, "reward": 0.5}
    assert record["meta"]["benchmark"]["dropped_steps"] == ["three"]


def test_the_last_step_alone_counts_where_the_task_says_so(tmp_path):
    toml = steps(("one", ""), ("two", ""), head='multi_step_reward_strategy = "final"\n')
    write(tmp_path / "set/t", SHARED, toml, step("one", 7), step("two", 2))
    report = run(tmp_path / "set", tmp_path / "results")
    assert records(report.run_dir)["t"]["metrics"] == {"passed": True, "reward": 1.0}


def test_a_step_without_a_verdict_is_never_0(tmp_path):
    mute = {"steps/one/tests/test.sh": "#!/bin/sh\n"}
    toml = steps(("one", ""), ("two", ""))
    write(tmp_path / "set/t", SHARED, toml, step("one", 1), step("two", 2), mute)
    report = run(tmp_path / "set", tmp_path / "results")
    record = records(report.run_dir)["t"]
    assert record["metrics"] == {}
    (issue,) = record["issues"]
    assert (issue["code"], issue["cause"]) == ("reward_missing", "evaluator")
    assert issue["message"].startswith("step one:")


def test_a_step_has_its_own_time_limit(tmp_path):
    toml = steps(
        ("one", "[steps.agent]\ntimeout_sec = 60.0\n"),
        ("two", "[steps.agent]\ntimeout_sec = 0.5\n"),
    )
    write(tmp_path / "set/t", SHARED, toml, step("one", 1), step("two", 2))
    command = 'echo done >> done.txt; [ "$(wc -l < done.txt)" = 1 ] || sleep 600'
    report = run(tmp_path / "set", tmp_path / "results", {"id": "command", "command": command})
    record = records(report.run_dir)["t"]
    assert record["metrics"]["reward"] == 1.0  # what a timed out agent left is graded
    (issue,) = [i for i in record["issues"] if i["code"] == "agent_timeout"]
    assert "0.5 s" in issue["message"]


@pytest.mark.parametrize(("name", "severity"), [("one", "fatal"), ("two", "error")])
def test_a_setup_that_fails_is_the_tasks_fault_and_no_score(name, severity, tmp_path):
    """In a later step an agent may have caused it, which must void no official value."""
    broken = {f"steps/{name}/workdir/setup.sh": "#!/bin/sh\necho no >&2\nexit 3\n"}
    toml = steps(("one", ""), ("two", ""))
    write(tmp_path / "set/t", SHARED, toml, step("one", 1), step("two", 2), broken)
    record = records(run(tmp_path / "set", tmp_path / "results").run_dir)["t"]
    assert record["metrics"] == {}
    (issue,) = record["issues"]
    assert (issue["cause"], issue["phase"]) == ("benchmark", "prepare")
    assert issue["severity"] == severity
    assert f"setup.sh of step '{name}' failed (exit code 3): no" in issue["message"]


def test_an_environment_that_is_not_healthy_is_no_score(tmp_path):
    text = '[environment.healthcheck]\ncommand = "exit 1"\ninterval_sec = 0.01\nretries = 2\n'
    write(tmp_path / "set/t", SHARED, {"instruction.md": "Do.\n", "task.toml": TOML + text})
    record = records(run(tmp_path / "set", tmp_path / "results", "nop").run_dir)["t"]
    (issue,) = record["issues"]
    assert (issue["code"], issue["cause"], issue["severity"]) == (
        "unhealthy",
        "environment",
        "fatal",
    )


@pytest.mark.parametrize("name", EVERYWHERE)
def test_nothing_of_the_tests_runs_on_beside_the_next_agent(name, need, tmp_path):
    """What the tests start has their variables, which the next agent could read."""
    left = (
        'setsid sh -c "echo > up.txt; exec sleep 3571" >/dev/null 2>&1 </dev/null &\n'
        "while [ ! -e up.txt ]; do sleep 0.01; done\n"
    )
    agent = (
        f"cat; echo done >> done.txt; cat > mine.sh <<'END'\n{left}END\n"
        "cat /proc/[0-9]*/environ 2>/dev/null | tr '\\0' '\\n' | grep -c '^JUDGED_WITH='"
    )
    tests = '#!/bin/sh\nsh ./mine.sh\necho 1 > "$LOGS_DIR/verifier/reward.txt"\n'
    parts = {"steps/one/tests/test.sh": tests, "steps/two/tests/test.sh": tests}
    toml = steps(("one", ""), ("two", ""))
    toml["task.toml"] += '[verifier.env]\nJUDGED_WITH = "word"\n'
    write(tmp_path / "set/t", SHARED, toml, step("one", 1), step("two", 2), parts)
    report = run(
        tmp_path / "set", tmp_path / "results", {"id": "command", "command": agent},
        environment=place(name, need),
    )  # fmt: skip
    record = records(report.run_dir)["t"]
    assert record["metrics"]["passed"] is True, record
    assert record["final_answer"].split("\n")[:2] == ["Step two.", "0"]


@pytest.mark.parametrize("name", EVERYWHERE)
def test_the_files_of_a_step_win_over_what_lies_in_their_places(name, need, tmp_path):
    agent = (
        "echo done >> done.txt; [ -e begun.txt ] || {"
        " mkdir -p two.txt/x; echo x > two.txt/x/y; echo x > sub; mkdir -p setup.sh;"
        " ln -s /tmp link; }; cat two.txt sub/deep link/z; ls"
    )
    files = {
        "workdir/setup.sh": "#!/bin/sh\necho setup > begun.txt\n",
        "workdir/two.txt": "2\n",
        "workdir/sub/deep": "deep\n",
        "workdir/link/z": "z\n",
    }
    toml = steps(("one", ""), ("two", ""))
    write(tmp_path / "set/t", SHARED, toml, step("one", 1), step("two", 2))
    write(tmp_path / "set/t", {f"steps/two/{path}": text for path, text in files.items()})
    report = run(
        tmp_path / "set", tmp_path / "results", {"id": "command", "command": agent},
        environment=place(name, need),
    )  # fmt: skip
    record = records(report.run_dir)["t"]
    assert record["metrics"] == {"passed": True, "reward": 1.0}, record
    seen = record["final_answer"].split()
    assert seen[:3] == ["2", "deep", "z"]
    assert {"begun.txt", "done.txt", "given.txt"} <= set(seen)


def test_a_step_that_its_agent_keeps_from_being_healthy_is_no_score_and_voids_nothing(tmp_path):
    check = '[steps.healthcheck]\ncommand = "test ! -e bad.txt"\ninterval_sec = 0.01\nretries = 2\n'
    toml = steps(("one", ""), ("two", check))
    write(tmp_path / "set/t", SHARED, toml, step("one", 1), step("two", 2))
    command = {"id": "command", "command": "echo done >> done.txt; echo > bad.txt"}
    record = records(run(tmp_path / "set", tmp_path / "results", command).run_dir)["t"]
    assert record["metrics"] == {}
    (issue,) = record["issues"]
    found = issue["severity"], issue["cause"], issue["code"]
    assert found == ("error", "agent", "environment_spoiled"), issue
    assert "(unhealthy)" in issue["message"]
