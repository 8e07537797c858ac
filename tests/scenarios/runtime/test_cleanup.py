"""What is acquired is released from the inside out: after success, failure and cancellation."""

import asyncio

import pytest
from tests.scenarios.runtime.plugins import (
    Agent,
    Answers,
    RecordingSession,
    name_of,
    recording,
    tasks,
)
from tests.scenarios.runtime.runs import Outcome, request, run, within

import proctor
from proctor.evals.attempt import ownership
from proctor.evals.contracts import Evaluation, PreparedTask
from proctor.evals.stopping import Stop

PHASES = ["open", "prepare", "start", "run", "collect", "evaluate"]
RELEASES = {
    "open": [],
    "prepare": ["close s1"],
    "start": ["close s1"],
    "run": ["leave", "close s1"],
    "collect": ["leave", "close s1"],
    "evaluate": ["leave", "close s1"],
}
"""What is released when a phase fails, in mode reuse."""


def components(at: str, then):
    """Components that do `await then()` in one phase; the journal holds what they release."""
    base = recording()
    journal = base.journal

    class Place(base):
        async def open_session(self, spec, labels):
            if at == "open":
                await then()
            session = await super().open_session(spec, labels)
            journal.remove(f"open {session.name}")
            return session

    class Graded(Answers):
        evaluation_modes = ("reuse",)

        async def prepare_task(self, task, session, plan):
            if at == "prepare":
                await then()
            return PreparedTask(task, task.input)

        async def collect_artifacts(self, prepared, result, session, context):
            if at == "collect":
                await then()
            return result

        async def evaluate(self, prepared, result, session):
            if at == "evaluate":
                await then()
            return Evaluation(metrics={"right": True})

    class Tested(Agent):
        async def start(self, session, task, context):
            if at == "start":
                await then()
            return await super().start(session, task, context)

        async def act(self, session, task, context):
            if at == "run":
                await then()
            return "a"

        async def leave(self):
            journal.append("leave")

    return Graded, Tested, Place, journal


@pytest.mark.parametrize("phase", PHASES)
def test_a_failure_releases_what_there_is(tmp_path, phase):
    async def fail():
        raise ValueError(f"broken in {phase}")

    *parts, journal = components(phase, fail)
    outcome = run(tmp_path, *parts)
    assert journal == RELEASES[phase]
    expected = "eval_error" if phase == "evaluate" else "run_error"
    assert outcome.record()["status"] == expected
    assert f"broken in {phase}" in outcome.record()["error"]


@pytest.mark.parametrize("phase", PHASES)
def test_a_stop_releases_what_there_is_and_leaves_no_record(tmp_path, phase):
    reached = asyncio.Event()

    async def hang():
        reached.set()
        await asyncio.Event().wait()

    *parts, journal = components(phase, hang)

    async def stopped_there():
        stop = Stop()
        running = asyncio.ensure_future(proctor.arun(request(tmp_path, *parts), stop=stop))
        await reached.wait()
        stop.request()
        return Outcome(await running)

    outcome = within(30, stopped_there)
    assert journal == RELEASES[phase]
    assert outcome.records == {}
    assert outcome.report.status == "interrupted"
    assert outcome.report.counts.interrupted == 1
    assert proctor.load(outcome.run_dir).status == "interrupted"
    assert [p.name for p in outcome.run_dir.glob("details/*")] in (["running"], [])


@pytest.mark.parametrize("phase", ["run", "evaluate"])
def test_cancelling_the_call_releases_what_there_is(tmp_path, phase):
    reached = asyncio.Event()

    async def hang():
        reached.set()
        await asyncio.Event().wait()

    *parts, journal = components(phase, hang)

    async def cancelled_there():
        running = asyncio.ensure_future(proctor.arun(request(tmp_path, *parts)))
        await reached.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    within(30, cancelled_there)
    assert journal == RELEASES[phase]
    run_dir = next(tmp_path.glob("results/*/*/*/*"))
    found = proctor.load(run_dir)
    assert (found.status, found.live_owner) == ("interrupted", None)


def test_a_fresh_environment_is_released_when_grading_in_it_fails(tmp_path):
    environment = recording()

    class Breaks(Answers):
        async def evaluate(self, prepared, result, session):
            environment.journal.append(f"evaluate {name_of(session)}")
            raise ValueError("no verdict")

    outcome = run(tmp_path, Breaks, Agent, environment, evaluation_mode="fresh")
    expected = ["open s1", "close s1", "open s2", "evaluate s2", "close s2"]
    assert environment.journal == expected
    assert outcome.codes() == ["error evaluate evaluator evaluate_failed"]


def closing(error):
    """A recording environment whose sessions close, then raise."""
    base = recording()

    class Closing(RecordingSession):
        async def close(self):
            await super().close()
            raise error

    class Place(base):
        async def open_session(self, spec, labels):
            session = await super().open_session(spec, labels)
            session.__class__ = Closing
            return session

    return Place


