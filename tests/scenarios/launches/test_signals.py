"""SIGINT and SIGTERM in every phase, the second signal, the deadline, and stops from Python."""

import asyncio
import json
import signal
import threading
import time
from pathlib import Path

import pytest
from tests.scenarios.launches.process import launch_file, request_file, rooms_request, timed_end
from tests.scenarios.launches.stage import Stage, launch_spec
from tests.scenarios.runtime.plugins import Agent, register

import proctor

GRACE_S = 2.0
SLACK_S = 1.0
CODES = {signal.SIGINT: 130, signal.SIGTERM: 143}
PHASES = ("prepare", "open", "run", "evaluate", "finalise")


@pytest.mark.slow
@pytest.mark.parametrize("phase", PHASES)
@pytest.mark.parametrize("number", CODES, ids=lambda n: n.name)
def test_a_signal_in_any_phase_ends_in_order(tmp_path, events, start, phase, number):
    """Two requests; the first is held in the phase, the second may not even be prepared."""
    held = rooms_request(tmp_path, harness={"deaf": True}, evaluation_mode="none")
    other = rooms_request(tmp_path, tasks=2)
    file = launch_file(tmp_path, [{"name": "held", **held}, {"name": "other", **other}])
    process = start("launch", file, "--json", events=events, hold=phase)
    events.until(phase)
    over = phase == "finalise"  # every attempt has its record once both are there
    if over:
        events.until(phase)
    process.signal(number)
    ended = timed_end(process, GRACE_S + SLACK_S)
    assert ended.code == (0 if over else CODES[number]), ended.err
    document = ended.document
    assert document["status"] == ("completed" if over else "interrupted")
    first, second = document["runs"]
    assert first["status"] == ("completed" if over else "interrupted")
    assert first["counts"]["error"] == first["counts"]["fatal"] == 0
    check_states(tmp_path, document)
    assert process.left_behind() == []
    assert list((tmp_path / "registry").iterdir()) == []
    assert second["status"] in ("completed", "interrupted")
    resume_all(tmp_path)


def check_states(place, document):
    """What the disk says is what was reported; nothing unfinished has a record."""
    [path] = (place / "results" / "launch" / "night").glob("*.json")
    stored = json.loads(path.read_text("utf-8"))
    assert stored["status"] == document["status"]
    for run in document["runs"]:
        entry = stored["requests"][run["name"]]
        assert entry["status"] == run["status"]
        if not run["run_dir"]:
            assert entry["run_dir"] is None
            continue
        assert path.parent / entry["run_dir"] == Path(run["run_dir"])
        loaded = proctor.load(run["run_dir"])
        assert (loaded.status, loaded.live_owner) == (run["status"], None)
        for task in loaded.tasks():
            assert (task.state == "running") == (not list(task.attempts()))
        if run["status"] == "interrupted":
            waiting = [task for task in loaded.tasks() if task.state == "running"]
            assert run["counts"]["interrupted"] == len(waiting)


def resume_all(place):
    """The launch goes on to its end; only what is missing runs."""
    [path] = (place / "results" / "launch" / "night").glob("*.json")
    reports = proctor.resume_launch(path)
    assert [r.counts.normal for r in reports] == [3, 2]
    assert {r.exit_code for r in reports} == {0}


def test_a_second_signal_ends_at_once(tmp_path, events, start):
    """The loop itself is blocked: only the handler can act."""
    held = rooms_request(tmp_path, harness={"loop": True})
    file = request_file(tmp_path, held, cleanup_grace_s=60.0)
    process = start("run", file, events=events, hold="run")
    events.until("run")
    process.signal(signal.SIGINT)
    began = time.monotonic()
    while not handled(process):  # the first must have been seen: signals do not queue up
        assert time.monotonic() - began < 60
    process.signal(signal.SIGTERM)
    ended = timed_end(process, 1.0)
    assert ended.code == 143
    [run_dir] = (tmp_path / "results").glob("*/*/*/*")
    assert proctor.load(run_dir).status == "dead"


def handled(process):
    """Whether no signal is pending for the process."""
    status = Path(f"/proc/{process.process.pid}/status").read_text("utf-8")
    lines = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
    return int(lines["SigPnd"], 16) == int(lines["ShdPnd"], 16) == 0


