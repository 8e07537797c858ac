"""B11 and B13: provider capacity and open rate, seen from whole runs."""

import asyncio
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from tests.scenarios.launches.counting import counting
from tests.scenarios.launches.stage import Stage, launch_spec, provider
from tests.scenarios.runtime.plugins import Agent, Answers, register
from tests.scenarios.runtime.runs import request

import proctor
from proctor.environments.gates import gate_of
from proctor.evals.contracts import TaskSpec
from proctor.kernel.errors import EnvironmentFault

SIX = [TaskSpec(f"t{n}", "?", "yes") for n in range(1, 7)]


def test_b11_two_orchestrations_share_one_capacity(tmp_path):
    """Each active sandbox meets another one before it ends: so two are there, always two."""
    environment, meeting = counting(), threading.Barrier(2)
    finished: list[str] = []

    class Six(Answers):
        given = SIX

    class Meeting(Agent):
        async def act(self, session, task, context):
            await asyncio.to_thread(meeting.wait, 60)
            finished.append(threading.current_thread().name)
            return "yes"

    settings = request(tmp_path, Six, Meeting, environment, concurrency=4)
    settings["runtime"]["provider_limits"] = {environment.id: 2}
    reports = {}

    def orchestrate(name: str) -> None:
        reports[name] = proctor.run({**settings, "name": name})

    threads = [threading.Thread(target=orchestrate, args=(n,), name=n) for n in ("one", "two")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert {r.counts.normal for r in reports.values()} == {6}
    assert {r.status for r in reports.values()} == {"completed"}
    assert not any(report.issue_codes for report in reports.values())
    assert environment.counter.peak == 2
    assert environment.counter.now == 0
    assert len(environment.counter.opened) == 12
    assert sorted(finished) == ["one"] * 6 + ["two"] * 6
    assert gate_of(environment.id).inside == 0


def test_b11_capacity_0_is_unlimited(tmp_path):
    environment, meeting = counting(), threading.Barrier(6)

    class Six(Answers):
        given = SIX

    class AllAtOnce(Agent):
        async def act(self, session, task, context):
            await asyncio.to_thread(meeting.wait, 60)
            return "yes"

    settings = request(tmp_path, Six, AllAtOnce, environment, concurrency=6)
    settings["runtime"]["provider_limits"] = {environment.id: 0}
    asyncio.run(_with_threads(6, proctor.arun(settings)))
    assert environment.counter.peak == 6


async def _with_threads(count, coroutine):
    """The default executor may be smaller than the number of agents that meet."""
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(count))
    return await coroutine


def test_b13_a_back_off_holds_no_permit(tmp_path):
    """X fails twice and waits 2 s each time; Y is done in X's first back-off."""
    s = Stage(tmp_path)
    s.failing = {"run x1": 2}
    environment = counting()
    requests = [
        s.request("x", 1, environment, max_retries=2, retry_backoff_s=4.0),
        s.request("y", 1, environment),
    ]

    async def direct() -> None:
        await s.until("failed run x1", "ran y1", "end y")
        assert s.trace.count("run x1") == 1
        assert gate_of(environment.id).inside == environment.counter.now == 0
        await s.clock.asleep(2)
        s.clock.advance(4.0)
        while s.trace.count("failed run x1") < 2:
            await s.quiet()
        await s.clock.asleep(2)  # the heartbeat and the second back-off: its environment is closed
        assert gate_of(environment.id).inside == environment.counter.now == 0
        s.clock.advance(8.0)

    limits = {environment.id: 1}
    reports = asyncio.run(
        s.launch(requests, concurrency=2, director=direct, provider_limits=limits)
    )
    assert s.trace.index("ran y1") < s.trace.index("ran x1")
    [attempt] = proctor.load(reports["x"].run_dir).attempts()
    assert attempt.record["retry_count"] == 2
    assert attempt.record["usage"]["waiting_s"] == pytest.approx(12.0)
    assert environment.counter.peak == 1
    assert len(environment.counter.opened) == 4


