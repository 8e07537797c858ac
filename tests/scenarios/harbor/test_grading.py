"""Grading in a real environment: verdicts, missing verdicts, and agents that cheat."""

import asyncio
import os

import pytest
from tests.scenarios.harbor.driving import attempt, codes, make_task, opened

from proctor.benchmarks.harbor import Harbor
from proctor.benchmarks.harbor.benchmark import HarborOptions
from proctor.benchmarks.harbor.grading import Verdict
from proctor.benchmarks.harbor.reward import NoReward, Reward
from proctor.environments.bubblewrap import BubblewrapEnvironment
from proctor.environments.contract import ExecResult
from proctor.environments.local import LocalEnvironment
from proctor.evals.contracts import PreparedTask, RunResult
from proctor.kernel.errors import EnvironmentFault, EvaluatorFault
from proctor.kernel.issues import Cause, Phase, Severity

REWARD = '"$LOGS_DIR/verifier/reward.txt"'
REWARD_JSON = '"$LOGS_DIR/verifier/reward.json"'


def evaluate(task, agent=None, **more):
    return asyncio.run(attempt(task, agent, **more))


@pytest.mark.parametrize(
    ("script", "passed", "reward"),
    [
        (f"echo 1 > {REWARD}", True, 1.0),
        (f"echo 0 > {REWARD}\nexit 0", False, 0.0),
        (f"echo 1 > {REWARD}\nexit 3", True, 1.0),
        (f"echo 1.5 > {REWARD}\nkill -9 $$", True, 1.5),
        (f"echo 0.5 > {REWARD}", False, 0.5),
        (f'echo 0 > {REWARD}; echo \'{{"a": 1, "b": 0.5}}\' > {REWARD_JSON}', False, 0.75),
        (f'echo \'{{"reward": 2, "b": 1}}\' > {REWARD_JSON}', True, 2.0),
    ],
)
def test_verdicts(tmp_path, script, passed, reward):
    found = evaluate(make_task(tmp_path / "t", script + "\n"))
    assert dict(found.metrics) == {"passed": passed, "reward": reward}
    assert found.unavailable == {}
    assert found.issues == ()


@pytest.mark.parametrize(
    ("script", "code"),
    [
        ("true", "reward_missing"),
        (f": > {REWARD}", "reward_empty"),
        (f"echo passed > {REWARD}", "reward_not_numeric"),
        (f"echo nan > {REWARD}", "reward_not_finite"),
        (f"printf '\\377' > {REWARD}", "reward_unparsable"),
        (f"echo 1 > {REWARD}; echo '{{' > {REWARD_JSON}", "reward_unparsable"),
        (f"echo 1 > {REWARD}; echo '{{}}' > {REWARD_JSON}", "reward_empty"),
        (f'echo 1 > "$TESTS_DIR/one"; ln -s "$TESTS_DIR/one" {REWARD}', "reward_not_a_file"),
        (f"mkfifo {REWARD}", "reward_not_a_file"),
        (f"mkdir {REWARD}", "reward_not_a_file"),
        (f"ln -s /dev/zero {REWARD_JSON}; echo 1 > {REWARD}", "reward_not_a_file"),
        (f"head -c 100000 /dev/zero | tr '\\0' 1 > {REWARD}", "reward_too_large"),
        ('exec "$TESTS_DIR/not-there"', "reward_missing"),
        (
            'cd /; rm -rf "$LOGS_DIR/verifier"; mkdir /tmp/none 2>/dev/null; '
            'ln -s "$TESTS_DIR" "$LOGS_DIR/verifier"; echo 1 > "$TESTS_DIR/reward.txt"',
            "reward_not_a_file",
        ),
    ],
)
def test_no_verdict_is_unavailable_with_its_own_reason_and_never_0(tmp_path, script, code):
    found = evaluate(make_task(tmp_path / "t", script + "\n"))
    assert dict(found.metrics) == {}
    assert codes(found) == [code]
    (issue,) = found.issues
    assert (issue.severity, issue.phase) == (Severity.ERROR, Phase.EVALUATE)
    assert issue.cause is Cause.EVALUATOR
    assert dict(found.unavailable) == {"passed": issue.message, "reward": issue.message}


def test_tests_that_do_not_end_are_no_verdict_even_with_a_reward(tmp_path):
    task = make_task(
        tmp_path / "t",
        f"echo started; echo 1 > {REWARD}; exec sleep 60\n",
        "[verifier]\ntimeout_sec = 0.5\n",
    )
    found = evaluate(task)
    assert codes(found) == ["verifier_timeout"]
    assert "within 0.5 s (verifier.timeout_sec)" in found.unavailable["passed"]
    assert found.artifacts["verifier/test-stdout.txt"] == b"started\n"
    assert found.evidence["verifier"]["timed_out"] is True


