"""`proctor launch` as people use it: files, refusals, two at once, and what lies on disk."""

import asyncio
import json
import socket
from pathlib import Path

import pytest
from tests.scenarios.launches.process import launch_file, rooms_request, write_yaml
from tests.scenarios.launches.stage import Stage, launch_spec
from tests.scenarios.runtime.plugins import Answers
from tests.scenarios.runtime.runs import request

import proctor
from proctor.cli.app import main


def table_launch(place, **changes):
    rows = place / "rows.jsonl"
    rows.write_text('{"id": "a", "input": "?", "target": "1"}\n', "utf-8")
    spec = {
        "name": "night",
        "defaults": {"benchmark": {"id": "table", "data": str(rows), "scorer": "exact"}},
        "requests": [{"name": "right", "harness": "oracle"}, {"name": "empty", "harness": "nop"}],
        "runtime": {"results_dir": str(place / "results")},
        **changes,
    }
    return write_yaml(place / "launch.yaml", spec)


def command(capsys, *arguments):
    """The exit code, the document and the text of a command in this process."""
    code = main([*arguments])
    out, err = capsys.readouterr()
    return code, json.loads(out) if "--json" in arguments else out, err


def test_a_launch_file_runs(tmp_path, capsys):
    code, document, err = command(capsys, "launch", table_launch(tmp_path), "--json")
    assert (code, document["status"]) == (0, "completed")
    assert [run["name"] for run in document["runs"]] == ["right", "empty"]
    assert [run["primary"]["value"] for run in document["runs"]] == [1.0, 0.0]
    assert "right: 1 task × 1 attempt" in err
    [path] = (tmp_path / "results" / "launch" / "night").glob("*.json")
    stored = json.loads(path.read_text("utf-8"))
    assert stored["schema_version"] == "proctor.launch.v1"
    assert {entry["status"] for entry in stored["requests"].values()} == {"completed"}
    for run in document["runs"]:
        place = path.parent / stored["requests"][run["name"]]["run_dir"]
        assert place == Path(run["run_dir"])
        assert place.name == path.name.removesuffix(".json")  # all share the run id
    names = sorted(entry.name for entry in path.parent.iterdir())
    assert names == [".owners", path.name, "empty", "right"]
    owner = json.loads((path.parent / ".owners" / place.name / "owner.json").read_text("utf-8"))
    assert owner["released_at"] is not None

    code, again, _ = command(capsys, "resume", str(path), "--json")
    assert (code, [run["counts"]["reused_attempts"] for run in again["runs"]]) == (0, [1, 1])


def test_only_and_dry_run(tmp_path, capsys):
    file = table_launch(tmp_path, matrix={"execution.attempts.k": [1, 2]})
    code, out, _ = command(capsys, "launch", file, "--dry-run")
    assert code == 0
    assert out.splitlines()[0] == "night: 4 requests, 8 tasks at once"
    assert "right-2  table · oracle · none in local, k=2 avg" in out
    code, plan, _ = command(capsys, "launch", file, "--dry-run", "--only", "empty-1", "--json")
    assert [r["name"] for r in plan["requests"]] == ["empty-1"]
    assert not (tmp_path / "results").exists()
    code, document, _ = command(capsys, "launch", file, "--only", "empty-1", "--json")
    assert [run["name"] for run in document["runs"]] == ["empty-1"]


def test_one_request_that_fails_leaves_exit_code_1(tmp_path, capsys):
    requests = [
        {"name": "right", "harness": "oracle"},
        {"name": "unknown", "harness": "oracel"},
        {"name": "nowhere", "harness": "oracle",
         "benchmark": {"id": "table", "data": "gone.jsonl"}},
    ]  # fmt: skip
    file = table_launch(tmp_path, requests=requests)
    code, document, _ = command(capsys, "launch", file, "--json")
    assert (code, document["status"]) == (1, "completed")
    right, unknown, nowhere = document["runs"]
    assert (right["status"], unknown["status"], nowhere["status"]) == (
        "completed", "failed", "failed",
    )  # fmt: skip
    assert "did you mean oracle?" in unknown["error"]
    assert "gone.jsonl" in nowhere["error"]
    assert unknown["run_dir"] == nowhere["run_dir"] == ""
    [path] = (tmp_path / "results" / "launch" / "night").glob("*.json")
    assert json.loads(path.read_text("utf-8"))["requests"]["unknown"] == {
        "run_dir": None, "status": "failed", "error": unknown["error"],
    }  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"requests": [{"name": "a", "harness": "oracel"}]}, "no request of the launch can run"),
        ({"requests": [{"name": n, "harness": "nop"} for n in ("x y", "x_y")]}, "share one"),
        ({"task_concurrency": "many"}, "task_concurrency: must be a whole number"),
        ({"runtime": {"provider_limits": {"local": -1}}}, "provider_limits.local"),
        ({"matrix": {"selection.limit": list(range(1, 502))}}, "makes 1002 requests"),
        ({"runtime": {"executor": "mars"}}, "unknown executor 'mars'"),
    ],
)
def test_what_cannot_run_is_refused_before_anything_is_written(tmp_path, capsys, changes, message):
    file = table_launch(tmp_path, **changes)
    code, document, _ = command(capsys, "launch", file, "--json")
    assert (code, document["status"]) == (2, "refused")
    assert message in document["error"]["message"]
    assert not list(tmp_path.rglob("launch/*"))