@pytest.mark.slow
def test_b13_opens_are_spaced_over_the_process(tmp_path):
    """20 tasks at once, 5 opens a second, a provider that rejects a sixth in any second; two
    launches in two threads share the rate."""
    environment = counting(most_in_1_s=5)

    class Ten(Answers):
        given = [TaskSpec(f"t{n}", "?", "yes") for n in range(10)]  # noqa: RUF012

    settings = request(tmp_path, Ten, Agent, environment, concurrency=10)
    settings["runtime"]["env_open_qps"] = {environment.id: 5.0}
    reports = []
    threads = [
        threading.Thread(target=lambda n=n: reports.append(proctor.run({**settings, "name": n})))
        for n in ("one", "two")
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert [r.counts.normal for r in reports] == [10, 10]
    assert environment.counter.rejected == 0
    opened = environment.counter.opened
    assert len(opened) == 20
    assert opened[-1] - opened[0] >= 19 / 5


def test_b13_a_provider_that_says_limit_reached_is_asked_again(tmp_path):
    class Busy(provider("gates-busy")):
        refusals = 2

        async def open_session(self, spec, labels):
            if Busy.refusals:
                Busy.refusals -= 1
                raise EnvironmentFault("limit reached", retry_after_s=3.0)
            return await super().open_session(spec, labels)

    s = Stage(tmp_path)

    async def direct() -> None:
        for _ in range(2):
            await s.clock.asleep(2)
            s.clock.advance(4.0)
            await s.quiet()

    requests = [s.request("x", 1, Busy, max_retries=3)]
    reports = asyncio.run(s.launch(requests, concurrency=1, director=direct))
    [attempt] = proctor.load(reports["x"].run_dir).attempts()
    assert (attempt.record["retry_count"], attempt.metrics) == (2, {"right": True})
    assert s.clock.slept.count(3.0) == 2


def test_a_task_that_cannot_open_is_unavailable_and_never_0(tmp_path):
    class Full(provider("gates-always-full")):
        async def open_session(self, spec, labels):
            raise EnvironmentFault("limit reached")

    class One(Answers):
        given = SIX[:1]

    report = asyncio.run(proctor.arun(request(tmp_path, One, Agent, Full)))
    [attempt] = proctor.load(report.run_dir).attempts()
    assert attempt.metrics == {}
    [issue] = attempt.record["issues"]
    assert (issue["severity"], issue["cause"]) == ("fatal", "environment")
    assert report.metrics.evaluation_failed


def test_a_stop_while_tasks_wait_for_a_permit_leaves_the_gate_usable(tmp_path):
    s = Stage(tmp_path, closed=("run x1",))
    environment = counting()
    stop = proctor.Stop()
    spec = launch_spec(
        tmp_path,
        [s.request("x", 3, environment)],
        concurrency=3,
        provider_limits={environment.id: 1},
    )

    async def stopped():
        running = asyncio.ensure_future(proctor.alaunch(spec, stop=stop, clock=s.clock))
        await s.until("run x1")
        stop.request()
        s.open("run x1")
        return await running

    [report] = asyncio.run(stopped())
    assert report.status == "interrupted"
    assert gate_of(environment.id).inside == environment.counter.now == 0
    assert [line for line in s.trace if line.startswith("run ")] == ["run x1"]
    again = asyncio.run(proctor.aresume(report.run_dir))
    assert again.counts.normal == 3
    assert environment.counter.peak == 1


def test_mode_none_gives_its_permit_back_before_it_grades(tmp_path):
    """t1 is being graded in the driver while t2 already has the only place."""
    environment = counting()
    t2_runs = threading.Event()

    class Graded(Answers):
        given = SIX[:2]

        def evaluate(self, prepared, result, session):
            assert session is None
            assert t2_runs.wait(60)
            return proctor.Evaluation(metrics={"right": True})

    class Telling(Agent):
        async def act(self, session, task, context):
            if context.task_id == "t2":
                t2_runs.set()
            return "yes"

    settings = request(tmp_path, Graded, Telling, environment, evaluation_mode="none")
    settings["runtime"]["provider_limits"] = {environment.id: 1}
    report = asyncio.run(proctor.arun(settings))
    assert report.counts.normal == 2
    assert environment.counter.peak == 1


def test_a_fresh_evaluation_uses_the_permit_of_its_try(tmp_path):
    """One place: the task's environment is closed before the evaluation's opens, on one permit."""
    environment = counting()
    inside = []

    class Fresh(Answers):
        given = SIX[:3]

        async def evaluate(self, prepared, result, session):
            inside.append((gate_of(environment.id).inside, environment.counter.now))
            return await super().evaluate(prepared, result, session)

    settings = request(tmp_path, Fresh, Agent, environment, evaluation_mode="fresh")
    settings["runtime"]["provider_limits"] = {environment.id: 1}
    report = asyncio.run(proctor.arun(settings))
    assert report.counts.normal == 3
    assert inside == [(1, 1)] * 3
    assert len(environment.counter.opened) == 6
    assert environment.counter.peak == 1
    assert gate_of(environment.id).inside == 0


def test_a_kept_environment_gives_its_permit_back(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))  # they are left open on purpose
    environment = counting()

    class Three(Answers):
        given = SIX[:3]

    settings = request(tmp_path, Three, Agent, environment, keep_environment=True)
    settings["runtime"]["provider_limits"] = {environment.id: 1}
    report = asyncio.run(proctor.arun(settings))
    assert report.counts.normal == 3
    assert environment.counter.now == 3
    assert gate_of(environment.id).inside == 0


