"""B20: limits count working time; what only waits is counted apart."""

import asyncio
import time

import pytest
from tests.scenarios.launches.stage import provider
from tests.scenarios.runtime.plugins import Agent, Answers
from tests.scenarios.runtime.runs import Outcome, request

import proctor
from proctor.environments import answering
from proctor.environments.gates import gate_of
from proctor.environments.local import LocalSession
from proctor.evals.contracts import TaskSpec


class Five(Answers):
    given = [TaskSpec(f"t{n}", "?", "yes") for n in range(1, 6)]  # noqa: RUF012


class One(Answers):
    given = Five.given[:1]


class Slow(Agent):
    """Works for 1.5 s."""

    async def act(self, session, task, context):
        await asyncio.sleep(1.5)
        return "yes"


def run(settings):
    return Outcome(asyncio.run(proctor.arun(settings)))


@pytest.mark.slow
def test_b20_waiting_for_a_worker_does_not_count(tmp_path):
    """Five tasks of 1.5 s, one worker, a limit of 2 s an attempt."""
    outcome = run(request(tmp_path, Five, Slow, concurrency=1, attempt_timeout_s=2.0))
    assert outcome.report.counts.normal == 5
    for number in range(1, 6):
        usage = outcome.record(f"t{number}")["usage"]
        assert usage["phases_s"]["run"] == pytest.approx(1.5, abs=0.5)
        assert usage["waiting_s"] >= (number - 1) * 1.5
        assert usage["wall_s"] < 2.5


@pytest.mark.slow
def test_b20_an_environment_that_never_opens_ends_as_an_open_timeout(tmp_path):
    """The limit of 3 s holds for each try; the slot is free again, and others run beside it."""
    tries = []

    class Stuck(provider("b20-stuck")):
        async def open_session(self, spec, labels):
            if labels["task"] != "t1":
                return await super().open_session(spec, labels)
            tries.append(time.monotonic())
            await asyncio.get_running_loop().create_future()
            raise AssertionError

    settings = request(
        tmp_path, Five, Agent, Stuck, concurrency=1, open_timeout_s=3.0, max_retries=1,
        retry_backoff_s=0.01,
    )  # fmt: skip
    settings["runtime"]["provider_limits"] = {Stuck.id: 1}
    outcome = run(settings)
    assert (outcome.report.counts.normal, outcome.report.counts.fatal) == (4, 1)
    assert outcome.codes("t1") == ["fatal open environment open_timeout"]
    assert outcome.record("t1")["retry_count"] == 1
    assert outcome.record("t1")["usage"]["phases_s"]["open"] == pytest.approx(3.0, abs=1.0)
    assert tries[1] - tries[0] >= 3.0
    assert gate_of(Stuck.id).inside == 0


@pytest.mark.slow
def test_b20_waiting_for_a_permit_does_not_count(tmp_path):
    """Another run holds the only place for 3 s; then an attempt of 1.5 s with a limit of 2 s."""
    environment = provider("b20-permit")
    gate = gate_of(environment.id)
    gate.configure(capacity=1)
    permit = gate.try_enter("another run")

    async def both():
        running = asyncio.ensure_future(
            proctor.arun(request(tmp_path, One, Slow, environment, attempt_timeout_s=2.0))
        )
        await asyncio.sleep(3.0)
        permit.release()
        return await running

    outcome = Outcome(asyncio.run(both()))
    assert outcome.report.counts.normal == 1
    usage = outcome.record()["usage"]
    assert usage["waiting_s"] >= 2.5
    assert usage["wall_s"] == pytest.approx(1.5, abs=0.5)


def test_b20_a_command_whose_answer_never_comes_is_an_environment_error(tmp_path, monkeypatch):
    """The connection is half open: the provider keeps no time any more, and never answers."""
    monkeypatch.setattr(answering, "ANSWER_MARGIN_S", 0.2)

    class HalfOpen(LocalSession):
        async def exec(self, command, **options):
            await asyncio.get_running_loop().create_future()
            raise AssertionError

    class Remote(provider("b20-remote")):
        async def open_session(self, spec, labels):
            return HalfOpen(spec, labels, self._settings)

    class Asking(Agent):
        async def act(self, session, task, context):
            return (await session.exec("true", timeout_s=0.5)).stdout

    began = time.monotonic()
    outcome = run(request(tmp_path, One, Asking, Remote))
    assert outcome.codes() == ["fatal run environment no_answer"]
    assert outcome.record()["metrics"] == {}
    assert time.monotonic() - began < 10.0


def test_a_time_out_that_the_command_reports_itself_is_no_silence(tmp_path):
    class Slowly(Agent):
        async def act(self, session, task, context):
            done = await session.exec("sleep 60", timeout_s=0.2)
            return "yes" if done.timed_out else "no"

    assert run(request(tmp_path, One, Slowly)).record()["metrics"] == {"right": True}


def test_a_time_out_error_of_the_provider_itself_stays_one(tmp_path):
    class Late(LocalSession):
        async def exec(self, command, **options):
            raise TimeoutError("the socket timed out")

    class Remote(provider("b20-late")):
        async def open_session(self, spec, labels):
            return Late(spec, labels, self._settings)

    class Asking(Agent):
        async def act(self, session, task, context):
            return (await session.exec("true", timeout_s=5.0)).stdout

    outcome = run(request(tmp_path, One, Asking, Remote))
    assert outcome.codes() == ["fatal run agent run_failed"]
    assert "the socket timed out" in outcome.record()["error"]