def test_a_launch_file_that_is_none_is_refused_with_its_place(tmp_path, capsys):
    file = tmp_path / "launch.yaml"
    file.write_text("name: night\nrequests:\n  - {name: a\n", "utf-8")
    code, document, _ = command(capsys, "launch", str(file), "--json")
    assert code == 2
    assert "line " in document["error"]["message"]
    code, document, _ = command(capsys, "launch", str(tmp_path / "none.yaml"), "--json")
    assert (code, "no such file" in document["error"]["message"]) == (2, True)


def test_a_launch_file_can_be_validated(tmp_path, capsys):
    file = table_launch(tmp_path)
    code, document, _ = command(capsys, "validate", file, "--json")
    assert (code, document["kind"], document["tasks"]) == (0, "launch", 2)
    file = table_launch(tmp_path, requests=[{"name": "a", "harness": "oracel"}])
    code, document, _ = command(capsys, "validate", file, "--json")
    assert (code, document["problems"]) == (
        2, ["a: unknown harness 'oracel' (did you mean oracle?)"],
    )  # fmt: skip


def test_an_explicit_run_id_must_not_exist(tmp_path, capsys):
    runtime = {"results_dir": str(tmp_path / "results"), "run_id": "r1"}
    file = table_launch(tmp_path, runtime=runtime)
    assert command(capsys, "launch", file, "--json")[0] == 0
    code, document, _ = command(capsys, "launch", file, "--json")
    assert code == 2
    assert "launch 'night' has a run 'r1' already" in document["error"]["message"]
    assert "proctor resume" in document["error"]["hint"]
    # Also when only the directory of one of its requests is there.
    (tmp_path / "results" / "launch" / "night" / "r1.json").unlink()
    code, document, _ = command(capsys, "launch", file, "--json")
    assert code == 2
    assert "has a run 'r1' already" in document["error"]["message"]


def test_launches_in_the_same_second_get_run_ids_of_their_own(tmp_path):
    s = Stage(tmp_path)
    spec = launch_spec(tmp_path, [s.request("a", 1)], concurrency=1)
    ids = set()
    for _ in range(3):
        [report] = asyncio.run(proctor.alaunch(spec, clock=s.clock))
        ids.add(Path(report.run_dir).name)
    assert ids == {"20260101-000000", "20260101-000000-2", "20260101-000000-3"}


def test_a_single_run_of_a_benchmark_called_launch_stays_out_of_launches(tmp_path):
    class Launch(Answers):
        id = "launch"

    report = asyncio.run(proctor.arun(request(tmp_path, Launch)))
    assert "/results/_launch/" in report.run_dir


@pytest.mark.slow
def test_two_launches_at_once_on_one_results_root(tmp_path, start):
    """The same file, in the same second: both are whole, and apart."""
    made = {"name": "one", **rooms_request(tmp_path, harness={"fail_first": True}, max_retries=1)}
    made["execution"]["retry_backoff_s"] = 0.01
    file = launch_file(tmp_path, [made, {**made, "name": "two"}])
    processes = [start("launch", file, "--json") for _ in range(2)]
    documents = [process.end().document for process in processes]
    places = [run["run_dir"] for document in documents for run in document["runs"]]
    assert len(set(places)) == 4
    for document in documents:
        assert document["status"] == "completed"
        for run in document["runs"]:
            assert (run["counts"]["normal"], run["counts"]["attempts"]) == (3, 3)
            found = list(proctor.load(run["run_dir"]).attempts())
            assert [a.record["retry_count"] for a in found] == [1, 1, 1]
    assert len(list((tmp_path / "results" / "launch" / "night").glob("*.json"))) == 2
    assert list((tmp_path / "registry").iterdir()) == []


@pytest.mark.slow
def test_a_second_process_on_a_run_or_launch_is_refused(tmp_path, events, start):
    file = launch_file(tmp_path, [{"name": "one", **rooms_request(tmp_path)}])
    first = start("launch", file, "--json", events=events, hold="run")
    events.until("run")
    [run_dir] = (tmp_path / "results" / "launch" / "night" / "one").iterdir()
    [document] = (tmp_path / "results" / "launch" / "night").glob("*.json")
    before = (run_dir / "run_info.json").read_bytes(), document.read_bytes()
    for place in (run_dir, document):
        second = start("resume", str(place), "--json").end()
        assert second.code == 2
        error = second.document["error"]
        assert error["code"] == "run_is_live"
        assert f"process {first.process.pid} on {socket.gethostname()}" in error["message"]
    assert ((run_dir / "run_info.json").read_bytes(), document.read_bytes()) == before
    assert first.process.poll() is None