def test_a_retry_takes_its_permit_anew(tmp_path):
    s = Stage(tmp_path)
    s.failing = {"run x1": 1}
    environment = counting()
    requests = [s.request("x", 2, environment, max_retries=1, retry_backoff_s=0.0)]
    asyncio.run(s.launch(requests, concurrency=2, provider_limits={environment.id: 1}))
    assert environment.counter.peak == 1
    assert len(environment.counter.opened) == 3
    assert gate_of(environment.id).inside == 0


def test_the_newest_setting_holds_for_the_process(tmp_path):
    """A launch without a limit of its own does not lift the one that another has set."""
    environment = counting()

    class Two(Answers):
        given = SIX[:2]

    limited = request(tmp_path, Two, Agent, environment)
    limited["runtime"]["provider_limits"] = {environment.id: 1}
    asyncio.run(proctor.arun(limited))
    assert gate_of(environment.id).limits.capacity == 1
    asyncio.run(proctor.arun(request(tmp_path, Two, Agent, environment)))
    assert gate_of(environment.id).limits.capacity == 1
    limited["runtime"]["provider_limits"] = {environment.id: 2}
    asyncio.run(proctor.arun(limited))
    assert gate_of(environment.id).limits.capacity == 2


def test_a_plug_in_cannot_go_round_the_rate():
    with pytest.raises(TypeError, match="open cannot be replaced"):
        type("Sly", (provider("gates-sly"),), {"open": lambda self: None})


def test_one_full_provider_does_not_delay_the_timer_of_another(tmp_path):
    """Two providers with open rates: the slow one's long wait is not waited out for the fast."""
    slow, fast = counting(), counting()

    class Two(Answers):
        given = SIX[:2]

    requests = [
        {"name": name, "benchmark": register(Two), "harness": register(Agent),
         "environment": register(environment)}
        for name, environment in (("slow", slow), ("fast", fast))
    ]  # fmt: skip
    stop = proctor.Stop()
    rates = {slow.id: 0.001, fast.id: 50.0}
    spec = launch_spec(tmp_path, requests, concurrency=4, env_open_qps=rates)

    async def stopped():
        running = asyncio.ensure_future(proctor.alaunch(spec, stop=stop))
        while len(fast.counter.opened) < 2:
            await asyncio.to_thread(int)
        stop.request()
        return await running

    reports = asyncio.run(asyncio.wait_for(stopped(), 60))
    assert reports[0].counts.attempts == 1
    assert len(slow.counter.opened) == 1
