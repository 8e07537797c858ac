"""What a launch says: before it, while it runs, at its end; and what those say who go on."""

import json
from pathlib import Path

import pytest
from tests.acceptance.command import proctor, runs_in
from tests.acceptance.terminal import Terminal
from tests.acceptance.test_terminal import screen

MISSPELT = {"name": "misspelt", "harness": "comand"}
BROKEN = {"name": "broken", "benchmark": {"id": "table", "data": "broken.jsonl"}}
FINE = {"name": "fine"}


@pytest.fixture
def launch(rows, tmp_path):
    """Writes a launch file of some requests over three tasks."""
    (tmp_path / "broken.jsonl").write_text('{"id": "a"\n')

    def write(*requests: dict, **more) -> str:
        document = {
            "name": "words", "runtime": {"run_id": "monday"},
            "defaults": {"benchmark": {"id": "table", "data": str(rows)}, "harness": "oracle"},
            "requests": requests, **more,
        }  # fmt: skip
        (tmp_path / "launch.yaml").write_text(json.dumps(document))
        return "launch.yaml"

    return write


@pytest.mark.parametrize(
    ("requests", "code", "last"),
    [
        ([FINE], 0, "  fine  table · oracle · none in local, k=1 avg"),
        ([FINE, MISSPELT], 1, "1 of 2 requests cannot run"),
        ([MISSPELT], 2, "1 of 1 request cannot run"),
    ],
)
def test_a_dry_run_tells_what_cannot_run_and_runs_nothing(requests, code, last, launch, tmp_path):
    file = launch(*requests)
    done = proctor("launch", file, "--dry-run", cwd=tmp_path)
    assert (done.code, done.out.splitlines()[-1]) == (code, last)
    assert ("    ! unknown harness 'comand'\n" in done.out) == (MISSPELT in requests)
    told = proctor("launch", file, "--dry-run", "--json", cwd=tmp_path).document
    assert list(told.get("problems", [])) == ["misspelt"] * (code > 0)
    assert runs_in(tmp_path) == []


def test_the_end_of_a_launch_sums_it_up_and_says_how_to_go_on(launch, tmp_path):
    done = proctor("launch", launch(BROKEN, FINE, MISSPELT), cwd=tmp_path)
    assert done.code == 1
    assert done.out.splitlines()[-3:] == [
        "3 requests: 2 failed, 1 completed",
        "  failed: broken, misspelt",
        "  go on with all of them:  proctor resume results/launch/words/monday.json",
    ]
    assert "misspelt: cannot run: unknown harness 'comand'\n" in done.err
    assert "broken: cannot run: 1 problem in broken.jsonl; nothing was run: broken" in done.err
    assert "\n    | broken.jsonl, line 1: " in done.out  # a line of its own
    (tmp_path / "broken.jsonl").write_text('{"id": "a", "input": "q", "target": "q"}\n')
    again = proctor("resume", "results/launch/words/monday.json", cwd=tmp_path)
    assert again.out.splitlines()[-3] == "3 requests: 2 completed, 1 failed"


def test_one_request_needs_no_summary(launch, tmp_path):
    done = proctor("launch", launch(FINE), cwd=tmp_path)
    assert done.code == 0
    assert "1 request" not in done.out


@pytest.mark.parametrize("mode", ["auto", "plain"])
def test_a_request_that_cannot_run_is_heard_of_at_once(mode, launch, bell, tmp_path):
    """Not when all others are over; and they are shown all the same."""
    gate = tmp_path / "gate"
    agent = f"echo > {bell.path}; until [ -e {gate} ]; do sleep 0.05; done; cat"
    waits = {"name": "waits", "harness": {"id": "command", "command": agent}}
    terminal = Terminal(
        "launch", launch(MISSPELT, waits), "--progress", mode, cwd=tmp_path, size=(24, 200)
    )
    terminal.wait_for(b"misspelt: cannot run: unknown harness 'comand'")
    bell.wait()
    terminal.wait_for(b"3 running" if mode == "auto" else b"waits: 3 tasks")
    gate.touch()
    assert terminal.end() == 1
    assert "2 requests: 1 failed, 1 completed" in screen(terminal.seen)


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ("results/launch/words", "results/launch/words/monday.json"),
        ("results/launch/words/fine", "results/launch/words/fine/monday"),
        ("results", "its run_info.json was removed"),
    ],
)
def test_a_folder_above_a_run_is_refused_with_what_is_in_it(given, named, launch, tmp_path):
    assert proctor("launch", launch(FINE), cwd=tmp_path).code == 0
    done = proctor("resume", given, cwd=tmp_path)
    assert done.code == 2
    assert done.err.rstrip().endswith(named)


def test_a_failed_request_is_shown_with_every_line_of_its_error(launch, tmp_path):
    proctor("launch", launch(BROKEN, FINE), cwd=tmp_path)
    shown = proctor("show", "results/launch/words/broken/monday", cwd=tmp_path).out.splitlines()
    assert shown[:2] == [
        "broken: failed",
        "  error: 1 problem in broken.jsonl; nothing was run:",
    ]
    assert shown[2].startswith("    | broken.jsonl, line 1: ")
    assert shown[3:] == ["  go on: proctor resume results/launch/words/broken/monday"]


def test_reuse_says_so_when_there_is_nothing(rows, tmp_path):
    words = ("run", "--benchmark", "table", "--data", str(rows), "--harness", "nop", "--reuse")
    first = proctor(*words, cwd=tmp_path)
    assert "  earlier work: none beside this run to reuse; everything runs\n" in first.err
    second = proctor(*words, cwd=tmp_path)
    assert "3 attempts kept" in second.err
    assert "none beside this run" not in second.err


def test_rescore_counts_what_is_left_out_only_where_there_is_some(launch, tmp_path):
    proctor("launch", launch(FINE), cwd=tmp_path)
    done = proctor("rescore", str(Path("results/launch/words/fine/monday")), cwd=tmp_path)
    assert done.code == 0
    assert "3 graded again, 0 left out\n" in done.err


def test_a_file_given_to_the_wrong_command_is_sent_to_the_right_one(launch, tmp_path):
    done = proctor("run", launch(FINE), cwd=tmp_path)
    assert (done.code, done.err.splitlines()) == (
        2, ["proctor: launch.yaml is a launch file", "  hint: proctor launch launch.yaml"],
    )  # fmt: skip
    (tmp_path / "request.yaml").write_text("benchmark: table\n")
    done = proctor("launch", "request.yaml", cwd=tmp_path)
    assert (done.code, done.err.splitlines()[-1]) == (2, "  hint: proctor run request.yaml")


def test_what_is_said_of_a_damaged_record_helps(launch, tmp_path):
    proctor("launch", launch(FINE), cwd=tmp_path)
    run = tmp_path / "results/launch/words/fine/monday"
    attempt = next(run.glob("details/normal/t2--*/attempt-1"))
    (attempt / "result.json").write_text("{")
    refused = proctor("resume", str(run), cwd=tmp_path)
    assert refused.code == 2
    assert "move the attempt's folder away: `proctor resume` runs it again" in refused.err
    attempt.rename(tmp_path / "away")
    done = proctor("resume", str(run), "--json", cwd=tmp_path)
    assert done.code == 0, done.err
    counts = done.document["runs"][0]["counts"]
    assert (counts["normal"], counts["reused_attempts"]) == (3, 2)