# --- a launch's document as something that may be wrong


def finished(tmp_path):
    [report] = proctor.launch(
        launch_spec(tmp_path, [Stage(tmp_path).request("a", 1)], concurrency=1)
    )
    [document] = (tmp_path / "results" / "launch" / "staged").glob("*.json")
    return report, document


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "cut off before anything ran"),
        ("{", "cannot read the launch"),
        ("[]", "not a proctor.launch.v1 document"),
        ('{"schema_version": "proctor.launch.v2"}', "not a proctor.launch.v1 document"),
        ('{"schema_version": "proctor.launch.v1", "launch": [1]}', "is damaged: launch"),
    ],
)
def test_a_document_that_cannot_be_read_is_refused(tmp_path, text, message):
    _, document = finished(tmp_path)
    document.write_text(text, "utf-8")
    with pytest.raises(proctor.RunDirectoryError, match=message):
        proctor.resume_launch(document)


@pytest.mark.parametrize("started", [None, 5, "", "yesterday"])
def test_a_document_with_a_wrong_start_is_refused(tmp_path, started):
    _, document = finished(tmp_path)
    damaged = json.dumps({**json.loads(document.read_text("utf-8")), "started_at": started})
    document.write_text(damaged, "utf-8")
    with pytest.raises(proctor.RunDirectoryError, match="is damaged: started_at"):
        proctor.resume_launch(document)
    assert document.read_text("utf-8") == damaged


def test_a_document_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(proctor.RunDirectoryError, match="no such launch"):
        proctor.resume_launch(tmp_path / "none.json")


def test_a_launch_moved_elsewhere_goes_on_there(tmp_path):
    report, document = finished(tmp_path)
    next(Path(report.run_dir).glob("details/normal/*/attempt-1/result.json")).unlink()
    moved = tmp_path / "moved"
    (tmp_path / "results").rename(moved)
    [again] = proctor.resume_launch(moved / "launch" / "staged" / document.name)
    assert again.counts.normal == 1
    assert again.run_dir.startswith(str(moved))
    assert not (tmp_path / "results").exists()


def test_a_request_without_its_directory_is_started_anew(tmp_path):
    """A kill may come before a request was prepared, or between its directory and first file."""
    s = Stage(tmp_path)
    requests = [s.request("a", 1), s.request("b", 1)]
    reports = proctor.launch(launch_spec(tmp_path, requests, concurrency=1))
    [document] = (tmp_path / "results" / "launch" / "staged").glob("*.json")
    for path in sorted(Path(reports[1].run_dir).rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    again = proctor.resume_launch(document)
    assert [r.counts.reused_attempts for r in again] == [1, 0]
    assert [r.counts.normal for r in again] == [1, 1]


def test_a_request_that_failed_in_preflight_may_run_when_it_is_mended(tmp_path, capsys):
    requests = [
        {"name": "right", "harness": "oracle"},
        {"name": "later", "harness": "oracle",
         "benchmark": {"id": "table", "data": str(tmp_path / "later.jsonl"), "scorer": "exact"}},
    ]  # fmt: skip
    file = table_launch(tmp_path, requests=requests)
    assert command(capsys, "launch", file, "--json")[0] == 1
    (tmp_path / "later.jsonl").write_text('{"id": "b", "input": "?", "target": "1"}\n', "utf-8")
    [document] = (tmp_path / "results" / "launch" / "night").glob("*.json")
    code, again, _ = command(capsys, "resume", str(document), "--json")
    assert (code, [run["counts"]["attempts"] for run in again["runs"]]) == (0, [1, 1])


def test_other_run_knobs_on_resume_are_checked(tmp_path):
    _, document = finished(tmp_path)
    for changes in ({"task_concurrency": 0}, {"timeout_s": -1}, {"colour": "red"}):
        with pytest.raises(proctor.OptionError):
            proctor.resume_launch(document, changes=changes)


def test_secrets_do_not_get_into_the_document_and_are_missed_on_resume(
    tmp_path, capsys, monkeypatch
):
    monkeypatch.setenv("NIGHT_TOKEN", "hunter2-hunter2")
    harness = {"id": "command", "command": "echo hunter2-hunter2"}
    file = table_launch(tmp_path, requests=[{"name": "a", "harness": harness}])
    code, document, _ = command(capsys, "launch", file, "--json")
    assert code == 0
    [run] = document["runs"]
    for path in (tmp_path / "results").rglob("*.json*"):
        assert "hunter2" not in path.read_text("utf-8"), path
    [launched] = (tmp_path / "results" / "launch" / "night").glob("*.json")
    for place in (launched, run["run_dir"]):
        code, refused, _ = command(capsys, "resume", str(place), "--json")
        assert code == 2
        assert "holds redacted values" in refused["error"]["message"]
        assert "harness.command" in refused["error"]["message"]
