"""Settings end to end: every layer, values as typed, components by name, module and file."""

import json
from pathlib import Path

import pytest
from tests.acceptance.command import answering, proctor, runs_in, table


def stored_request(folder: Path) -> dict:
    (run,) = runs_in(folder)
    return json.loads((run / "run_info.json").read_text("utf-8"))["request"]


def answers(folder: Path) -> list[str]:
    (run,) = runs_in(folder)
    records = (json.loads(p.read_text("utf-8")) for p in run.glob("details/*/*/*/result.json"))
    return [record["final_answer"] for record in records]


@pytest.mark.slow
def test_each_layer_wins_over_the_next(rows, tmp_path):
    (tmp_path / "proctor.toml").write_text(
        'name = "toml"\n[runtime]\nresults_dir = "toml"\ntask_concurrency = 2\n'
        "[execution]\nmax_retries = 1\n[selection]\nlimit = 1\n[execution.attempts]\nk = 7\n"
    )
    (tmp_path / ".env").write_text("PROCTOR_MAX_RETRIES=2\nPROCTOR_LIMIT=2\nPROCTOR_K=6\n")
    (tmp_path / "r.yaml").write_text(
        "benchmark: {id: table, data: rows.jsonl}\nharness: nop\n"
        "selection: {limit: 3}\nexecution: {attempts: {k: 5}}\n"
    )
    words = ["run", "r.yaml", "-k", "2"]
    done = proctor(*words, cwd=tmp_path, PROCTOR_RESULTS="out", PROCTOR_MAX_RETRIES="3")
    assert done.code == 0, done.err
    request = stored_request(tmp_path)
    assert request["name"] == "toml"
    assert request["runtime"]["task_concurrency"] == 2  # proctor.toml
    assert request["runtime"]["results_dir"] == "out"  # a variable
    assert request["execution"]["max_retries"] == 3  # a variable before .env
    assert request["selection"]["limit"] == 3  # the file
    assert request["execution"]["attempts"]["k"] == 2  # a flag
    assert runs_in(tmp_path / "out") == runs_in(tmp_path)


@pytest.mark.parametrize(
    "text", ["no", "1.10", "echo a: b", "*.py", "true", "null", "- x", "é ✓", "#7", "'\"'"]
)
def test_an_agent_is_told_what_was_typed(text, tmp_path):
    """Through the file system and a shell: the command is what stands after the first `=`."""
    (tmp_path / "rows.jsonl").write_text('{"id": "a", "input": "1", "target": "1"}\n')
    line = f"printf %s '{text}'" if "'" not in text else "printf %s \\'\\\"\\'"
    done = proctor(*table(Path("rows.jsonl"), *answering(line)), cwd=tmp_path)
    assert done.code == 0, done.err
    assert answers(tmp_path) == [text]
    assert stored_request(tmp_path)["harness"]["command"] == line


def test_only_the_documented_tokens_are_replaced(tmp_path):
    (tmp_path / "rows.jsonl").write_text('{"id": "a", "input": "1", "target": "1"}\n')
    line = "printf %s '{workspace_} {x} ${HOME:+} {}'; [ {workspace} = \"$PWD\" ] && echo ' same'"
    proctor(*table(Path("rows.jsonl"), *answering(line)), cwd=tmp_path)
    assert answers(tmp_path) == ["{workspace_} {x} ${HOME:+} {} same"]


HARNESS = """
from proctor import Harness, HarnessSession, RunResult
class Echo(Harness):
    id = "echo"
    async def start(self, session, task, context):
        return Answer(task.input)
class Answer(HarnessSession):
    def __init__(self, text):
        self.text = text
    async def run(self):
        return RunResult(final_answer=self.text)
"""


@pytest.mark.parametrize("reference", ["echoing:Echo", "echoing.py:Echo", "./echoing.py:Echo"])
def test_components_by_module_and_by_file(reference, rows, tmp_path):
    (tmp_path / "echoing.py").write_text(HARNESS)
    done = proctor(*table(rows, "--harness", reference, "--json"), cwd=tmp_path)
    assert done.code == 0, done.err
    (run,) = done.document["runs"]
    assert run["primary"]["value"] == 1.0
    assert Path(run["run_dir"]).relative_to(tmp_path).parts[:3] == ("results", "table", "echo")


def test_rows_with_other_names_in_two_minutes(tmp_path):
    """A stranger's file: other columns, a number as target, and no ids."""
    (tmp_path / "sums.jsonl").write_text(
        '{"question": "1+1", "answer": "#### 2"}\n\n{"question": "2+2", "answer": 5}\n'
    )
    words = ["run", "--benchmark", "table", "--data", ".", "--harness", "command"]
    options = ["columns.input=question", "columns.target=answer", "scorer=numeric"]
    for option in options:
        words += ["-p", f"benchmark.{option}"]
    done = proctor(*words, "-p", "harness.command=read s; echo $((s))", "--json", cwd=tmp_path)
    (run,) = done.document["runs"]
    assert run["primary"]["value"] == 0.5
    shown = proctor("show", run["run_dir"], cwd=tmp_path).out
    assert "  normal   1  1\n  normal   3  0\n" in shown
