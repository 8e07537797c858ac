"""Bad input, each as a process: one clear message, exit 2, and nothing run.

The table of all refusals is in tests/unit/cli/test_refusals.py; here are those that depend on files
and plug-ins.
"""

import resource
import subprocess

import pytest
from tests.acceptance.command import (
    LIMIT_S,
    answering,
    command,
    environment,
    proctor,
    runs_in,
    table,
    write_rows,
)

NOISE = (
    b'\xef\xbb\xbf{"id": "a", "input": "1", "target": "1"}\r\n\r\n   \r\n'
    b'{"id": "b", "input": "2", "target": "2"}\r\n'
)


def refused(tmp_path, *words: str, code: str, message: list[str]) -> str:
    """What the command says when it refuses; nothing has run."""
    done = proctor(*words, "--json", cwd=tmp_path)
    assert done.code == 2, done.err
    document = done.document
    assert list(document) == ["status", "error", "runs"]
    assert (document["status"], document["runs"]) == ("refused", [])
    assert list(document["error"]) == ["code", "message", "hint"]
    assert document["error"]["code"] == code
    text = document["error"]["message"]
    assert [part for part in message if part not in text] == [], text
    assert "Traceback" not in done.err
    assert runs_in(tmp_path) == []
    return text


def test_file_noise_is_no_fault(tmp_path):
    """B25: a mark at the start, CRLF, blank lines, no newline at the end."""
    (tmp_path / "rows.jsonl").write_bytes(NOISE.rstrip())
    (tmp_path / "rows.csv").write_bytes(b"\xef\xbb\xbfid,input,target\r\na,1,1\r\n\r\nb,2,2\r\n")
    for name in ("rows.jsonl", "rows.csv"):
        done = proctor(*table(tmp_path / name, *answering("cat"), "--json"), cwd=tmp_path)
        (run,) = done.document["runs"]
        assert (done.code, run["counts"]["tasks"], run["primary"]["value"]) == (0, 2, 1.0)


def test_bad_rows_are_told_together_by_physical_line(tmp_path):
    """B25, B26: blank lines count; NaN and numbers beyond measure are no JSON."""
    path = tmp_path / "rows.jsonl"
    path.write_bytes(
        NOISE + b'[]\n{"id":\n{"id": "a", "input": "x", "target": "y"}\n'
        b'{"id": "", "input": "x", "target": "y"}\n'
        b'{"id": "c", "input": "x", "target": NaN}\n'
        b'{"id": "d", "input": "x", "target": ' + b"9" * 5000 + b"}\n"
        b'{"id": "e\\u0000", "input": "x", "target": "y"}\n'
    )
    text = refused(
        tmp_path, *table(path, "--harness", "nop"), code="data",
        message=[
            "line 5: a row must be an object, found array",
            "line 6: invalid JSON",
            "line 7: the id 'a' is already on line 1",
            "line 8: an id must not be empty",
            "line 9: invalid JSON: NaN is not JSON",
            "line 10: ",
            "line 11: an id must not contain NUL",
        ],
    )  # fmt: skip
    assert text.startswith(f"7 problems in {path}")


def test_every_entry_point_says_the_same_about_a_file(tmp_path):
    (tmp_path / "rows.jsonl").write_bytes(b'{"id": "a"}\n[]\n')
    (tmp_path / "r.yaml").write_text("benchmark: {id: table, data: rows.jsonl}\nharness: nop\n")
    words = ["run", "--benchmark", "table", "--data", "rows.jsonl", "--harness", "nop"]
    said = refused(tmp_path, *words, code="data", message=["rows.jsonl, line 2"])
    assert refused(tmp_path, "run", "r.yaml", code="data", message=[]) == said
    checked = proctor("validate", "r.yaml", "--json", cwd=tmp_path).document
    assert checked["problems"][: len(said.split("\n")) - 1] == said.split("\n")[:-1]
    code = (
        "import proctor, sys\n"
        "try: proctor.run({'benchmark': {'id': 'table', 'data': 'rows.jsonl'}, 'harness': 'nop'})\n"
        "except proctor.DataError as error: sys.stdout.write(error.message)\n"
    )
    python = subprocess.run(
        [command()[0], "-c", code], cwd=tmp_path, env=environment(), capture_output=True,
        text=True, check=True, timeout=LIMIT_S,
    )  # fmt: skip
    assert python.stdout == said


BENCHMARK = """
from proctor import Benchmark, Evaluation, Harness, MetricContract, MetricSpec, TaskSpec
from proctor.evals.metrics.contract import Kind
class Bad(Benchmark):
    id = "bad"
    data_required = False
    evaluation_modes = ("none",)
    def load_tasks(self):
        return [TaskSpec("a", "input")]
    def metrics(self):
        return MetricContract((MetricSpec("right"),), "right")
    async def evaluate(self, prepared, result, session):
        return Evaluation(metrics={"right": 1})
"""