def test_output_is_kept_in_order_as_evidence(tmp_path):
    task = make_task(tmp_path / "t", f"echo one; echo two >&2; echo three; echo 1 > {REWARD}\n")

    async def scenario():
        async with opened(task) as session:
            found = await Harbor().evaluate(PreparedTask(task, task.input), RunResult(), session)
            inside = await session.read(f"{session.paths.logs}/verifier/test-stdout.txt")
            return found, inside

    found, inside = asyncio.run(scenario())
    assert inside == b"one\ntwo\nthree\n"
    assert found.artifacts == {"verifier/test-stdout.txt": inside}
    assert found.evidence["rewards"] == {"reward": 1.0}
    assert found.evidence["reward_file"] == "reward.txt"
    assert found.evidence["verifier"]["exit_code"] == 0


def test_quiet_tests_leave_no_artifact(tmp_path):
    assert evaluate(make_task(tmp_path / "t", f"echo 1 > {REWARD}\n")).artifacts == {}


def test_variables_and_working_directory(tmp_path, monkeypatch):
    monkeypatch.setenv("HOST_SECRET_TOKEN", "host-secret-1")
    task = make_task(
        tmp_path / "t",
        f"""
[ "$(pwd)" = "$WORKSPACE" ] && [ "$GIVEN" = "a b" ] && [ -f given.txt ] &&
    [ "$FROM_TASK" = yes ] && [ -z "$HOST_SECRET_TOKEN" ] && echo 1 > {REWARD}
""",
        '[verifier.env]\nGIVEN = "a b"\n[environment.env]\nFROM_TASK = "yes"\nGIVEN = "other"\n',
    )
    assert evaluate(task).metrics["passed"] is True


def test_a_script_without_first_line_or_execute_permission_runs(tmp_path):
    task = make_task(tmp_path / "t", "")
    script = tmp_path / "t/tests/test.sh"
    script.write_text(f"echo 1 > {REWARD}\n")
    script.chmod(0o444)
    assert evaluate(task).metrics["passed"] is True


def test_the_tests_are_not_there_while_the_agent_works(tmp_path):
    task = make_task(tmp_path / "t", f"echo 1 > {REWARD}\n")

    async def scenario():
        async with opened(task) as session:
            looked = await session.exec('cat "$TESTS_DIR/test.sh"')
            return looked.exit_code

    assert asyncio.run(scenario()) != 0


# What an agent may try. The tests give 1 only for a file that no agent below writes.
HONEST = f"""
if [ -f "$WORKSPACE/answer" ]; then echo 1 > {REWARD}; else echo 0 > {REWARD}; fi
"""
SILENT = 'ls "$LOGS_DIR/verifier" "$TESTS_DIR"\n'


@pytest.mark.parametrize(
    "agent",
    [
        f"echo 1 > {REWARD}",
        f"echo '{{\"reward\": 1}}' > {REWARD_JSON}",
        f"mkdir -p {REWARD}/deep; chmod 000 {REWARD}",
        'rm -rf "$LOGS_DIR/verifier"; echo 1 > "$LOGS_DIR/verifier"',
    ],
)
def test_a_reward_written_by_the_agent_never_counts(tmp_path, agent):
    found = evaluate(make_task(tmp_path / "t", SILENT), agent)
    assert codes(found) == ["reward_missing"]
    assert found.artifacts["verifier/test-stdout.txt"].count(b"reward") == 0


DAEMON = f"""
cat > daemon.sh <<'END'
touch begun
while :; do
    echo 1 > {REWARD}
    echo '{{"a": 1}}' > {REWARD_JSON}
done
END
setsid sh daemon.sh > /dev/null 2>&1 &
while [ ! -e begun ]; do :; done
"""


def test_processes_of_the_agent_are_gone_before_grading(tmp_path):
    """A daemon in a session of its own keeps writing rewards; the agent waits for its start."""
    found = evaluate(make_task(tmp_path / "t", HONEST), DAEMON)
    assert dict(found.metrics) == {"passed": False, "reward": 0.0}
    assert found.evidence["reward_file"] == "reward.txt"


def test_files_planted_beside_the_tests_are_gone(tmp_path):
    task = make_task(tmp_path / "t", f'[ "$(ls "$TESTS_DIR")" = test.sh ] && echo 1 > {REWARD}\n')
    agent = (
        'mkdir -p "$TESTS_DIR/x"; echo evil > "$TESTS_DIR/test.sh"; touch "$TESTS_DIR/conftest.py"'
    )
    assert evaluate(task, agent).metrics["passed"] is True


def test_links_in_place_of_logs_and_tests_reach_nothing(tmp_path):
    outside = tmp_path / "outside"
    (outside / "verifier").mkdir(parents=True)
    (outside / "verifier" / "reward.txt").write_text("1")
    agent = (
        f'rm -rf "$LOGS_DIR"; ln -s {outside} "$LOGS_DIR"\n'
        f'rm -rf "$TESTS_DIR"; ln -s {outside} "$TESTS_DIR"\n'
    )
    found = evaluate(make_task(tmp_path / "t", HONEST), agent)
    assert dict(found.metrics) == {"passed": False, "reward": 0.0}
    assert (outside / "verifier" / "reward.txt").read_text() == "1"
    assert os.listdir(outside) == ["verifier"]


