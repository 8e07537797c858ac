"""B22, B53: hostile ids and texts, odd consoles, odd paths."""

import json
import os
import unicodedata
from pathlib import Path

import pytest
from tests.acceptance.command import answering, files_in, proctor, runs_in, table, write_rows

ASCII = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONIOENCODING": None, "LANG": None}
ODD_IDS = [
    "../evil", "/abs", "a/b", "a_b", "Task", "task", "\u00e9", "e\u0301", "x" * 400, "CON",
    "end.", "任务-1",
]  # fmt: skip
NOT_PORTABLE = set(':*?"<>|\\')


def test_ids_are_data(tmp_path):
    """Twelve ids that name files badly get twelve directories inside the run, and come back."""
    path = write_rows(
        tmp_path / "rows.jsonl", *({"id": i, "input": i, "target": i} for i in ODD_IDS)
    )
    (tmp_path / "model.yaml").write_text("version: 1\ndefault: hello\n")
    (tmp_path / "ask.py").write_text(
        "async def agent(task, session, model):\n"
        "    await model.complete([{'role': 'user', 'content': task.input}])\n"
        "    return task.input\n"
    )
    os.symlink("model.yaml", tmp_path / "org:model v1.yaml")
    words = table(path, "--harness", "python", "-p", "harness.callable=ask.py:agent",
                  "--model", "scripted:org:model v1.yaml", "--json")  # fmt: skip
    done = proctor(*words, cwd=tmp_path)
    assert done.code == 0, done.err
    (run,) = done.document["runs"]
    assert (run["counts"]["tasks"], run["primary"]["value"]) == (12, 1.0)
    before = {"rows.jsonl", "model.yaml", "ask.py", "org:model v1.yaml", "results"}
    assert {p.name for p in tmp_path.iterdir()} - {"__pycache__"} == before
    folder = Path(run["run_dir"])
    tasks = list(folder.glob("details/normal/*"))
    folded = {unicodedata.normalize("NFKD", t.name).casefold() for t in tasks}
    assert len(folded) == 12
    stored = {json.loads((t / "task.json").read_text("utf-8"))["task_id"] for t in tasks}
    assert stored == set(ODD_IDS)
    for name in files_in(tmp_path / "results"):
        for part in Path(name).parts:
            assert not NOT_PORTABLE & set(part)
            assert not part.endswith((".", " "))
            assert len(part.encode()) <= 255
    for task_id in ("../evil", "é", "x" * 400):
        shown = proctor("show", run["run_dir"], "--task", task_id, "--json", cwd=tmp_path)
        assert shown.document["task"]["task_id"] == task_id


@pytest.mark.parametrize(
    ("bad", "problem"), [("", "must not be empty"), ("nul\0byte", "must not contain NUL")]
)
def test_the_ids_that_are_none_are_refused_with_their_line(bad, problem, tmp_path):
    rows = [{"id": "ok", "input": "x", "target": "x"}, {"id": bad, "input": "x", "target": "x"}]
    path = write_rows(tmp_path / "rows.jsonl", *rows)
    done = proctor(*table(path, "--harness", "nop"), cwd=tmp_path)
    assert done.code == 2
    assert "line 2: an id " in done.err
    assert problem in done.err
    assert runs_in(tmp_path) == []


