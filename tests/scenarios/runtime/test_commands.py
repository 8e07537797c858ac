"""B17 and B23 through a whole run: commands that linger, wait, read, flood and mangle."""

import asyncio
import json
import resource
from pathlib import Path

import pytest
from tests.scenarios.runtime.killing import _who, until
from tests.scenarios.runtime.runs import Outcome, request

import proctor
from proctor.harnesses.command import ANSWER_LIMIT_BYTES


def commanded(place: Path, command: str, **execution) -> Outcome:
    """One task, input `the question`, answered by a command line; graded as `the answer`."""
    data = place / "rows.jsonl"
    data.write_text('{"id": "t1", "input": "the question", "target": "the answer"}\n')
    wanted = request(place, "table", "command", **execution)
    wanted["benchmark"] = {"id": "table", "data": str(data)}
    wanted["harness"] = {"id": "command", "command": command}
    return Outcome(asyncio.run(proctor.arun(wanted)))


def processes(mark: str) -> list[str]:
    """Living processes whose command line holds `mark`, and zombies of ours."""
    return [who for who in map(_who, Path("/proc").glob("[0-9]*")) if mark in who]


def test_a_background_process_does_not_hold_the_attempt(tmp_path):
    outcome = commanded(tmp_path, "sleep 3601 & echo the answer", attempt_timeout_s=60)
    record = outcome.record()
    assert record["final_answer"] == "the answer"
    assert record["metrics"] == {"correct": 1}
    assert record["meta"]["harness"]["telemetry"]["lingering_processes_killed"] is True
    assert record["usage"]["phases_s"]["run"] < 30
    assert until(lambda: not processes("sleep 3601"))


def test_a_command_that_waits_ends_at_its_limit_with_its_output_so_far(tmp_path):
    outcome = commanded(tmp_path, "echo the answer; sleep 3602 & wait", attempt_timeout_s=0.5)
    record = outcome.record()
    assert outcome.codes() == ["error run agent agent_timeout"]
    assert (record["final_answer"], record["metrics"]) == ("the answer", {"correct": 1})
    assert record["usage"]["phases_s"]["run"] < 30
    assert until(lambda: not processes("sleep 3602"))


def test_reading_past_the_question_sees_its_end(tmp_path):
    outcome = commanded(tmp_path, "cat; cat; cat < /dev/stdin; echo", attempt_timeout_s=60)
    assert outcome.record()["final_answer"] == "the question"


def test_bytes_that_are_no_text_are_an_answer_all_the_same(tmp_path):
    outcome = commanded(tmp_path, r"printf 'fo\200\377o'")
    assert outcome.record()["final_answer"] == "fo��o"
    assert outcome.report.exit_code == 0


def test_a_character_that_comes_in_two_pieces_is_whole(tmp_path):
    outcome = commanded(tmp_path, r"printf '\342\202'; sleep 0.1; printf '\254'")
    assert outcome.record()["final_answer"] == "€"


@pytest.mark.slow
def test_endless_output_ends_at_the_limit_and_is_bounded(tmp_path):
    outcome = commanded(tmp_path, "yes", attempt_timeout_s=1)
    assert outcome.codes()[0] == "error run agent agent_timeout"
    record = outcome.record()
    assert ANSWER_LIMIT_BYTES <= len(record["final_answer"]) < ANSWER_LIMIT_BYTES + 1000
    assert record["meta"]["harness"]["telemetry"]["dropped_bytes"] > 0
    size = next(outcome.run_dir.glob("details/*/*/*/result.json")).stat().st_size
    assert size < 3 * ANSWER_LIMIT_BYTES


@pytest.mark.slow
def test_a_flood_keeps_head_tail_and_exit_code_in_bounded_memory(tmp_path):
    before_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    flood = "printf HEAD; head -c 300000000 /dev/zero | tr '\\0' x; printf TAIL; exit 3"
    outcome = commanded(tmp_path, flood, attempt_timeout_s=300)
    grown_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before_kib
    record = outcome.record()
    answer = record["final_answer"]
    assert answer.startswith("HEADxxx")
    assert answer.endswith("xxxTAIL")
    dropped = record["meta"]["harness"]["telemetry"]["dropped_bytes"]
    assert dropped == 300_000_008 - ANSWER_LIMIT_BYTES
    assert f"{dropped}" in answer.replace(",", "")
    assert outcome.codes()[0] == "warning run agent agent_exit"
    assert "code 3" in record["issues"][0]["message"]
    assert grown_kib < 60_000


def test_the_agent_sees_its_task_and_nothing_of_the_driver(tmp_path, monkeypatch):
    monkeypatch.setenv("DRIVER_SECRET_TOKEN", "do-not-tell")
    outcome = commanded(tmp_path, "env", attempt_timeout_s=30)
    lines = outcome.record()["final_answer"].splitlines()
    told = dict(line.split("=", 1) for line in lines if "=" in line)
    assert told["PROCTOR_TASK_ID"] == "t1"
    assert told["PROCTOR_ATTEMPT"] == "1"
    assert told["PROCTOR_DEADLINE_S"] == "30"
    assert "DRIVER_SECRET_TOKEN" not in told
    assert "do-not-tell" not in json.dumps(outcome.record())


def test_the_answer_file_may_be_hostile(tmp_path):
    for number, make in enumerate(
        ["mkfifo answer", "ln -s /etc/passwd answer", "mkdir answer", "true",
         "truncate -s 100M answer"]
    ):  # fmt: skip
        place = tmp_path / str(number)
        place.mkdir()
        data = place / "rows.jsonl"
        data.write_text('{"id": "t1", "input": "?", "target": "the answer"}\n')
        wanted = request(place, "table", "command", attempt_timeout_s=60)
        wanted["benchmark"] = {"id": "table", "data": str(data)}
        wanted["harness"] = {"id": "command", "command": make, "answer_file": "answer"}
        outcome = Outcome(asyncio.run(proctor.arun(wanted)))
        assert outcome.record()["final_answer"] is None, make
        assert outcome.report.metrics.primary_series.unavailable == 1
