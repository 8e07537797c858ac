"""Scorer functions in processes of their own: results, failures, hostile code."""

import asyncio
import os
import tempfile
import textwrap
from pathlib import Path

import pytest

from proctor.benchmarks.table import Table, TableOptions
from proctor.evals.contracts import PreparedTask, RunResult, TaskSpec


@pytest.fixture
def score(tmp_path, grade):
    """`score(body, …)` grades with `def scorer(answer, target, task)` of that body."""

    def scored(body, answer="a", target="a", **options):
        path = tmp_path / "scorer.py"
        path.write_text("def scorer(answer, target, task):\n" + textwrap.indent(body, "    "))
        return grade(f"python:{path}:scorer", target, answer, **options)

    return scored


@pytest.mark.parametrize(
    ("body", "value"),
    [
        ("return answer == target", True),
        ("return answer != target", False),
        ("return 1", 1),
        ("return 0.0", 0.0),
        ("return {'score': True, 'why': 'x'}", True),
        ("return task == {'id': 't', 'input': 'question', 'target': 'a', 'category': 'c',"
         " 'metadata': {'m': 1}}", True),
        ("import os, pathlib\nreturn os.listdir() == [] and pathlib.Path('x').write_text('y') == 1",
         True),
        ("import subprocess\nreturn subprocess.run(['true']).returncode == 0", True),
    ],
)  # fmt: skip
def test_results(score, body, value):
    evaluation = score(body)
    assert evaluation.unavailable == {}
    assert evaluation.metrics == {"correct": value}
    assert evaluation.issues == ()


def test_evidence_is_kept(score):
    assert score("return {'score': 0, 'found': ['x', 1]}").evidence == {"found": ["x", 1]}
    evidence = score("return {'score': 0, 'found': {1, 2}}").evidence
    assert list(evidence) == ["unstorable"]


def test_answers_that_are_values(score):
    assert score("return answer == {'a': [1]}", answer={"a": [1]}).metrics == {"correct": True}
    assert score("return answer == '\\ud800'", answer="\ud800").metrics == {"correct": True}


@pytest.mark.parametrize(
    ("body", "value"),
    [("return 0.25", 0.25), ("return 7", 7), ("return {'score': 0.5}", 0.5), ("return 10", 10)],
)
def test_scalar_results(score, body, value):
    evaluation = score(body, metric_kind="scalar", low=0, high=10)
    assert evaluation.metrics == {"score": value}


def test_the_scalar_metric_contract(tmp_path):
    path = tmp_path / "s.py"
    path.write_text("def f(a, t, k): return 1\n")
    options = TableOptions(scorer=f"python:{path}:f", metric_kind="scalar", low=-1, high=5)
    contract = Table(options).metrics()
    assert (contract.primary, contract.metrics[0].low, contract.metrics[0].high) == ("score", -1, 5)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("return 'yes'", "the scorer returned 'yes' (str)"),
        ("return None", "the scorer returned None (NoneType)"),
        ("pass", "the scorer returned None (NoneType)"),
        ("return [1]", "the scorer returned [1] (list)"),
        ("return float('nan')", "the scorer returned nan (float)"),
        ("return float('-inf')", "the scorer returned -inf (float)"),
        ("return {'correct': 1}", "the scorer returned a dict without the key 'score' (dict)"),
        ("return {'score': 'x'}", "the scorer returned 'x' (str)"),
        ("return 10**100", "(int)"),
        ("async def f(): return 1\nreturn f", "(function)"),
    ],
)
def test_results_of_a_wrong_type_are_unavailable(score, body, reason):
    evaluation = score(body)
    assert evaluation.metrics == {}
    assert reason in evaluation.unavailable["correct"]


@pytest.mark.parametrize(
    ("body", "message", "shown"),
    [
        ("return 1 / 0", "ZeroDivisionError: division by zero", "return 1 / 0"),
        ("raise SystemExit(0)", "SystemExit: 0", "raise SystemExit"),
        ("import sys\nsys.exit(3)", "SystemExit: 3", "sys.exit(3)"),
        ("raise KeyboardInterrupt", "KeyboardInterrupt", "raise KeyboardInterrupt"),
        ("return bytearray(10**12)", "MemoryError", "bytearray"),
        ("x = []\nwhile True: x.append(bytearray(10**7))", "MemoryError", "bytearray"),
        ("def f(): return f()\nreturn f()", "RecursionError", "f()"),
        ("import absent_module", "No module named 'absent_module'", "import absent_module"),
    ],
)
def test_exceptions_are_errors_of_the_evaluator_with_their_traceback(score, body, message, shown):
    evaluation = score(body, memory_limit_mb=256)
    assert evaluation.metrics == {}
    (issue,) = evaluation.issues
    assert (issue.severity, issue.cause, issue.code) == ("error", "evaluator", "scorer_failed")
    assert message in issue.message
    assert shown in issue.traceback


ENDS = {
    "exits at once": "import os\nos._exit(0)",
    "kills itself": "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)",
    "prints a verdict and exits":
        "import os\nprint('{\"value\": 1}', flush=True)\nos.system('echo {}')\nos._exit(0)",
    "writes a verdict to every descriptor": "import os\nfor fd in range(64):\n    try:\n"
        "        os.write(fd, b'{\"value\": true, \"type\": \"bool\", \"shown\": \"True\"}\\n')\n"
        "    except OSError:\n        pass\nos._exit(0)",
    "closes every descriptor": "import os\nos.closerange(0, 100)\nreturn True",
}  # fmt: skip


