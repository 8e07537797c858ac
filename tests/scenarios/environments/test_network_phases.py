"""A run whose phases differ: what is reached from inside in each, on a real sandbox."""

import pytest
from tests.scenarios.runtime.plugins import Agent, Answers, tasks
from tests.scenarios.runtime.runs import run

from proctor.environments.bubblewrap import BubblewrapEnvironment
from proctor.environments.contract import EnvironmentSpec
from proctor.environments.netns.sandbox import problem as switching_problem
from proctor.environments.network import NetworkMode, NetworkPhases, NetworkPolicy
from proctor.evals.contracts import Evaluation, PreparedTask
from proctor.testing.conformance.environment_network import host_address, probe, service

PUBLIC = NetworkPolicy()
NOTHING = NetworkPolicy(NetworkMode.NO_NETWORK)


@pytest.fixture(autouse=True)
def _may_switch(need):
    need(not BubblewrapEnvironment().requirements(), "bubblewrap does not work here")
    need(not switching_problem(), f"network policies cannot be switched: {switching_problem()}")
    need(host_address(), "this machine has no network address besides the loopback")


def probing(evaluation: NetworkPolicy):
    """A benchmark and a harness that note in which steps a service of this machine answers."""
    reached: dict[str, bool] = {}

    async def knock(step, session):
        if session is None:
            return
        async with service() as port:
            seen = await probe(session, (f"{host_address()} {port}",))
            reached[step] = bool(seen.answers)

    class Probes(Answers):
        given = tasks(
            "a", environment=EnvironmentSpec(network=NetworkPhases(PUBLIC, NOTHING, evaluation))
        )

        async def prepare_task(self, task, session, plan):
            await knock("prepare", session)
            return PreparedTask(task, task.input)

        async def collect_artifacts(self, prepared, result, session, context):
            await knock("collect", session)
            return result

        async def evaluate(self, prepared, result, session):
            await knock("evaluate", session)
            return Evaluation(metrics={"right": True})

    class Knocks(Agent):
        async def start(self, session, task, context):
            await knock("start", session)
            return await super().start(session, task, context)

        async def act(self, session, task, context):
            await knock("run", session)
            return "a"

    return Probes, Knocks, reached


INFERENCE = {"prepare": True, "start": True, "run": False, "collect": False}


@pytest.mark.parametrize(
    ("mode", "evaluation", "graded"),
    [
        ("reuse", PUBLIC, {"evaluate": True}),
        ("reuse", NOTHING, {"evaluate": False}),
        ("fresh", PUBLIC, {"evaluate": True}),
        ("fresh", NOTHING, {"evaluate": False}),
        ("none", PUBLIC, {}),
    ],
)
def test_each_phase_reaches_what_its_policy_says(tmp_path, mode, evaluation, graded):
    benchmark, harness, reached = probing(evaluation)
    outcome = run(tmp_path, benchmark, harness, "bubblewrap", evaluation_mode=mode)
    assert outcome.codes() == []
    assert reached == INFERENCE | graded


def test_a_plan_that_cannot_be_switched_is_refused_before_anything_runs(tmp_path, monkeypatch):
    from proctor.environments.bubblewrap import provider

    monkeypatch.setattr(provider, "switching_problem", lambda: "it takes root")
    benchmark, harness, reached = probing(PUBLIC)
    with pytest.raises(Exception, match="it takes root"):
        run(tmp_path, benchmark, harness, "bubblewrap")
    assert reached == {}
