"""Runs that stop, and go on: out of time, by signal, killed, and resumed."""

import json
import signal

import pytest
from tests.acceptance.command import (
    LIMIT_S,
    answering,
    files_in,
    proctor,
    questions,
    started,
    table,
)


def test_out_of_time_is_exit_3_and_resumes(rows, tmp_path):
    gate = tmp_path / "go"
    slow = f"[ -e {gate} ] || [ $PROCTOR_TASK_ID = t1 ] || sleep 60; cat"
    words = table(rows, *answering(slow), "--timeout", "2", "--run-id", "x", "--concurrency", "1")
    done = proctor(*words, "--json", cwd=tmp_path)
    (run,) = done.document["runs"]
    assert done.code == 3
    assert (done.document["status"], run["status"]) == ("timed_out", "timed_out")
    kept = run["counts"]["attempts"]
    assert kept < 3
    assert "the run reached its limit of 2 s" in run["error"]
    gate.touch()
    again = proctor("resume", run["run_dir"], "--timeout", "0", "--json", cwd=tmp_path)
    (resumed,) = again.document["runs"]
    assert again.code == 0
    assert (resumed["counts"]["attempts"], resumed["counts"]["reused_attempts"]) == (3, kept)
    assert resumed["run_dir"] == run["run_dir"]


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)], ids=["INT", "TERM"]
)
def test_a_signal_stops_a_run_in_order(number, code, rows, bell, tmp_path):
    words = table(rows, *answering(f"echo > {bell.path}; sleep 60"), "--run-id", "x", "--json")
    with started(*words, cwd=tmp_path) as process:
        bell.wait()
        process.send_signal(number)
        out, err = process.communicate(timeout=LIMIT_S)
    assert process.returncode == code
    document = json.loads(out)
    (run,) = document["runs"]
    assert (document["status"], run["status"]) == ("interrupted", "interrupted")
    assert run["counts"]["interrupted"] >= 1
    assert run["counts"]["attempts"] == 0
    assert b"proctor resume results/table/command/none/x" in err
    shown = proctor("show", run["run_dir"], cwd=tmp_path)
    assert shown.out.startswith("table · command · none: interrupted\n  go on: proctor resume ")


def test_a_second_signal_exits_at_once(rows, bell, tmp_path):
    """Even while the user's own code holds on to its cancellation."""
    (tmp_path / "stubborn.py").write_text(
        "import asyncio, os\n"
        "async def agent(task, session, model):\n"
        f"    os.write(os.open({str(bell.path)!r}, os.O_WRONLY), b'x')\n"
        "    while True:\n"
        "        try:\n"
        "            await asyncio.sleep(600)\n"
        "        except asyncio.CancelledError:\n"
        "            continue\n"
    )
    words = table(rows, "--harness", "python", "-p", "harness.callable=stubborn.py:agent")
    with started(*words, cwd=tmp_path) as process:
        bell.wait()
        process.send_signal(signal.SIGTERM)
        assert process.stderr is not None
        while b"once more exits at once" not in process.stderr.readline():
            assert process.poll() is None
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=LIMIT_S)
    assert process.returncode == 130  # in order it would have been 143, of the first signal


def test_a_finished_run_is_resumed_without_running_anything(rows, tmp_path):
    log = tmp_path / "log"
    agent = f"echo $PROCTOR_TASK_ID >> {log}; cat"
    proctor(*table(rows, *answering(agent), "--run-id", "x"), cwd=tmp_path)
    folder = tmp_path / "results" / "table" / "command" / "none" / "x"
    records = {k: v for k, v in files_in(folder).items() if k.startswith("details/")}
    done = proctor("resume", str(folder), cwd=tmp_path)
    assert done.code == 0
    assert "3 attempts in " in done.out
    assert "(3 kept)" in done.out
    assert sorted(log.read_text().split()) == ["t1", "t2", "t3"]
    after = {k: v for k, v in files_in(folder).items() if k.startswith("details/")}
    assert after == records


def test_a_run_is_resumed_from_anywhere(tmp_path):
    """Relative paths of the request mean what they meant where it was started."""
    home = tmp_path / "home"
    home.mkdir()
    rows = questions(home / "rows.jsonl", 2)
    agent = "test -e gate || exit 1; cat > answer"
    words = ["run", "--benchmark", "table", "--data", rows.name, *answering(agent)]
    first = proctor(*words, "-p", "harness.answer_file=answer", "--run-id", "x", cwd=home)
    assert first.code == 1
    away = tmp_path / "away"
    away.mkdir()
    done = proctor("resume", str(home / "results/table/command/none/x"), cwd=away)
    assert done.code == 1
    assert f"paths are taken from {home}" in done.err
    assert list(away.iterdir()) == []


def test_a_live_run_has_one_owner(rows, bell, tmp_path):
    gate = tmp_path / "gate"
    agent = f"echo > {bell.path}; until [ -e {gate} ]; do sleep 0.05; done; cat"
    folder = tmp_path / "results/table/command/none/x"
    with started(*table(rows, *answering(agent), "--run-id", "x"), cwd=tmp_path) as process:
        bell.wait()
        refused = proctor("resume", str(folder), "--json", cwd=tmp_path)
        shown = proctor("show", str(folder), cwd=tmp_path)
        gate.touch()
        process.communicate(timeout=LIMIT_S)
    assert process.returncode == 0
    assert refused.code == 2
    assert refused.document["error"]["code"] == "run_is_live"
    assert f"process {process.pid} " in refused.document["error"]["message"]
    assert f"at work: process {process.pid} " in shown.out


def test_a_killed_run_is_shown_as_dead(rows, bell, tmp_path):
    agent = f"echo > {bell.path}; sleep 5"
    folder = tmp_path / "results/table/command/none/x"
    with started(*table(rows, *answering(agent), "--run-id", "x"), cwd=tmp_path) as process:
        bell.wait()
        process.kill()
        process.communicate(timeout=LIMIT_S)
    shown = proctor("show", str(folder), cwd=tmp_path)
    assert shown.out.startswith("table · command · none: dead\n")
    assert f"process {process.pid} " in shown.out
    assert "go on: proctor resume " in shown.out