@pytest.mark.slow
def test_a_console_that_knows_only_ascii_changes_nothing_but_what_is_printed(tmp_path):
    odd = "Wer ist Stéfan? ✓"
    path = write_rows(
        tmp_path / "dätei.jsonl",
        {"id": odd, "input": "ä", "target": "ä ✓ Wer ist Stéfan? ✓"},
        {"id": "other", "input": "x", "target": "y"},
    )
    results = "Ergebnisse für Stéfan"
    agent = "read x; echo $x ✓ $PROCTOR_TASK_ID > 'ü ✓.txt'; cat 'ü ✓.txt'"
    words = table(
        path, *answering(agent), "--results", results, "--tasks", "Wer ist Stéfan*",
        "--run-id", "18-11-14",
    )  # fmt: skip
    done = proctor(*words, cwd=tmp_path, **ASCII)
    assert done.code == 0, done.err
    assert done.out.isascii()
    assert done.err.isascii()
    assert "table ? command ? none: completed" in done.out
    assert "correct avg@1          1.0000" in done.out
    (run,) = runs_in(tmp_path / results)
    (record,) = run.glob("details/*/*/attempt-1/result.json")
    data = json.loads(record.read_bytes().decode("utf-8"))
    assert data["task_id"] == odd
    assert data["final_answer"] == f"ä ✓ {odd}"
    for content in files_in(run).values():
        content.decode("utf-8")
    shown = proctor("show", str(run), "--task", odd, cwd=tmp_path, **ASCII)
    assert shown.code == 0
    assert "task Wer ist St?fan? ?: normal" in shown.out
    again = proctor("show", str(run), "--task", odd, cwd=tmp_path)
    assert f"  answer: ä ✓ {odd}\n" in again.out
    resumed = proctor("resume", str(run), "--json", cwd=tmp_path, **ASCII)
    assert (resumed.code, resumed.document["runs"][0]["counts"]["reused_attempts"]) == (0, 1)


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "cp437", "utf-16"])
def test_the_encoding_of_the_console_never_fails_a_command(encoding, rows, tmp_path):
    """Even the document stays readable: it is ASCII."""
    words = table(rows, "--harness", "nop")
    done = proctor(*words, "--json", cwd=tmp_path, PYTHONIOENCODING=encoding)
    assert done.code == 0
    assert done.document["runs"][0]["name"] == "table · nop · none"
    assert proctor(*words, cwd=tmp_path, PYTHONIOENCODING=encoding).code == 0


def test_what_an_agent_says_is_shown_and_not_obeyed(tmp_path):
    path = write_rows(
        tmp_path / "rows.jsonl",
        {"id": "a\nfatal  forged  0", "input": "\x1b[2J", "target": "x"},
        {"id": "rtl\u202e\x07", "input": "x", "target": "x"},
    )
    agent = r"printf '\033]0;owned\007\033[31m\r\nattempt 9: completed\n\342\200\256\377'; exit 3"
    done = proctor(*table(path, *answering(agent), "--run-id", "x"), cwd=tmp_path)
    folder = "results/table/command/none/x"
    shown = proctor("show", folder, cwd=tmp_path)
    one = proctor("show", folder, "--task", "a\nfatal  forged  0", cwd=tmp_path)
    for text in (done.out, done.err, shown.out, one.out):
        assert not {ch for ch in text if unicodedata.category(ch) in ("Cc", "Cf")} - {"\n"}
        assert not any(line.startswith(("  fatal", "fatal")) for line in text.splitlines())
    assert "  normal   a\\nfatal  forged  0  0\n" in shown.out
    assert "    | \\x1b]0;owned\\x07\\x1b[31m\n    | attempt 9: completed\n" in one.out
    assert [n for n, line in enumerate(one.out.splitlines()) if line.startswith("attempt")] == [3]


def test_records_keep_every_digit_and_every_line(tmp_path):
    """B26: a line ends only at a newline byte, an integer has all its digits."""
    text = "one\u2028two\u0085three\x0cfour"
    row = {"id": "a", "input": text, "target": text, "metadata": {"seed": 9007199254740993}}
    (tmp_path / "rows.jsonl").write_text(json.dumps(row, ensure_ascii=False) + "\n", "utf-8")
    words = table(tmp_path / "rows.jsonl", *answering("cat"), "--run-id", "x", "--json")
    (run,) = proctor(*words, cwd=tmp_path).document["runs"]
    assert (run["counts"]["tasks"], run["primary"]["value"]) == (1, 1.0)
    log = Path(run["run_dir"], "logs", "run.jsonl").read_bytes().split(b"\n")
    events = [json.loads(line)["event"] for line in log if line]
    assert events == ["run.started", "attempt.finished", "run.finished"]
    shown = proctor("show", run["run_dir"], "--task", "a", "--json", cwd=tmp_path).document
    assert shown["attempts"][0]["final_answer"] == text
    assert shown["task"]["ground_truth"] == text