# name: (text of the class body that is changed, what it says)
PLUG_INS = {
    "load_tasks raises": ("    def load_tasks(self): return 1 / 0", "load_tasks failed: ZeroDiv"),
    "load_tasks gives no list": ("    def load_tasks(self): return 5", "load_tasks"),
    "load_tasks gives no tasks": ("    def load_tasks(self): return ['a']", "expected TaskSpec"),
    "load_tasks exits": ("    def load_tasks(self): raise SystemExit(0)", "load_tasks"),
    "no tasks": ("    def load_tasks(self): return []", "0 tasks selected"),
    "empty id": ("    def load_tasks(self): return [TaskSpec('', 'x')]", "must not be empty"),
    "id of a wrong type": ("    def load_tasks(self): return [TaskSpec(7, 'x')]", "must be text"),
    "double ids": (
        "    def load_tasks(self): return [TaskSpec('a', 'x'), TaskSpec('a', 'y')]",
        "task 2: duplicate id 'a' (first: task 1)",
    ),
    "select_tasks invents": (
        "    def select_tasks(self, tasks, selection): return [TaskSpec('z', 'x')]",
        "select_tasks must choose loaded tasks",
    ),
    "contract raises": ("    def metrics(self): return 1 / 0", "ZeroDivisionError"),
    "no contract": ("    def metrics(self): return None", "contract"),
    "no primary": (
        "    def metrics(self): return MetricContract((MetricSpec('x'),), 'y')",
        "the primary metric 'y' is not declared",
    ),
    "unknown reducer": (
        "    def metrics(self):\n"
        "        return MetricContract((MetricSpec('x', reducers=('median',)),), 'x')",
        "unknown reducer 'median'",
    ),
    "empty range": (
        "    def metrics(self):\n"
        "        return MetricContract((MetricSpec('x', Kind.SCALAR, 1, 0),), 'x')",
        "the range 1 to 0 is empty",
    ),
    "modes": ("    evaluation_modes = ('sometimes',)", "declares evaluation modes"),
    "no evaluate": ("    evaluate = Benchmark.evaluate", "does not define: evaluate"),
    "constructor raises": ("    def __init__(self, *a): raise OSError('no disk')", "no disk"),
    "no id": ("    id = None", "has no id"),
}


@pytest.mark.parametrize("name", PLUG_INS)
def test_a_benchmark_that_breaks_its_contract(name, tmp_path):
    text, message = PLUG_INS[name]
    (tmp_path / "bad.py").write_text(f"{BENCHMARK}\n{text}\n")
    done = proctor("run", "--benchmark", "bad.py:Bad", "--harness", "nop", "--json", cwd=tmp_path)
    assert done.code == 2, done.err
    assert message in done.document["error"]["message"]
    assert "Traceback" not in done.err
    assert runs_in(tmp_path) == []


@pytest.mark.parametrize(
    ("text", "code", "message"),
    [
        ("class X: pass", "broken_component", "has no id"),
        ("X = 5", "broken_component", "is not a class but int"),
        ("x = 5", "unknown_component", "has no X"),
        ("import gone", "broken_component", "No module named 'gone'"),
        ("raise SystemExit(0)", "broken_component", "SystemExit"),
        ("1 / 0", "broken_component", "ZeroDivisionError"),
        ("def x(:", "broken_component", "SyntaxError"),
        ("\0", "broken_component", "fails to import"),
    ],
)
def test_a_component_that_cannot_be_imported(text, code, message, rows, tmp_path):
    (tmp_path / "x.py").write_text(text)
    words = table(rows, "--harness", "x.py:X")
    refused(tmp_path, *words, code=code, message=[message])


def test_a_benchmark_is_no_harness(rows, tmp_path):
    (tmp_path / "bad.py").write_text(BENCHMARK)
    refused(tmp_path, *table(rows, "--harness", "bad.py:Bad"), code="broken_component",
            message=["is not a Harness"])  # fmt: skip
    (tmp_path / "h.py").write_text(
        "from proctor import Harness\nclass H(Harness):\n    id = 'h'\n"
        "    async def start(self, session, task, context): ...\n"
    )
    words = ["run", "--benchmark", "h.py:H", "--harness", "nop"]
    refused(tmp_path, *words, code="broken_component", message=["is not a Benchmark"])


def test_a_task_without_a_reference_and_the_oracle(tmp_path):
    path = write_rows(tmp_path / "rows.jsonl", {"id": "a", "input": "1", "target": "1"})
    words = ["-p", "benchmark.scorer=regex", "--harness", "oracle"]
    refused(tmp_path, *table(path, *words), code="usage", message=["needs a reference solution"])


def test_a_directory_that_is_full_is_refused_without_a_trace(rows, tmp_path):
    """The kernel's own refusal to write: a limit on the size of files."""

    def nothing_fits() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))

    done = subprocess.run(
        command(*table(rows, "--harness", "nop", "--json")), cwd=tmp_path,
        env=environment(PYTHONDONTWRITEBYTECODE="1"),
        capture_output=True, text=True, check=False, timeout=LIMIT_S, preexec_fn=nothing_fits,
    )  # fmt: skip
    assert done.returncode == 2, done.stderr
    assert "cannot write to the results directory" in done.stderr
    assert "File too large" in done.stderr
    left = [p for p in (tmp_path / "results").rglob("*") if p.is_file()]
    assert left == []


def test_an_unreadable_run_directory(rows, tmp_path):
    assert proctor(*table(rows, "--harness", "nop", "--run-id", "x"), cwd=tmp_path).code == 0
    run = tmp_path / "results/table/nop/none/x"
    (run / "run_info.json").write_text("{torn")
    for words in (["show", str(run)], ["resume", str(run)]):
        done = proctor(*words, "--json", cwd=tmp_path)
        assert done.code == 2
        assert done.document["error"]["code"] == "run_directory"
        assert "run info damaged" in done.document["error"]["message"]
