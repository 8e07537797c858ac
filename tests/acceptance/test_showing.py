"""Looking without running: show, list, validate."""

import pytest
from tests.acceptance.command import answering, proctor, runs_in, table, write_rows


@pytest.mark.slow
def test_a_run_a_task_and_an_attempt_are_shown(tmp_path):
    rows = write_rows(
        tmp_path / "rows.jsonl",
        {"id": "good", "input": "1", "target": "1"},
        {"id": "bad", "input": "2", "target": "3"},
    )
    agent = "echo thinking >&2; cat"
    proctor(*table(rows, *answering(agent), "-k", "2", "--run-id", "x"), cwd=tmp_path)
    folder = "results/table/command/none/x"
    whole = proctor("show", folder, cwd=tmp_path)
    assert "  normal   bad   0 0\n  normal   good  1 1\n" in whole.out
    one = proctor("show", folder, "--limit", "1", cwd=tmp_path)
    assert "… 1 more (--limit 2 shows all" in one.out
    none = proctor("show", folder, "--state", "fatal", cwd=tmp_path)
    assert "good" not in none.out
    task = proctor("show", folder, "--task", "bad", cwd=tmp_path)
    assert task.out.startswith("task bad: normal\n")
    assert task.out.count("\nattempt ") == 2
    assert "thinking" not in task.out
    attempt = proctor("show", folder, "--task", "bad", "--attempt", "2", cwd=tmp_path)
    for line in ("  ground truth: 3", "  correct = 0", "  answer: 2", "  harness stderr: thinking"):
        assert line in attempt.out.splitlines()
    document = proctor("show", folder, "--task", "bad", "--json", cwd=tmp_path).document
    assert [record["attempt"] for record in document["attempts"]] == [1, 2]
    summary = proctor("show", folder, "--json", cwd=tmp_path).document
    assert summary["status"] == "completed"
    assert summary["summary"]["counts"]["tasks"] == 2


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("benchmarks", {"table", "harbor", "humaneval", "gsm8k"}),
        ("harnesses", {"oracle", "nop", "command", "python"}),
        ("environments", {"local"}),
        ("models", {"openai", "scripted"}),
        ("strategies", {"avg", "pass"}),
        ("reducers", {"avg", "pass_at", "pass_hat", "solved"}),
        ("analyzers", set()),
        ("judges", set()),
    ],
)
def test_components_are_listed(kind, expected, tmp_path):
    document = proctor("list", kind, "--json", cwd=tmp_path).document
    assert document["kind"] == kind
    found = {c["id"]: c["status"] for c in document["components"]}
    assert expected <= set(found)
    assert {found[name] for name in expected} <= {"available"}
    assert all(c["summary"] for c in document["components"] if c["status"] == "available")


def test_requests_are_validated_as_run_would_see_them(rows, tmp_path):
    (tmp_path / "good.yaml").write_text(
        "version: 1\nbenchmark: {id: table, data: rows.jsonl}\nharness: nop\n"
    )
    done = proctor("validate", "good.yaml", "--json", cwd=tmp_path)
    assert (done.code, done.document["valid"], done.document["tasks"]) == (0, True, 3)
    (tmp_path / "bad.yaml").write_text("benchmark: {id: table, data: gone.jsonl}\nharness: nop\n")
    done = proctor("validate", "bad.yaml", "--json", cwd=tmp_path)
    document = done.document
    assert done.code == 2
    assert (document["status"], document["runs"], document["valid"]) == ("refused", [], False)
    assert "gone.jsonl" in document["problems"][0]
    assert runs_in(tmp_path) == []


def test_task_folders_are_validated(tmp_path):
    good = tmp_path / "tasks" / "good"
    (good / "tests").mkdir(parents=True)
    (good / "environment").mkdir()
    (good / "instruction.md").write_text("do it\n")
    (good / "task.toml").write_text('version = "1.0"\n')
    (good / "tests" / "test.sh").write_text("exit 0\n")
    (good / "environment" / "Dockerfile").write_text("FROM debian\n")
    bad = tmp_path / "tasks" / "bad"
    bad.mkdir()
    (bad / "task.toml").write_text("version = \n")
    done = proctor("validate", "tasks", cwd=tmp_path)
    assert done.code == 2
    assert "bad: " in done.err
    assert "task.toml" in done.err
    (bad / "task.toml").unlink()
    bad.rmdir()
    assert proctor("validate", "tasks", cwd=tmp_path).code == 0
