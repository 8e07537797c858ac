"""The commands in the documents print what the documents say.

Blocks of commands (```sh) run one after the other in one folder. Where a block of output (```text)
follows, the standard output must be that text. Times may differ; a line `…` stands for any number
of lines. Blocks that use the scripts or the virtual environment of the checkout are left out.
With UPDATE_DOCUMENTS=1 the outputs that differ are written into the documents instead.
"""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BODY = r"((?:(?!```).*\n)*)```\n"
BLOCK = re.compile(rf"^```sh\n{BODY}(?:\n*```text\n{BODY})?", re.M)
LEFT_OUT = ("./scripts/", "source .venv")
DOCUMENTS = ("README.md", "docs/quickstart.md", "docs/commands.md", "docs/launches.md")


def plain(text: str) -> str:
    """`text` without what differs from run to run."""
    text = re.sub(r"\b\d+\.\d+ s\b", "T s", text)
    text = re.sub(r"duration_s: [\d.]+", "duration_s: T", text)
    text = re.sub(r'"wall_s": [\d.]+', '"wall_s": T', text)
    text = re.sub(r"\b\d{8}-\d{6}\b", "RUN", text)
    return "\n".join(line.rstrip() for line in text.strip().splitlines())


def agrees(written: str, printed: str) -> bool:
    parts = [re.escape(part) for part in re.split(r"^…$", plain(written), flags=re.M)]
    return re.fullmatch("(?s:.*)".join(parts), plain(printed)) is not None


def printed_by(commands: str, folder: Path) -> str:
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", commands],
        cwd=folder, env={**os.environ, "PATH": path, "COLUMNS": "100"},
        capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout.rstrip() + "\n"


@pytest.mark.slow
@pytest.mark.parametrize("document", DOCUMENTS)
def test_documented_commands_print_what_is_written(document, tmp_path):
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    text = (ROOT / document).read_text("utf-8")
    blocks = [b for b in BLOCK.finditer(text) if not any(word in b[1] for word in LEFT_OUT)]
    assert sum(bool(b[2]) for b in blocks) >= 2
    wrong = []
    for block in blocks:
        printed = printed_by(block[1], tmp_path)
        if block[2] and not agrees(block[2], printed):
            wrong.append((block, printed))
    if os.environ.get("UPDATE_DOCUMENTS") == "1":
        for block, printed in reversed(wrong):
            text = text[: block.start(2)] + printed + text[block.end(2) :]
        (ROOT / document).write_text(text, "utf-8")
    elif wrong:
        block, printed = wrong[0]
        assert plain(printed) == plain(block[2])  # shows the difference


def test_the_documented_keys_of_a_record_are_the_real_ones(tmp_path):
    text = (ROOT / "docs" / "results.md").read_text("utf-8")
    section = text[text.index("## The attempt record") : text.index("## Metrics")]
    cells = [row.split("|")[1] for row in section.splitlines() if row.startswith("| `")]
    documented = {key for cell in cells for key in re.findall(r"`([a-z_.]+)`", cell)}
    data = str(ROOT / "examples" / "sums.jsonl")
    words = ["run", "--benchmark", "table", "--data", data, "--harness", "nop", "--limit", "1"]
    columns = ["-p", "benchmark.columns.input=question", "-p", "benchmark.columns.target=answer"]
    done = subprocess.run(
        [sys.executable, "-m", "proctor", *words, *columns, "--results", str(tmp_path), "--json"],
        capture_output=True, text=True, check=True, timeout=120,
    )  # fmt: skip
    (entry,) = json.loads(done.stdout)["runs"]
    (path,) = Path(entry["run_dir"]).glob("details/*/*/attempt-1/result.json")
    record = json.loads(path.read_text("utf-8"))
    real = set(record) - {"meta"} | {f"meta.{key}" for key in record["meta"]}
    assert documented == real


def test_an_ellipsis_stands_for_any_lines_and_nothing_else_does():
    assert agrees("a\n…\nc 1.5 s", "a\nb\nb\nc 2.0 s")
    assert agrees("run 20260101-101010", "run 20260202-202020\n")
    assert not agrees("a\n…\nc", "b\nc")
    assert not agrees("a", "a\nb")