def test_agents_that_fill_the_loops_threads_hold_nothing_up(tmp_path):
    """Agents block every thread of the event loop's own pool; closing needs none of them."""
    s = Stage(tmp_path, closed=tuple(f"run x{n}" for n in range(1, 41)))
    stop = proctor.Stop()
    spec = launch_spec(tmp_path, [s.request("x", 40)], concurrency=40, cleanup_grace_s=0.5)

    async def stopped():
        running = asyncio.ensure_future(proctor.alaunch(spec, stop=stop))
        await asyncio.sleep(0)
        while sum(line.startswith("run ") for line in s.trace) < 40:  # noqa: ASYNC110
            await asyncio.sleep(0)
        began = time.monotonic()
        stop.request()
        reports = await running
        took_s = time.monotonic() - began
        s.open(*(f"run x{n}" for n in range(1, 41)))
        return reports, took_s

    [report], took_s = asyncio.run(stopped())
    assert report.status == "interrupted"
    assert took_s < 0.5 + SLACK_S


def test_a_deadline_times_out_and_can_be_resumed(tmp_path, events, start):
    held = rooms_request(tmp_path, harness={"deaf": True})
    file = launch_file(tmp_path, [{"name": "held", **held}], timeout_s=1.0)
    process = start("launch", file, "--json", events=events, hold="run")
    events.until("run")
    ended = timed_end(process, 1.0 + GRACE_S + SLACK_S)
    assert ended.code == 3
    [run] = ended.document["runs"]
    assert (run["status"], run["counts"]["interrupted"]) == ("timed_out", 3)
    assert run["error"] == "the run reached its limit of 1 s"
    info = proctor.load(run["run_dir"]).info
    assert (info["status"], info["error"]) == ("timed_out", run["error"])
    assert process.left_behind() == []


def test_the_deadline_starts_after_preflight(tmp_path):
    """Building the components takes longer than the limit; the run itself does not."""
    s = Stage(tmp_path)
    slow = threading.Event()
    request = s.request("x", 1)

    class SlowToBuild(Agent):
        def requirements(self):
            slow.wait(1.5)
            return []

    request["harness"] = register(SlowToBuild)
    spec = launch_spec(tmp_path, [request], concurrency=1, timeout_s=1.4)
    [report] = proctor.launch(spec)
    assert report.status == "completed"


@pytest.mark.parametrize("how", ["cancel", "stop", "stop from a thread"])
def test_python_can_stop_a_launch(tmp_path, how):
    s = Stage(tmp_path, closed=("run a1",))
    stop = proctor.Stop()
    spec = launch_spec(tmp_path, [s.request("a", 2), s.request("b", 1)], concurrency=1)

    async def stopped():
        running = asyncio.ensure_future(proctor.alaunch(spec, stop=stop, clock=s.clock))
        await s.until("run a1")
        if how == "cancel":
            running.cancel()
        elif how == "stop":
            stop.request()
        else:
            threading.Thread(target=stop.request).start()
        s.open("run a1")
        return await running

    if how == "cancel":
        with pytest.raises(asyncio.CancelledError):
            asyncio.run(stopped())
    else:
        reports = asyncio.run(stopped())
        assert [r.status for r in reports] == ["interrupted"] * 2
        assert [r.exit_code for r in reports] == [130, 130]
    [path] = (tmp_path / "results" / "launch" / "staged").glob("*.json")
    stored = json.loads(path.read_text("utf-8"))
    assert stored["status"] == "interrupted"
    again = proctor.resume_launch(path)
    assert [r.counts.normal for r in again] == [2, 1]


def test_a_stop_before_anything_ran_leaves_nothing(tmp_path):
    s = Stage(tmp_path)
    stop = proctor.Stop()
    stop.request()
    spec = launch_spec(tmp_path, [s.request("a", 1)], concurrency=1)
    with pytest.raises(proctor.Stopped):
        asyncio.run(proctor.alaunch(spec, stop=stop))
    assert s.trace == []
    assert not (tmp_path / "results").exists()


def test_a_launch_that_was_killed_is_shown_as_dead(tmp_path, events, start):
    file = launch_file(tmp_path, [{"name": "held", **rooms_request(tmp_path)}])
    process = start("launch", file, events=events, hold="run")
    events.until("run")
    [run_dir] = (tmp_path / "results" / "launch" / "night" / "held").iterdir()
    live = proctor.load(run_dir)
    assert (live.status, live.live_owner.pid) == ("running", process.process.pid)
    process.kill()
    assert (live.status, live.live_owner) == ("dead", None)
