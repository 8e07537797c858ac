"""A secret that a run knows stands in no file of the run directory, and in nothing printed."""

import json
from pathlib import Path

import pytest
from tests.acceptance.command import answering, files_in, proctor, runs_in, table

SECRET = "sk-4f9d2c7b-not-a-real-key"


def everything(folder: Path) -> bytes:
    """All names and contents of the run directories."""
    assert runs_in(folder)
    return b"\n".join(n.encode() + b"\n" + c for n, c in files_in(folder / "results").items())


def leaking_agent(name: str) -> str:
    """An agent that puts the secret everywhere it can: output, errors, files, its exit."""
    return f"echo {name}; echo {name} >&2; echo {name} > {name}.txt; exit 1"


@pytest.mark.parametrize("source", ["variable", ".env"])
def test_a_secret_of_the_environment(source, rows, tmp_path):
    variables = {}
    if source == ".env":
        (tmp_path / ".env").write_text(f"export MY_API_KEY='{SECRET}' # mine\n")
    else:
        variables["MY_API_KEY"] = SECRET
    (tmp_path / "model.yaml").write_text("version: 1\ndefault: hello\n")
    words = table(
        rows, *answering(leaking_agent(SECRET)), "--model", "scripted:model.yaml",
        "-p", "benchmark.scorer=includes", "-k", "2",
    )  # fmt: skip
    done = proctor(*words, cwd=tmp_path, **variables)
    assert done.code == 0, done.err
    kept = everything(tmp_path)
    assert b"[redacted]" in kept
    assert SECRET.encode() not in kept
    assert SECRET not in done.out + done.err
    (run,) = runs_in(tmp_path)
    shown = proctor("show", str(run), "--task", "t1", "--json", cwd=tmp_path)
    assert SECRET not in shown.out


CARELESS = """
from pydantic import BaseModel
from proctor import Harness, HarnessSession, RunResult
class Options(BaseModel):
    api_key: str
    note: str = ""
class Careless(Harness):
    id = "careless"
    Options = Options
    async def start(self, session, task, context):
        return Answer(self.options.api_key)
class Answer(HarnessSession):
    def __init__(self, key):
        self.key = key
    async def run(self):
        raise RuntimeError(f"the endpoint refused {self.key}")
"""


def test_a_secret_in_a_request_file(rows, tmp_path):
    """It works once, is nowhere in the evidence, and the run says what it lacks to go on."""
    (tmp_path / "careless.py").write_text(CARELESS)
    (tmp_path / "r.yaml").write_text(
        "benchmark: {id: table, data: rows.jsonl}\n"
        f"harness: {{id: 'careless.py:Careless', api_key: '{SECRET}'}}\n"
        "execution: {max_retries: 1, retry_backoff_s: 0.01}\n"
    )
    done = proctor("run", "r.yaml", cwd=tmp_path)
    assert done.code == 1
    assert "the endpoint refused [redacted]" in everything(tmp_path).decode()
    assert SECRET.encode() not in everything(tmp_path)
    assert SECRET not in done.out + done.err
    (run,) = runs_in(tmp_path)
    resumed = proctor("resume", str(run), "--json", cwd=tmp_path)
    assert resumed.code == 2
    assert "harness.api_key" in resumed.document["error"]["message"]


def test_a_secret_as_a_flag_is_refused(rows, tmp_path):
    (tmp_path / "careless.py").write_text(CARELESS)
    words = table(rows, "--harness", "careless.py:Careless", "-p", f"harness.api_key={SECRET}")
    done = proctor(*words, "--json", cwd=tmp_path)
    assert done.code == 2
    assert "a secret is never given as a flag" in done.document["error"]["message"]
    assert SECRET not in done.out + done.err
    assert runs_in(tmp_path) == []


def test_a_known_secret_inside_a_flag_is_redacted(rows, tmp_path):
    """`-p harness.command="agent --key $KEY"`: the shell has put the value in."""
    words = table(rows, *answering(f"echo --key {SECRET}"), "-p", f"harness.answer_file={SECRET}")
    done = proctor(*words, "--run-id", "x", cwd=tmp_path, AGENT_TOKEN=SECRET)
    assert SECRET.encode() not in everything(tmp_path)
    assert SECRET not in done.out + done.err
    (run,) = runs_in(tmp_path)
    request = json.loads((run / "run_info.json").read_text())["request"]
    assert request["harness"]["command"] == "echo --key [redacted]"
