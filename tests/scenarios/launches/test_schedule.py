"""The order in which a launch prepares, runs and finalises, seen in a recorded trace."""

import asyncio
from pathlib import Path

import pytest
from tests.scenarios.launches.stage import Stage, provider
from tests.scenarios.runtime.plugins import Answers, register

import proctor
from proctor.environments.gates import gate_of
from proctor.evals.contracts import TaskSpec
from proctor.kernel.errors import DataError


@pytest.fixture
def stage(tmp_path):
    def make(*closed: str) -> Stage:
        return Stage(tmp_path, closed=closed)

    return make


def test_five_requests_of_different_sizes(stage):
    """A runs; B cannot be prepared; C is slow to load; D is done before C; E comes last."""
    s = stage("run a1", "run a2", "run a3", "load c", "run c1", "run c2", "run d1")
    requests = [s.request(n, size) for n, size in zip("abcde", (4, 1, 2, 1, 5), strict=True)]
    s.failing = {"load b": 1}

    async def direct() -> None:
        # Three workers take a1 to a3; one task is left, fewer than the workers: B and C are next.
        await s.until("run a1", "run a2", "run a3", "load b", "load c")
        s.open("run a1", "run a2", "run a3")
        # A needs nobody any more, although C is still loading and D waits for C.
        await s.until("end a")
        await s.quiet()
        assert "load d" not in s.trace
        s.note("c may load")
        s.open("load c")
        # C's two tasks run; none is left, so that D and then E are prepared.
        await s.until("run c1", "run c2", "run d1", "loaded e")
        s.open("run d1")
        # D is finalised while C runs: C has nothing in its queue any more.
        await s.until("end d")
        assert "end c" not in s.trace
        s.note("c may run")
        s.open("run c1", "run c2")

    reports = asyncio.run(s.launch(requests, concurrency=3, director=direct))
    order = [line for line in s.trace if line.startswith(("load ", "end ", "c may"))]
    assert [line for line in order if line.startswith("load ")] == [f"load {n}" for n in "abcde"]
    assert order.index("c may load") < order.index("load d")
    assert order.index("end d") < order.index("c may run") < order.index("end c")
    assert [reports[n].status for n in "abcde"] == [
        "completed", "failed", "completed", "completed", "completed",
    ]  # fmt: skip
    assert "load b was made to fail" in reports["b"].error
    assert {n: reports[n].counts.attempts for n in "acde"} == {"a": 4, "c": 2, "d": 1, "e": 5}
    first_runs = [line for line in s.trace if line.startswith("run ")]
    assert first_runs[:4] == ["run a1", "run a2", "run a3", "run a4"]
    assert len(first_runs) == len(set(first_runs)) == 12
    info = proctor.load(reports["b"].run_dir).info
    assert info["status"] == "failed"
    assert "load b was made to fail" in info["error"]


def test_the_earliest_request_with_waiting_tasks_goes_first(stage):
    """Ordered priority, not round-robin: B is prepared early and still waits for A's last task."""
    s = stage("run a1", "run a2", "run a3", "run a4", "run b1", "run b2")
    requests = [s.request("a", 4), s.request("b", 2)]

    async def direct() -> None:
        await s.until("run a1", "run a2", "run a3", "loaded b")
        s.open("run a2")
        await s.until("run a4")
        s.open("run a1")
        await s.until("run b1")
        s.open("run a3", "run a4", "run b1", "run b2")

    asyncio.run(s.launch(requests, concurrency=3, director=direct))
    runs = [line for line in s.trace if line.startswith("run ")]
    assert runs == ["run a1", "run a2", "run a3", "run a4", "run b1", "run b2"]


def test_a_later_request_is_not_prepared_while_as_many_tasks_wait_as_there_are_workers(stage):
    s = stage("run a1", "run a2")
    requests = [s.request("a", 4), s.request("b", 1)]

    async def direct() -> None:
        await s.until("run a1", "run a2")
        await s.quiet()
        assert "load b" not in s.trace  # a3 and a4 wait: two, as many as workers
        s.note("one fewer")
        s.open("run a1")
        await s.until("load b")
        s.open("run a2")

    asyncio.run(s.launch(requests, concurrency=2, director=direct))
    assert s.trace.index("one fewer") < s.trace.index("run a3") < s.trace.index("load b")


