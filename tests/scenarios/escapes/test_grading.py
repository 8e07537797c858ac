"""Ways to a better grade than the work deserves, on a real sandbox."""

import asyncio

import pytest
from tests.scenarios.harbor.driving import attempt, codes, make_task, opened
from tests.scenarios.runtime.plugins import Agent, Answers, tasks
from tests.scenarios.runtime.runs import run

from proctor.environments.bubblewrap import BubblewrapEnvironment
from proctor.evals.contracts import Evaluation

HONEST = """
[ -f "$WORKSPACE/answer" ] && echo 1 > "$LOGS_DIR/verifier/reward.txt" && exit
echo 0 > "$LOGS_DIR/verifier/reward.txt"
"""
SILENT = 'ls "$LOGS_DIR/verifier" "$TESTS_DIR"\n'
WATCHER = """
while :; do
    cat "$TESTS_DIR"/* > "$WORKSPACE/stolen" 2>/dev/null
    [ -s "$WORKSPACE/stolen" ] && touch "$WORKSPACE/answer"
    echo 1 > "$LOGS_DIR/verifier/reward.txt"
done
"""


@pytest.mark.parametrize(
    "agent",
    [
        'echo 1 > "$LOGS_DIR/verifier/reward.txt"',
        'echo \'{"reward": 1}\' > "$LOGS_DIR/verifier/reward.json"',
        'rm -rf "$LOGS_DIR/verifier"; ln -s /tmp "$LOGS_DIR/verifier"; echo 1 > /tmp/reward.txt',
        'cd "$LOGS_DIR/verifier"; mkfifo reward.json; echo 1 > reward.txt; chmod 0444 reward.txt',
        'chmod 0555 "$LOGS_DIR/verifier"; echo 1 > "$LOGS_DIR/verifier/reward.txt"',
    ],
)
def test_a_reward_written_beforehand_does_not_count(sandbox, tmp_path, agent):
    task = make_task(tmp_path / "t", SILENT)
    found = asyncio.run(attempt(task, agent, environment=sandbox.provider.environment()))
    assert codes(found) == ["reward_missing"]
    assert not found.metrics


def test_the_tests_are_not_there_before_grading(sandbox, tmp_path):
    task = make_task(tmp_path / "t", HONEST)
    look = 'ls -A "$TESTS_DIR"; find / -name test.sh -not -path "/proc/*" -not -path "/usr/*"'

    async def scenario():
        async with opened(task, sandbox.provider.environment()) as session:
            return await session.exec(look, timeout_s=60)

    assert asyncio.run(scenario()).stdout == ""


def test_a_watcher_neither_reads_the_tests_nor_writes_the_verdict(sandbox, tmp_path):
    task = make_task(tmp_path / "t", HONEST)
    agent = f"cat > /tmp/w.sh <<'END'\n{WATCHER}\nEND\nsetsid sh /tmp/w.sh > /dev/null 2>&1 &\n:"
    found = asyncio.run(attempt(task, agent, environment=sandbox.provider.environment()))
    assert dict(found.metrics) == {"passed": False, "reward": 0.0}


# --- by the runtime itself, for every benchmark


@pytest.fixture
def bubblewrap(need):
    problems = BubblewrapEnvironment().requirements()
    need(not problems, "; ".join(problems))


class Reads(Answers):
    """Right when the grader finds `verdict` with the text `right` in its environment."""

    given = tasks("a")
    evaluation_modes = ("reuse", "fresh")
    place = "verdict"

    async def evaluate(self, prepared, result, session):
        try:
            found = await session.read(self.place)
        except FileNotFoundError:
            found = b""
        return Evaluation(metrics={"right": found == b"right"})


class Daemon(Agent):
    """Leaves a command running that writes the verdict as soon as somebody lets it."""

    async def act(self, session, task, context):
        waits = "touch up; until [ -e go ]; do :; done; printf right > verdict"
        self.left = asyncio.create_task(session.exec(waits, timeout_s=100))
        await session.exec("until [ -e up ]; do :; done", timeout_s=60)
        return "a"


class Lets(Reads):
    async def evaluate(self, prepared, result, session):
        await session.write("go", b"")
        await session.exec("for n in $(seq 20); do [ -e verdict ] && break; sleep 0.02; done")
        return await super().evaluate(prepared, result, session)


@pytest.mark.parametrize("environment", ["bubblewrap", "local"])
def test_what_the_agent_left_running_is_gone_before_any_grading(tmp_path, bubblewrap, environment):
    outcome = run(tmp_path, Lets, Daemon, environment, evaluation_mode="reuse")
    assert outcome.record()["metrics"] == {"right": False}
    assert outcome.codes() == []


def test_a_fresh_environment_has_nothing_of_the_agents(tmp_path, bubblewrap):
    class Writes(Agent):
        async def act(self, session, task, context):
            for place in ("verdict", "/logs/artifacts/verdict", "/tests/x", "/root/.bashrc"):
                await session.write(place, b"right")
            return "a"

    outcome = run(tmp_path, Reads, Writes, "bubblewrap", evaluation_mode="fresh")
    assert outcome.record()["metrics"] == {"right": False}


class Collects(Reads):
    place = "/logs/artifacts/deep/verdict"

    async def collect_artifacts(self, prepared, result, session, context):
        await session.download("verdict", context.artifacts_dir / "deep" / "verdict")
        return result


class Works(Agent):
    async def act(self, session, task, context):
        await session.write("verdict", b"right")
        return "a"


def test_collected_artifacts_are_handed_over_to_a_fresh_environment(tmp_path, bubblewrap):
    outcome = run(tmp_path, Collects, Works, "bubblewrap", evaluation_mode="fresh")
    assert outcome.codes() == []
    assert outcome.record()["metrics"] == {"right": True}


def test_an_artifact_that_was_changed_is_not_graded(tmp_path, bubblewrap):
    class Changes(BubblewrapEnvironment):
        """Somebody edits the run directory before the second environment opens."""

        id = "changes"

        async def open_session(self, spec, labels):
            for path in tmp_path.rglob("artifacts/deep/verdict"):
                path.write_text("right!")
            return await super().open_session(spec, labels)

    outcome = run(tmp_path, Collects, Works, Changes, evaluation_mode="fresh")
    assert outcome.codes() == ["error evaluate evaluator artifact_changed"]
    assert outcome.state() == "error"