@pytest.mark.parametrize(
    "agent", ['cd /; rm -rf "$WORKSPACE"', 'cd /; rm -rf "$WORKSPACE"; touch "$WORKSPACE"']
)
def test_an_agent_that_removes_its_workspace_has_failed(tmp_path, agent):
    found = evaluate(make_task(tmp_path / "t", HONEST), agent)
    assert dict(found.metrics) == {"passed": False, "reward": 0.0}


def test_an_environment_that_vanishes_is_its_own_fault(tmp_path):
    task = make_task(tmp_path / "t", 'cd /; rm -rf "$(dirname "$WORKSPACE")"\n')
    with pytest.raises(EnvironmentFault) as caught:
        evaluate(task)
    assert caught.value.fault_code == "environment_gone"


def test_tests_have_a_memory_limit(tmp_path):
    task = make_task(
        tmp_path / "t",
        f'python3 -c "x = bytearray(400_000_000); print(len(x))" && echo 1 > {REWARD}\n',
    )
    limited = Harbor(HarborOptions(grading_memory_mb=100))
    assert codes(evaluate(task, benchmark=limited)) == ["reward_missing"]
    assert evaluate(task).metrics["passed"] is True


def test_the_memory_that_a_task_states_is_its_limit(tmp_path):
    task = make_task(
        tmp_path / "t",
        f"python3 -c 'bytearray(400_000_000)' && echo 1 > {REWARD}\n",
        "[environment]\nmemory_mb = 100\n",
    )
    assert codes(evaluate(task)) == ["reward_missing"]


def test_grading_twice_gives_the_same(tmp_path):
    task = make_task(tmp_path / "t", HONEST)

    async def scenario():
        async with opened(task) as session:
            await session.exec("touch answer")
            prepared, benchmark = PreparedTask(task, task.input), Harbor()
            return [await benchmark.evaluate(prepared, RunResult(), session) for _ in range(2)]

    first, second = asyncio.run(scenario())
    assert first.metrics == second.metrics == {"passed": True, "reward": 1.0}


def test_without_an_environment_there_is_no_grading(tmp_path):
    task = make_task(tmp_path / "t", HONEST)
    with pytest.raises(EvaluatorFault, match="use mode reuse"):
        asyncio.run(Harbor().evaluate(PreparedTask(task, task.input), RunResult(), None))


@pytest.mark.parametrize("environment", [LocalEnvironment, BubblewrapEnvironment])
@pytest.mark.parametrize(
    "agent",
    [
        'rm -f "$OUT/test-stdout.txt"; mkdir "$OUT/test-stdout.txt"',
        'cp -R "$OUT" kept; rm -r "$OUT"; ln -s "$PWD/kept" "$OUT"',
        'rm -r "$OUT"; echo 1 > "$OUT"',
    ],
)
def test_the_place_of_the_output_spoiled_by_what_the_tests_run(tmp_path, environment, agent, need):
    need(not (problems := environment().requirements()), "; ".join(problems))
    task = make_task(
        tmp_path / "t", f'OUT="$LOGS_DIR/verifier"; echo 0 > {REWARD}; echo said; . ./mine.sh\n'
    )

    async def write(session):
        await session.write("mine.sh", agent.encode())

    found = evaluate(task, write, environment=environment())
    assert found.artifacts["verifier/test-stdout.txt"] == b"said\n"
    if "test-stdout" in agent:
        assert dict(found.metrics) == {"passed": False, "reward": 0.0}
    else:
        assert set(codes(found)) <= {"reward_not_a_file", "reward_missing"}
        assert found.metrics == {}


def test_memory_that_ran_out_in_the_tests_is_said_beside_the_reward(tmp_path, need):
    need(not (problems := BubblewrapEnvironment().requirements()), "; ".join(problems))
    big = "python3 -c 'bytearray(400_000_000)'"
    task = make_task(tmp_path / "t", f"{big} && echo 1 > {REWARD} || echo 0 > {REWARD}\n")
    limited = Harbor(HarborOptions(grading_memory_mb=100))
    found = evaluate(task, benchmark=limited, environment=BubblewrapEnvironment())
    assert found.metrics["reward"] == 0.0
    told = found.evidence["verifier"]["out_of_memory"]
    assert codes(found) == (["tests_out_of_memory"] if told else [])


def test_a_verdict_after_memory_ran_out_is_doubtful():
    outcome = ExecResult(0, "", "", out_of_memory=True)
    (issue,) = Verdict(Reward({"reward": 0.0}, "reward.txt"), outcome).warnings
    assert (issue.severity, issue.code) == (Severity.WARNING, "tests_out_of_memory")
    assert Verdict(NoReward("reward_missing", "none"), outcome).warnings == ()
    assert Verdict(Reward({"reward": 0.0}, "reward.txt"), ExecResult(0, "", "")).warnings == ()