def test_tasks_in_back_off_count_as_waiting_when_the_next_request_is_considered(stage):
    s = stage("run a3", "run a4")
    s.failing = {"run a1": 1, "run a2": 1}
    requests = [s.request("a", 4, max_retries=1, retry_backoff_s=2.0), s.request("b", 1)]

    async def direct() -> None:
        await s.until("failed run a1", "failed run a2", "run a3", "run a4")
        await s.clock.asleep(3)  # A's heartbeat and two back-offs
        await s.quiet()
        assert "load b" not in s.trace
        s.clock.advance(2.0)
        s.note("back-off over")
        s.open("run a3")
        await s.until("load b")
        s.open("run a4")

    reports = asyncio.run(s.launch(requests, concurrency=2, director=direct))
    assert s.trace.index("back-off over") < s.trace.index("load b")
    assert reports["a"].counts.normal == 4


def test_a_task_in_back_off_keeps_its_request_open_but_not_later_ones(stage):
    s = stage()
    s.failing = {"run a1": 1}
    requests = [s.request("a", 1, max_retries=1, retry_backoff_s=2.0), s.request("b", 1)]

    async def direct() -> None:
        await s.until("failed run a1", "end b")
        await s.quiet()
        assert "end a" not in s.trace
        s.clock.advance(2.0)

    asyncio.run(s.launch(requests, concurrency=2, director=direct))
    assert s.trace.index("end b") < s.trace.index("ran a1") < s.trace.index("end a")


def test_a_task_whose_back_off_is_over_takes_the_next_free_worker(stage):
    s = stage("run a2")
    s.failing = {"run a1": 1}
    requests = [s.request("a", 4, max_retries=1, retry_backoff_s=2.0)]

    async def direct() -> None:
        await s.until("run a2")
        await s.clock.asleep(2)
        s.clock.advance(2.0)
        await s.quiet()
        s.open("run a2")

    asyncio.run(s.launch(requests, concurrency=1, director=direct))
    runs = [line for line in s.trace if line.startswith("run ")]
    assert runs == ["run a1", "run a2", "run a1", "run a3", "run a4"]


def test_further_attempts_of_a_task_come_before_new_tasks(stage):
    s = stage()
    requests = [s.request("a", 2, attempts={"k": 3})]
    asyncio.run(s.launch(requests, concurrency=1))
    runs = [line for line in s.trace if line.startswith("run ")]
    assert runs == ["run a1"] * 3 + ["run a2"] * 3


def test_a_full_provider_holds_no_worker_and_nobody_behind_it(stage):
    """A's provider has one place. Its second and third task wait without a worker; B's run."""
    s = stage("run a1")
    full, free = provider("schedule-full"), provider("schedule-free")
    requests = [s.request("a", 3, full), s.request("b", 3, free), s.request("c", 1, free)]

    async def direct() -> None:
        await s.until("run a1", "ran b1", "ran b2", "ran b3", "ran c1")
        assert "run a2" not in s.trace
        assert gate_of("schedule-full").inside == 1
        await s.quiet()
        # B and C are done, and A still has tasks in its queue: they are not finalised yet.
        assert not any(line.startswith("end ") for line in s.trace)
        s.open("run a1")

    limits = {"schedule-full": 1}
    asyncio.run(s.launch(requests, concurrency=3, director=direct, provider_limits=limits))
    order = [line for line in s.trace if line.startswith(("run a", "end "))]
    assert order.index("run a3") < order.index("end b")
    assert order[:3] == ["run a1", "run a2", "run a3"]
    assert gate_of("schedule-full").inside == 0


