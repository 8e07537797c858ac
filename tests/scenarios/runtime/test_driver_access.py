"""The way to the driver ends with the agent's run, before the service that it leads to."""

import asyncio
from dataclasses import replace

import pytest
from tests.scenarios.runtime.plugins import Agent, Answers, RecordingEnvironment, recording, tasks
from tests.scenarios.runtime.runs import run

from proctor.environments.contract import EnvironmentSpec
from proctor.evals.contracts import Evaluation

REACHING = EnvironmentSpec(driver_access=True)
ENDED = ["no driver s1", "leave", "no driver s1"]
"""Cut off before the harness closes its service, and once more where it did not start."""


class Asked(Answers):
    given = tasks("a", environment=REACHING)


def noting(environment: type[RecordingEnvironment], act=None, start=None):
    journal = environment.journal

    class Serves(Agent):
        async def start(self, session, task, context):
            journal.append("start")
            if start is not None:
                await start()
            return await super().start(session, task, context)

        async def act(self, session, task, context):
            journal.append("run")
            return await act() if act is not None else "a"

        async def leave(self):
            journal.append("leave")

    return Serves


async def forever():
    await asyncio.Event().wait()


async def failing():
    raise ValueError("no answer")


@pytest.mark.parametrize("mode", ["reuse", "none", "fresh"])
@pytest.mark.parametrize(
    ("act", "limits"),
    [(None, {}), (failing, {}), (forever, {"attempt_timeout_s": 0.05})],
    ids=["ends", "fails", "timed_out"],
)
def test_it_ends_with_the_run(tmp_path, mode, act, limits):
    environment = recording()
    run(tmp_path, Asked, noting(environment, act), environment, evaluation_mode=mode, **limits)
    seen = environment.journal
    assert seen[seen.index("run") + 1 :][:3] == ENDED


@pytest.mark.parametrize(
    ("start", "limits"),
    [(failing, {}), (forever, {"open_timeout_s": 0.05})],
    ids=["fails", "timed_out"],
)
def test_it_ends_where_the_harness_does_not_start(tmp_path, start, limits):
    environment = recording()
    run(tmp_path, Asked, noting(environment, start=start), environment, **limits)
    assert environment.journal == ["open s1", "start", "no driver s1", "close s1"]


def test_it_ends_where_the_run_is_stopped(tmp_path):
    environment = recording()
    run(tmp_path, Asked, noting(environment, forever), environment, timeout_s=0.5)
    assert environment.journal == ["open s1", "start", "run", *ENDED, "close s1"]


def test_it_ends_with_every_step(tmp_path):
    environment = recording()

    class Steps(Asked):
        async def evaluate(self, prepared, result, session):
            environment.journal.append(f"evaluate {prepared.step}")
            if prepared.step == "two":
                return Evaluation(metrics={"right": True})
            return Evaluation(next_step=replace(prepared, step="two"))

    run(tmp_path, Steps, noting(environment), environment, evaluation_mode="reuse")
    one = ["start", "run", *ENDED, "no driver s1", "evaluate None"]
    two = ["start", "run", *ENDED, "no driver s1", "evaluate two"]
    assert environment.journal == ["open s1", *one, *two, "close s1"]


def test_nothing_is_ended_where_nobody_asked_for_it(tmp_path):
    environment = recording()
    run(tmp_path, Answers, noting(environment), environment)
    assert environment.journal == ["open s1", "start", "run", "leave", "close s1"]