def test_a_failed_close_is_a_warning_that_names_the_resource(tmp_path):
    outcome = run(tmp_path, Answers, Agent, closing(OSError("stuck mount")))
    assert outcome.codes() == ["warning cleanup environment cleanup_failed"]
    assert outcome.record()["issues"][0]["message"] == "environment: OSError: stuck mount"
    assert outcome.state() == "normal"
    assert outcome.report.exit_code == 0


def test_a_failed_close_does_not_hide_the_first_failure(tmp_path):
    class Fails(Agent):
        async def act(self, session, task, context):
            raise ValueError("the first failure")

        async def leave(self):
            raise ValueError("the second")

    outcome = run(tmp_path, Answers, Fails, closing(OSError("the third")))
    assert outcome.codes() == [
        "warning cleanup environment cleanup_failed",
        "warning cleanup environment cleanup_failed",
        "fatal run agent run_failed",
    ]
    messages = [issue["message"] for issue in outcome.record()["issues"]]
    assert messages[:2] == [
        "harness session: ValueError: the second",
        "environment: OSError: the third",
    ]
    assert "the first failure" in outcome.record()["error"]


def test_a_close_that_is_no_coroutine_or_cancels_itself_is_a_warning(tmp_path):
    class Plain(Agent):
        def leave(self):
            return None  # awaiting it is a TypeError

    outcome = run(tmp_path, Answers, Plain, closing(asyncio.CancelledError()))
    assert outcome.codes() == ["warning cleanup environment cleanup_failed"] * 2
    assert outcome.report.exit_code == 0


def test_a_close_that_hangs_is_left_behind(tmp_path, monkeypatch):
    monkeypatch.setattr(ownership.Ownership.__init__, "__defaults__", (0.05,))

    class Hangs(Agent):
        async def leave(self):
            await asyncio.Event().wait()

    outcome = within(30, lambda: proctor.arun(request(tmp_path, Answers, Hangs)))
    record = Outcome(outcome).record()
    assert [i["message"] for i in record["issues"]] == [
        "harness session: did not close within 0.05 s"
    ]
    assert outcome.exit_code == 0


def test_a_stop_during_the_close_after_a_failure_is_not_lost(tmp_path):
    """Before, such a stop was swallowed and the worker went on with the next task."""
    reached = asyncio.Event()
    started = []

    class Slow(Agent):
        async def act(self, session, task, context):
            started.append(task.id)
            raise ValueError("first failure")

        async def leave(self):
            reached.set()
            await stop.wait()
            for _ in range(5):  # the cancellation arrives while we are still here
                await asyncio.sleep(0)

    class Two(Answers):
        given = tasks("a", "b", "c")

    stop = Stop()

    async def stopped_there():
        wanted = request(tmp_path, Two, Slow, concurrency=1)
        running = asyncio.ensure_future(proctor.arun(wanted, stop=stop))
        await reached.wait()
        stop.request()
        return Outcome(await running)

    outcome = within(30, stopped_there)
    assert started == ["t1"]
    assert outcome.records == {}
    assert outcome.report.status == "interrupted"


def test_an_environment_that_opens_too_late_is_closed(tmp_path):
    """The stop arrives in the very step in which `open` succeeds."""
    base = recording()
    stop = Stop()

    class Late(base):
        async def open_session(self, spec, labels):
            try:
                stop.request()
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                return await super().open_session(spec, labels)

    report = within(30, lambda: proctor.arun(request(tmp_path, Answers, Agent, Late), stop=stop))
    assert base.journal == ["open s1", "close s1"]
    assert report.status == "interrupted"


def _cancel_workers() -> None:
    for task in asyncio.all_tasks():
        if task.get_coro().__qualname__ == "Pool._work":
            task.cancel()


def test_what_is_acquired_in_the_moment_of_the_stop_is_released(tmp_path):
    """The worker is cancelled between the success of `open` or `start` and its own next step."""
    base = recording()
    stop = Stop()

    class Racing(base):
        async def open_session(self, spec, labels):
            session = await super().open_session(spec, labels)
            stop.request()
            _cancel_workers()
            return session

    within(30, lambda: proctor.arun(request(tmp_path, Answers, Agent, Racing), stop=stop))
    assert base.journal == ["open s1", "close s1"]


def test_an_agent_that_starts_in_the_moment_of_the_stop_is_released(tmp_path):
    left = []
    stop = Stop()

    class Racing(Agent):
        async def start(self, session, task, context):
            started = await super().start(session, task, context)
            stop.request()
            _cancel_workers()
            return started

        async def leave(self):
            left.append("leave")

    within(30, lambda: proctor.arun(request(tmp_path, Answers, Racing), stop=stop))
    assert left == ["leave"]