def test_tasks_that_only_need_grading_do_not_wait_behind_a_full_provider(stage):
    """One provider place is taken by a1, a3 waits for it; a2 is graded in the driver."""
    s = stage()
    request = s.request("a", 3, provider("schedule-grading"))
    report = asyncio.run(s.launch([request], concurrency=2))["a"]
    for task in proctor.load(report.run_dir).tasks():
        Path(task.path, "attempt-1", "result.json").unlink()
        if task.id != "a2":
            Path(task.path, "attempt-1", "run.json").unlink()
    s.trace.clear()
    s.close("run a1")

    async def again() -> None:
        running = asyncio.ensure_future(proctor.aresume(report.run_dir))
        await s.until("run a1", "grade a2")
        assert "run a3" not in s.trace
        s.open("run a1")
        assert (await running).counts.normal == 3

    gate_of("schedule-grading").configure(capacity=1)
    asyncio.run(again())
    assert [line for line in s.trace if line.startswith("run ")] == ["run a1", "run a3"]


def test_a_request_that_stops_half_way_lets_the_next_one_in(stage):
    """Its queue is dropped at once: nobody waits for tasks that will never run."""
    s = stage("run a1")
    requests = [s.request("a", 9, budget={"wall_s": 5.0}), s.request("b", 1)]

    async def direct() -> None:
        await s.until("run a1")
        s.clock.advance(6.0)
        s.open("run a1")

    reports = asyncio.run(s.launch(requests, concurrency=1, director=direct))
    assert (reports["a"].status, reports["a"].counts.attempts) == ("failed", 1)
    assert "5 s of wall time are spent" in reports["a"].error
    assert reports["b"].status == "completed"


def test_a_request_that_stops_does_not_wait_for_its_back_offs(stage):
    s = stage("run a2")
    s.failing = {"run a1": 1}
    budget = {"wall_s": 5.0}
    requests = [
        s.request("a", 3, budget=budget, max_retries=1, retry_backoff_s=60.0),
        s.request("b", 1),
    ]

    async def direct() -> None:
        await s.until("failed run a1", "run a2")
        await s.clock.asleep(2)
        s.clock.advance(6.0)
        s.open("run a2")

    reports = asyncio.run(s.launch(requests, concurrency=1, director=direct))
    assert reports["a"].status == "failed"
    assert reports["b"].status == "completed"
    assert s.clock.monotonic() == 6.0  # nobody waited out the minute


def test_a_request_without_any_pending_task_is_finalised_at_once(stage):
    s = stage()
    requests = [s.request("a", 2), s.request("b", 1)]
    first = asyncio.run(s.launch(requests, concurrency=2))
    s.trace.clear()
    run_id = Path(first["a"].run_dir).name
    document = s.place / "results" / "launch" / "staged" / f"{run_id}.json"
    again = asyncio.run(proctor.aresume_launch(document))
    assert [r.counts.reused_attempts for r in again] == [2, 1]
    assert [r.status for r in again] == ["completed"] * 2
    assert not any(line.startswith("run ") for line in s.trace)


def test_two_requests_with_the_same_task_ids_stay_apart(stage):
    s = stage()
    one, two = s.request("a", 2), s.request("a", 2)
    two["name"] = "second"
    reports = asyncio.run(s.launch([one, two], concurrency=4))
    assert [r.counts.normal for r in reports.values()] == [2, 2]
    places = {proctor.load(r.run_dir).task("a1").path for r in reports.values()}
    assert len(places) == 2


def test_data_that_cannot_be_loaded_is_one_requests_result(stage):
    s = stage()
    broken = s.request("a", 1)

    class Unloadable(Answers):
        def load_tasks(self) -> list[TaskSpec]:
            raise DataError("rows are missing", problems=["line 4: no id"])

    broken["benchmark"] = register(Unloadable)
    reports = asyncio.run(s.launch([broken, s.request("b", 1)], concurrency=1))
    assert reports["a"].status == "failed"
    assert "line 4: no id" in reports["a"].error
    assert reports["b"].exit_code == 0
