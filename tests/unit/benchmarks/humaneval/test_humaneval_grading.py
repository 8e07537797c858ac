"""Verdicts on answers that are honest, right or wrong."""

import asyncio
from dataclasses import replace

import pytest

from proctor.benchmarks.humaneval import HumanEval, HumanEvalOptions
from proctor.environments.contract import EnvironmentSpec
from proctor.environments.local import LocalEnvironment
from proctor.evals.contracts import PreparedTask, RunResult
from proctor.kernel.errors import EvaluatorFault


@pytest.mark.parametrize(
    ("answer", "passed", "outcome", "detail"),
    [
        ("    return 2 * x\n", 1, "passed", ""),
        ("def double(x):\n    return 2 * x\n", 1, "passed", ""),
        ("from __future__ import annotations\ndef double(x: int) -> int:\n    return x + x",
         1, "passed", ""),
        ("    return x\n", 0, "failed", "AssertionError (in assert candidate(2) == 4)"),
        ("    return 4\n", 0, "failed", "assert candidate(-7) == -14"),
        ("    return 1 / 0\n", 0, "raised", "ZeroDivisionError: division by zero (in assert"),
        ("    retur x\n", 0, "raised", "SyntaxError"),
        ("```\nimport no_such_module\n```", 0, "raised", "No module named"),
        ("def other(x):\n    return 2 * x\ndouble = 3\n", 0, "raised", "defines no function"),
        ("    return object()\n", 0, "raised", "TypeError: the result is no plain value"),
        ("    yield 2 * x\n", 0, "raised", "a generator"),
        ("    raise AssertionError('odd')\n", 0, "raised", "AssertionError: odd"),
    ],
)  # fmt: skip
def test_verdicts(grader, answer, passed, outcome, detail):
    evaluation = grader(answer)
    assert evaluation.metrics == {"passed": passed}
    assert evaluation.evidence["outcome"] == outcome
    assert detail in evaluation.evidence["detail"]
    assert evaluation.issues == ()


VALUES = r"""
import collections, decimal, enum, fractions
class Number(int): pass
class Colour(enum.IntEnum):
    RED = 3
Pair = collections.namedtuple("Pair", "a b")
def double(name):
    return {
        "none": None, "true": True, "int": -(10 ** 5000), "float": 0.1, "text": "é\u2028\ud800",
        "list": [1, [2, (3,)]], "tuple": (), "set": {1, "a"}, "frozenset": frozenset({2}),
        "dict": {(1, 2): [3], None: {}}, "bytes": b"\x00\xff", "complex": 1j,
        "fraction": fractions.Fraction(1, 3), "decimal": decimal.Decimal("1.10"),
        "inf": float("inf"), "subclass": Number(5), "enum": Colour.RED, "pair": Pair(1, 2),
        "counter": collections.Counter("aab"), "bytearray": bytearray(b"x"),
    }[name]
"""
SAME = """
def check(candidate):
    import collections, decimal, fractions
    assert candidate("none") is None and candidate("true") is True
    assert candidate("int") == -(10 ** 5000) and candidate("float") == 0.1
    assert candidate("text") == "\\xe9\\u2028\\ud800"
    assert candidate("list") == [1, [2, (3,)]] and candidate("tuple") == ()
    assert candidate("set") == {1, "a"} and candidate("frozenset") == frozenset({2})
    assert candidate("dict") == {(1, 2): [3], None: {}} and candidate("bytes") == b"\\x00\\xff"
    assert candidate("complex") == 1j and candidate("fraction") == fractions.Fraction(1, 3)
    assert candidate("decimal") == decimal.Decimal("1.1") and candidate("inf") == float("inf")
    assert type(candidate("subclass")) is int and candidate("enum") == 3
    assert candidate("pair") == (1, 2) and candidate("counter") == {"a": 2, "b": 1}
    assert candidate(name="bytearray") == b"x"
    try:
        candidate("absent")
    except KeyError:
        pass
    else:
        raise AssertionError("no KeyError")
"""


def test_plain_values_cross_unchanged(grader, double):
    evaluation = grader(VALUES, replace(double, test=SAME))
    assert evaluation.evidence["detail"] == ""
    assert evaluation.metrics == {"passed": 1}


def test_helper_functions_of_the_prompt_serve_the_tests(grader, double):
    problem = replace(
        double,
        prompt="import math\n\ndef half(x):\n    return x / 2\n\n" + double.prompt,
        test="def check(candidate):\n    assert half(candidate(3)) == 3 == half(double(3))\n",
    )
    assert grader("    return half(math.floor(4 * x))\n", problem).metrics == {"passed": 1}


def test_a_prompt_without_a_body_is_completed_for_whole_answers(grader, double):
    problem = replace(double, prompt="def double(x):\n")
    assert grader("def double(x): return 2 * x", problem).metrics == {"passed": 1}
    assert grader("    return 2 * x", problem).metrics == {"passed": 1}


@pytest.mark.parametrize(
    ("test", "reason"),
    [
        ("def check(candidate:\n", "SyntaxError"),
        ("import no_such_module\ndef check(candidate): pass\n", "No module named"),
        ("def verify(candidate): pass\n", "KeyError: 'check'"),
        ("check = 3\n", "check is no function"),
    ],
)
def test_broken_tests_are_the_evaluators_fault_not_the_answers(grader, double, test, reason):
    evaluation = grader("    return 2 * x", replace(double, test=test))
    assert evaluation.metrics == {}
    assert reason in evaluation.unavailable["passed"]
    assert [(i.code, i.cause, i.severity) for i in evaluation.issues] == [
        ("bad_test", "evaluator", "error")
    ]


@pytest.mark.parametrize(
    ("answer", "why"),
    [("", "no code"), (" \n\t", "no code"), ("```python\n```", "no code"), (17, "not text"),
     (["x"], "not text"), ("x" * 500_001, "characters")],
)  # fmt: skip
def test_answers_without_code_are_a_valid_zero(grader, answer, why):
    evaluation = grader(answer)
    assert evaluation.metrics == {"passed": 0}
    (issue,) = evaluation.issues
    assert (issue.severity, issue.code) == ("warning", "unparsed_answer")
    assert why in issue.message


def test_no_answer_is_unavailable(grader):
    evaluation = grader(None)
    assert evaluation.metrics == {}
    assert evaluation.unavailable == {"passed": "there is no answer"}


def test_an_environment_without_python_is_an_evaluator_fault(new_grader):
    with pytest.raises(EvaluatorFault, match="cannot run Python") as caught:
        new_grader(python="no-such-python")("    return 2 * x")
    assert caught.value.fault_code == "no_python"
    assert caught.value.permanent


def test_a_python_that_prints_something_else_gives_no_verdict(double):
    async def run():
        benchmark = HumanEval(HumanEvalOptions(python="echo"))
        task = benchmark._task(double)
        session = await LocalEnvironment().open(EnvironmentSpec(), {})
        try:
            prepared = PreparedTask(task, task.input)
            return await benchmark.evaluate(prepared, RunResult(final_answer="    pass"), session)
        finally:
            await session.close()

    evaluation = asyncio.run(run())
    assert evaluation.metrics == {}
    assert evaluation.issues[0].code == "no_verdict"
