"""A damaged run directory is refused or shown as far as it goes; it is never a crash."""

import json
import shutil

import pytest

DAMAGES = {
    "emptied": lambda data: b"",
    "torn": lambda data: data[: len(data) // 2],
    "a list": lambda data: b"[]",
    "an empty object": lambda data: b"{}",
    "null": lambda data: b"null",
    "bytes": lambda data: b"\xff\x00\xfe",
    "NaN": lambda data: data.replace(b"1", b"NaN", 1),
    "deep": lambda data: b"[" * 20_000,
}
FILES = [
    "run_info.json", "summary.json", "owner.json", "plans.jsonl", "logs/run.jsonl",
    "task.json", "attempt-1/result.json", "attempt-1/run.json",
]  # fmt: skip
COMMANDS = (
    ["show", "RUN"],
    ["show", "RUN", "--json"],
    ["show", "RUN", "--task", "a"],
    ["show", "RUN", "--task", "a", "--json"],
    ["resume", "RUN", "--json"],
)


@pytest.fixture
def run(proctor, folder):
    (folder / "rows.jsonl").write_text('{"id": "a", "input": "1", "target": "1"}\n')
    words = ["--benchmark", "table", "--data", "rows.jsonl", "--harness", "nop"]
    assert proctor("run", *words, "--run-id", "x").code == 0
    return folder / "results/table/nop/none/x"


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("damage", DAMAGES)
def test_no_damage_of_a_file_is_a_crash(name, damage, run, proctor, folder):
    found = [run / name] if (run / name).exists() else list(run.glob(f"details/*/*/{name}"))
    for path in found:
        path.write_bytes(DAMAGES[damage](path.read_bytes()))
    for command in COMMANDS:
        copy = folder / "copy"
        shutil.copytree(run, copy)
        answer = proctor(*[str(copy) if word == "RUN" else word for word in command])
        shutil.rmtree(copy)
        assert answer.code in (0, 1, 2), f"{command}: {answer.err}"
        assert "Traceback" not in answer.err
        if answer.code == 2:
            assert answer.err.startswith("proctor: ")
        if command[-1] == "--json":
            json.loads(answer.out)


@pytest.mark.parametrize("name", FILES)
def test_a_missing_file_is_no_crash(name, run, proctor):
    for path in [run / name, *run.glob(f"details/*/*/{name}")]:
        path.unlink(missing_ok=True)
    for command in COMMANDS:
        answer = proctor(*[str(run) if word == "RUN" else word for word in command])
        assert answer.code in (0, 1, 2), f"{command}: {answer.err}"


def test_a_run_info_of_another_version_is_told(run, proctor):
    info = json.loads((run / "run_info.json").read_text())
    (run / "run_info.json").write_text(
        json.dumps({**info, "schema_version": "proctor.run_info.v9"})
    )
    answer = proctor("show", str(run), "--json")
    assert answer.code == 2
    assert "proctor.run_info.v9" in answer.document["error"]["message"]
    assert "newer" in answer.document["error"]["hint"]