@pytest.mark.parametrize("name", ENDS)
def test_a_process_that_ends_without_its_verdict_is_not_scored(score, name):
    evaluation = score(ENDS[name])
    assert evaluation.metrics == {}
    assert evaluation.issues[0].cause == "evaluator"


def test_what_the_function_prints_is_no_verdict(score):
    body = (
        "import os, subprocess, sys\n"
        'line = \'{"value": true, "type": "bool", "shown": "True"}\'\n'
        "print(line, flush=True)\nprint(line, file=sys.stderr, flush=True)\n"
        "os.write(1, line.encode() + b'\\n')\n"
        "subprocess.run(['echo', line])\n"
        "return False\n"
    )
    assert score(body).metrics == {"correct": False}


def test_a_forked_child_gives_no_second_verdict(score):
    body = "import os\npid = os.fork()\nreturn pid == 0\n"
    assert score(body).metrics == {"correct": False}


def test_endless_output_is_bounded(score):
    body = "import sys\nfor _ in range(300): sys.stdout.write('y' * 1_000_000)\nreturn True\n"
    assert score(body).metrics == {"correct": True}


def test_an_endless_loop_ends_at_its_time_limit(score):
    evaluation = score("while True: pass", time_limit_s=0.5)
    assert evaluation.metrics == {}
    assert evaluation.issues[0].code == "scorer_timeout"
    assert "longer than 0.5 s" in evaluation.unavailable["correct"]


def test_children_are_killed_with_the_grading(score, tmp_path):
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    # A child that holds the write end open: reading sees its end only when it is dead.
    body = (
        "import subprocess\n"
        f"subprocess.Popen('exec sleep 1000 > {fifo}', shell=True)\n"
        f"open({str(fifo)!r}).close()\nreturn True\n"
    )
    assert score(body).metrics == {"correct": True}
    reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    try:
        assert os.read(reader, 1) == b""
    finally:
        os.close(reader)


def test_a_fork_bomb_ends_at_the_time_limit(score):
    body = (
        "import os, time\n"
        "for _ in range(5):\n"
        "    for _ in range(6):\n"
        "        if os.fork() == 0:\n"
        "            break\n"
        "time.sleep(1000)\n"
    )
    evaluation = score(body, time_limit_s=1.5)
    assert evaluation.issues[0].code == "scorer_timeout"


def test_no_secrets_and_an_own_home(score, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    monkeypatch.setenv("PYTHONPATH", "/somewhere")
    body = (
        "import os, sys\nenv = dict(os.environ)\n"
        "return {'score': 'sk-secret' not in str(env) and 'PYTHONPATH' not in env"
        " and os.getcwd() == env['HOME'] == env['TMPDIR'], 'names': sorted(env)}\n"
    )
    evaluation = score(body)
    assert evaluation.metrics == {"correct": True}, evaluation
    assert "OPENAI_API_KEY" not in evaluation.evidence["names"]


def test_no_temporary_folder_stays(score):
    def ours():
        return {
            n for n in os.listdir(tempfile.gettempdir()) if n.startswith(f"proctor-{os.getpid()}-")
        }

    before = ours()
    score("import os\nos.makedirs('a/b')\nos.chmod('a', 0)\nreturn True")
    score("import os\nos._exit(0)")
    score("while True: pass", time_limit_s=0.3)
    assert ours() == before


def test_the_function_may_import_from_its_folder(score, tmp_path):
    (tmp_path / "beside.py").write_text("ANSWER = 'a'\n")
    assert score("import beside\nreturn answer == beside.ANSWER").metrics == {"correct": True}
    assert score("return __file__.endswith('scorer.py')").metrics == {"correct": True}


def test_what_runs_is_what_was_digested(tmp_path):
    path = tmp_path / "s.py"
    path.write_text("def f(answer, target, task): return True\n")
    table = Table(TableOptions(scorer=f"python:{path}:f"))
    first = table.grading_settings()
    path.write_text("def f(answer, target, task): return False\n")
    prepared = PreparedTask(TaskSpec("t", "q"), "q")
    evaluation = asyncio.run(table.evaluate(prepared, RunResult(final_answer="x"), None))
    assert evaluation.metrics == {"correct": True}
    second = Table(TableOptions(scorer=f"python:{path}:f")).grading_settings()
    assert first["code"].startswith("sha256:")
    assert first["code"] != second["code"]
    assert {k: v for k, v in first.items() if k != "code"} == {
        k: v for k, v in second.items() if k != "code"
    }


def test_an_empty_answer_needs_no_process_unless_0_is_no_score(score):
    evaluation = score("return 1 / 0", answer="")
    assert evaluation.metrics == {"correct": 0}
    assert evaluation.issues[0].code == "unparsed_answer"
    evaluation = score("return 2", answer="", metric_kind="scalar", low=1, high=5)
    assert evaluation.metrics == {"score": 2}


def test_cancelling_a_grading_leaves_nothing(tmp_path):
    started = tmp_path / "started"
    os.mkfifo(started)
    path = tmp_path / "s.py"
    path.write_text(
        "def f(answer, target, task):\n"
        f"    open({str(started)!r}, 'w').close()\n"
        "    while True: pass\n"
    )
    table = Table(TableOptions(scorer=f"python:{path}:f"))
    prepared = PreparedTask(TaskSpec("t", "q"), "q")

    async def run():
        grading = asyncio.create_task(table.evaluate(prepared, RunResult(final_answer="x"), None))
        await asyncio.to_thread(lambda: open(started).close())
        grading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await grading

    asyncio.run(run())
    left = [p for p in Path(tempfile.gettempdir()).iterdir()
            if p.name.startswith(f"proctor-{os.getpid()}-")]  # fmt: skip
    assert left == []
