"""Every scorer that compares in the driver, case by case."""

import asyncio
import contextlib
import time
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proctor.benchmarks.table import Table, TableOptions
from proctor.benchmarks.table.scorers.choice import chosen
from proctor.benchmarks.table.scorers.numeric import Unreadable, last_number, shown
from proctor.evals.contracts import PreparedTask, RunResult, TaskSpec
from proctor.kernel.errors import OptionError

RIGHT, WRONG, UNPARSED = 1, 0, "unparsed"


def outcome(evaluation):
    assert evaluation.unavailable == {}
    codes = [(i.severity.value, i.code) for i in evaluation.issues]
    if codes:
        assert codes == [("warning", "unparsed_answer")]
        assert evaluation.metrics == {"correct": 0}
        return UNPARSED
    return evaluation.metrics["correct"]


ALL = [("exact", "a", {}), ("includes", "a", {}), ("regex", "a", {}), ("numeric", "1", {}),
       ("choice", "A", {}), ("json", "1", {})]  # fmt: skip


@pytest.mark.parametrize(("scorer", "target", "options"), ALL)
@pytest.mark.parametrize("answer", ["", " \n\t"])
def test_an_empty_answer_is_a_valid_zero(grade, scorer, target, options, answer):
    assert outcome(grade(scorer, target, answer, **options)) == UNPARSED


@pytest.mark.parametrize(("scorer", "target", "options"), ALL)
def test_no_answer_is_unavailable(grade, scorer, target, options):
    evaluation = grade(scorer, target, None, **options)
    assert evaluation.metrics == {}
    assert evaluation.unavailable == {"correct": "there is no answer"}


@pytest.mark.parametrize(
    ("target", "answer", "options", "expected"),
    [
        ("Paris", "Paris", {}, RIGHT),
        ("Paris", "  Paris\n", {}, RIGHT),
        (" Paris ", "Paris", {}, RIGHT),
        ("Paris", "paris", {}, WRONG),
        ("Paris", "PARIS", {"ignore_case": True}, RIGHT),
        ("Straße", "STRASSE", {"ignore_case": True}, RIGHT),
        ("Paris", "Paris.", {}, WRONG),
        ("a b", "a  b", {}, WRONG),
        ("a\u00a0", "a", {}, RIGHT),
        (18, "18", {}, RIGHT),
        (18, 18, {}, RIGHT),
        ("18", 18, {}, RIGHT),
        (1.5, "1.5", {}, RIGHT),
        ("true", True, {}, RIGHT),
        ('{"a":1}', {"a": 1}, {}, RIGHT),
    ],
)
def test_exact(grade, target, answer, options, expected):
    assert outcome(grade("exact", target, answer, **options)) == expected


@pytest.mark.parametrize(
    ("target", "answer", "options", "expected"),
    [
        ("Paris", "It is Paris, of course.", {}, RIGHT),
        (" Paris\n", "Paris", {}, RIGHT),
        ("Paris", "It is paris.", {}, WRONG),
        ("Paris", "It is paris.", {"ignore_case": True}, RIGHT),
        ("Paris", "Par is", {}, WRONG),
        (18, "There are 18 of them", {}, RIGHT),
        ("a" * 50 + "b", "a" * 900_000, {}, WRONG),
    ],
)
def test_includes(grade, target, answer, options, expected):
    assert outcome(grade("includes", target, answer, **options)) == expected


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("18", 18),
        ("#### 18", 18),
        ("18.", 18),
        ("It costs $18.50!", Fraction(37, 2)),
        ("70,000", 70_000),
        ("#### 1,450,000", 1_450_000),
        ("12,345.67", Fraction(1_234_567, 100)),
        ("-5", -5),
        ("−5", -5),
        ("+5", 5),
        ("-$5", -5),
        ("$-5", -5),
        ("€-5", -5),
        ("= -3.0", -3),
        ("10-12", 12),
        ("5 - 3", 3),
        ("(-3)", -3),
        ("(2)-3", 3),
        ("x-3", 3),
        ("is -7.", -7),
        (".5", Fraction(1, 2)),
        ("0.50", Fraction(1, 2)),
        ("-.5", Fraction(-1, 2)),
        ("is...18", 18),
        ("and.18", 18),
        ("1.2.3", Fraction(6, 5)),
        ("50%", 50),
        ("50 %", 50),
        ("18km", 18),
        ("2nd", 2),
        ("£7", 7),
        ("**18**", 18),
        (r"\boxed{18}", 18),
        ("CO2 and 7", 7),
        ("7 of CO2", 7),
        ("x1 = 4", 4),
        ("答案18", 18),
        ("3/4", Fraction(3, 4)),
        ("-3/4", Fraction(-3, 4)),
        ("12/25/2020", 2020),
        ("1/2.5", Fraction(5, 2)),
        ("1,23", 23),
        ("1,234,5678", 5678),
        ("1234,567", 567),
        ("1,2,3", 3),
        ("1, 2 and 3", 3),
        ("1e3", 1000),
        ("1.5E-3", Fraction(3, 2000)),
        ("2e", 2),
        ("1e5x", 1),
        ("10:30", 30),
        ("18 dollars (not 20)", 20),
        ("007", 7),
        ("0", 0),
        ("-0", 0),
        ("1\n2\n", 2),
        ("9" * 1000, int("9" * 1000)),
        ("1 " + "x" * 150_000, 1),
        ("12345" + " " * 1997, 12345),
        ("5 " + "y" * 1990 + " 77", 77),
    ],
)
def test_the_last_number(text, number):
    assert last_number(text) == number


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("none", "no number"), ("", "no number"), ("CO2", "no number"), ("a1b2", "no number"),
        ("١٢", "no number"), ("1/0", "fraction over 0"), ("9" * 1001, "more than 1000 digits"),
        ("0." + "1" * 1001, "more than 1000 digits"), ("1/" + "3" * 1001, "more than 1000 digits"),
        ("5 then 1/0", "fraction over 0"), ("1 " + "x" * 300_000, "no number"),
    ],
)  # fmt: skip
def test_texts_without_a_readable_last_number(text, reason):
    with pytest.raises(Unreadable, match=reason):
        last_number(text)


@given(st.integers(), st.integers(0, 12))
@settings(derandomize=True)
def test_any_written_number_is_read_back(digits, places):
    sign, text = "-" if digits < 0 else "", str(abs(digits)).rjust(places + 1, "0")
    number = Fraction(digits, 10**places)
    written = f"{sign}{text[: len(text) - places]}.{text[len(text) - places :]}".rstrip(".")
    assert last_number(f"so 3 it is {written} apples") == number
    if len(text) < 50:
        assert last_number(shown(number)) == number


@given(st.text(alphabet="0123456789.,-+$/eE x\n−%_", max_size=300))
@settings(max_examples=300)
def test_any_text_is_read_or_refused(text):
    try:
        assert isinstance(last_number(text), Fraction)
    except Unreadable:
        assert True not in [part.isdecimal() for part in text.split()] or "/" in text


@pytest.mark.parametrize(
    "hostile",
    ["1,111" * 40_000, "1/" * 100_000, "-" * 200_000, "1 " * 100_000, "9" * 200_000, "." * 200_000,
     "1e" * 100_000, "$-" * 100_000, ",111" * 50_000, "1" + ",111" * 49_000 + "1", "0." * 100_000],
)  # fmt: skip
def test_numbers_in_hostile_texts_take_little_time(hostile):
    began = time.process_time()
    with contextlib.suppress(Unreadable):
        last_number(hostile)
    assert time.process_time() - began < 1


@pytest.mark.parametrize(
    ("target", "answer", "options", "expected"),
    [
        ("#### 18", "The answer is 18.", {}, RIGHT),
        ("#### 70,000", "$70000", {}, RIGHT),
        ("18", "18.00", {}, RIGHT),
        ("18", "17", {}, WRONG),
        (18, 18.0, {}, RIGHT),
        (0.1, "0.1", {}, RIGHT),
        ("0.1", "0.10000000000000001", {}, WRONG),
        ("18", "no idea", {}, UNPARSED),
        ("18", True, {}, UNPARSED),
        ("18", ["18"], {}, UNPARSED),
        ("18", {"answer": 18}, {}, UNPARSED),
        ("18", "9" * 5_000, {}, UNPARSED),
        ("100", "101", {"tolerance": "1"}, RIGHT),
        ("100", "101.1", {"tolerance": "1"}, WRONG),
        ("0.3", "0.2", {"tolerance": 0.1}, RIGHT),
        ("-200", "-198", {"relative_tolerance": "0.01"}, RIGHT),
        ("-200", "-197.9", {"relative_tolerance": "0.01"}, WRONG),
        ("0", "0.5", {"relative_tolerance": "0.5", "tolerance": "0.5"}, RIGHT),
        ("2", "-2", {}, WRONG),
    ],
)
def test_numeric(grade, target, answer, options, expected):
    assert outcome(grade("numeric", target, answer, **options)) == expected


def test_numeric_keeps_what_it_read(grade):
    assert grade("numeric", "#### 1,875", "so 3/4").evidence == {"answer": "0.75", "target": "1875"}
    assert grade("numeric", "1/3", "7" * 900).evidence == {
        "answer": "7" * 57 + "…",
        "target": "1/3",
    }


@pytest.mark.parametrize(
    ("text", "letter"),
    [
        # 1: one letter
        ("B", "B"),
        ("b", "B"),
        ("(B)", "B"),
        ("B.", "B"),
        ("b)", "B"),
        ("**B**", "B"),
        ("\n B \n", "B"),
        ("[C]", "C"),
        ("A", "A"),
        ("I", "I"),
        ("`D`", "D"),
        ("$B$", "B"),
        # 2: a statement
        ("The answer is B", "B"),
        ("The answer is (B).", "B"),
        ("Answer: B", "B"),
        ("answer: b", "B"),
        ("ANSWER = C", "C"),
        ("**Answer:** D", "D"),
        ("Final answer: **C**", "C"),
        ("The correct option is A because it fits", "A"),
        ("Option B is correct", "B"),
        ("I choose option (c)", "C"),
        ("Answer: A. Wait. Answer: C", "C"),
        ("A or B? The answer is B", "B"),
        (r"so \boxed{D}", "D"),
        (r"\boxed{\text{B}}", "B"),
        ("The answer is option C", "C"),
        ("Answer:\n\nB", "B"),
        ("answer choice B", "B"),
        ("answer is b\nbecause", "B"),
        ("Answer: I", "I"),
        ("Answer: B, I think", "B"),
        ("(A) is wrong. Answer: B", "B"),
        ("Answer - it is D", "D"),
        ("answer: (b)", "B"),
        # 3: brackets
        ("It must be (C), I think", "C"),
        ("I said [D] and again (D)", "D"),
        # 4: a printed choice
        ("B. Paris", "B"),
        ("**B)** Paris", "B"),
        ("- C: London", "C"),
        ("Well\nD. Rome\n", "D"),
        # 5: a lone capital
        ("I would pick C", "C"),
        ("Clearly C!", "C"),
        ("A good question, so D", "D"),
    ],
)
def test_the_chosen_letter(text, letter):
    assert chosen(text, frozenset("ABCDI")) == (letter, "")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("The answer is B or C", "ambiguous"),
        ("Answer: A/B", "ambiguous"),
        ("Answer: B, C", "ambiguous"),
        ("answer is (B) and (C)", "ambiguous"),
        ("(A) or (B)", "ambiguous"),
        ("A. x\nB. y", "ambiguous"),
        ("either B or C", "ambiguous"),
        ("Answer: B or option C", "ambiguous"),
        ("I have no idea", "no choice"),
        ("A cat", "no choice"),
        ("the answer is a good one", "no choice"),
        ("Paris", "no choice"),
        ("Answer: I think not", "no choice"),
        ("Z", "no choice"),
        ("options", "no choice"),
        ("C++, C# and D-Bus? C's", "no choice"),
        ("e.g. this", "no choice"),
        ("B2B", "no choice"),
    ],
)
def test_texts_that_choose_nothing(text, reason):
    letter, why = chosen(text, frozenset("ABCDI"))
    assert letter is None
    assert reason in why


@pytest.mark.parametrize(
    "hostile",
    [
        "answer is " * 20_000,
        "(A" * 50_000,
        "answer" + "*" * 100_000,
        "option " * 30_000,
        "\\boxed{" * 20_000,
        "A B " * 50_000,
        "answer:" + " is" * 50_000,
        "\n>" * 100_000,
        "answer" + " " * 100_000,
    ],
)
def test_choices_in_hostile_texts_take_little_time(hostile):
    began = time.process_time()
    chosen(hostile, frozenset("AB"))
    assert time.process_time() - began < 1


@pytest.mark.parametrize(
    ("target", "answer", "options", "expected"),
    [
        ("B", "The answer is B", {}, RIGHT),
        ("(b)", "B", {}, RIGHT),
        ("B", "C", {}, WRONG),
        ("B", "B or C", {}, UNPARSED),
        ("B", ["B"], {}, UNPARSED),
        ("B", "E", {"choices": "ABCD"}, UNPARSED),
        ("B", "b", {"choices": "a, b, c"}, RIGHT),
    ],
)
def test_choice(grade, target, answer, options, expected):
    assert outcome(grade("choice", target, answer, **options)) == expected


@pytest.mark.parametrize(
    ("target", "answer", "options", "expected"),
    [
        ({"a": 1, "b": [2]}, '{"b": [2], "a": 1}', {}, RIGHT),
        ({"a": 1}, {"a": 1}, {}, RIGHT),
        ('{"a": 1}', '{"a": 1.0}', {}, RIGHT),
        ({"a": 1}, '```json\n{"a": 1}\n```', {}, RIGHT),
        ({"a": 1}, '\n ```\n{"a": 1}```\n', {}, RIGHT),
        ({"a": 1}, 'Here: {"a": 1}', {}, UNPARSED),
        ({"a": 1}, '{"a": NaN}', {}, UNPARSED),
        ({"a": 1}, '{"a": 1}{"a": 1}', {}, UNPARSED),
        ([1], "[" * 100_000, {}, UNPARSED),
        ([1], "[" + "1," * 600_000 + "1]", {}, UNPARSED),
        ({"a": 1}, '{"a": true}', {}, WRONG),
        ({"a": 0}, '{"a": false}', {}, WRONG),
        ({"a": False}, '{"a": false}', {}, RIGHT),
        ({"a": None}, "{}", {}, WRONG),
        ([1, 2], "[2, 1]", {}, WRONG),
        ([1, 2], "[1, 2, 3]", {}, WRONG),
        ([1], '{"0": 1}', {}, WRONG),
        ('"abc"', '"abc"', {}, RIGHT),
        ('"abc"', "abc", {}, UNPARSED),
        ("9007199254740993", "9007199254740992", {}, WRONG),
        (3, "3", {}, RIGHT),
        ("null", "null", {}, RIGHT),
        ("[]", "0", {}, WRONG),
        ({"a": {"b": 1}}, '{"a": {"b": 1, "c": 2}, "d": 3}', {"subset": True}, RIGHT),
        ({"a": {"b": 1}}, '{"a": {"c": 2}}', {"subset": True}, WRONG),
        ([{"a": 1}], '[{"a": 1, "b": 2}]', {"subset": True}, RIGHT),
        ([{"a": 1}], '[{"a": 1}, {"b": 2}]', {"subset": True}, WRONG),
        ({"a": {"b": 1}}, '{"a": {"b": 1, "c": 2}}', {}, WRONG),
    ],
)
def test_json(grade, target, answer, options, expected):
    assert outcome(grade("json", target, answer, **options)) == expected


def test_json_tells_where_values_differ(grade):
    evaluation = grade("json", {"a": [{"b": 1}]}, '{"a": [{"b": 2}]}')
    assert evaluation.evidence == {"first_difference": "$.a[0].b"}


def test_json_compares_deep_values_without_recursion(grade):
    deep = "[" * 900 + "1" + "]" * 900
    assert outcome(grade("json", deep, deep)) == RIGHT


# --- options


@pytest.mark.parametrize(
    ("options", "message", "hint"),
    [
        ({"scorer": "exakt"}, "unknown scorer 'exakt'", "did you mean exact?"),
        (
            {"scorer": "judge:rubric.yaml"},
            "unknown scorer 'judge:rubric.yaml'",
            "known scorers: exact,",
        ),
        ({"scorer": "exact:x"}, "unknown scorer 'exact:x'", "python:FILE.py:FUNCTION"),
        ({"scorer": ""}, "unknown scorer ''", "known scorers"),
        ({"tolerance": "1"}, "tolerance does not belong to scorer 'exact'", "takes ignore_case"),
        ({"scorer": "exact", "metric_kind": "scalar"}, "metric_kind does not belong", "exact"),
        ({"scorer": "choice", "choices": "AB1"}, "'1' is no letter", "ABCD"),
        ({"scorer": "regex", "pattern": "("}, "benchmark.pattern: not a regular expression", ""),
        ({"scorer": "python"}, "no file and function", "python:FILE.py:FUNCTION"),
        ({"scorer": "python:absent.py:f"}, "absent.py cannot be read", "relative paths start from"),
        ({"scorer": "python:x.py:f()"}, "no file and function", ""),
    ],
)
def test_options_that_are_refused(options, message, hint):
    with pytest.raises(OptionError) as caught:
        Table(TableOptions(**options))
    assert message in str(caught.value)
    assert hint in (caught.value.hint or "")


@pytest.mark.parametrize(
    "options",
    [{"scorer": "numeric", "tolerance": "-1"}, {"scorer": "numeric", "tolerance": "NaN"},
     {"low": 1, "high": 0}, {"low": 0.5}, {"time_limit_s": 0}, {"memory_limit_mb": 1},
     {"kolumns": 1}],
)  # fmt: skip
def test_values_that_are_refused(options):
    with pytest.raises(ValueError, match="validation error"):
        TableOptions(**options)


def test_grading_settings_tell_scorers_and_options_apart():
    exact, loose = Table(), Table(TableOptions(ignore_case=True))
    assert exact.grading_settings() == {"scorer": "exact", "ignore_case": False}
    assert loose.grading_settings() != exact.grading_settings()
    numeric = Table(TableOptions(scorer="numeric", tolerance="0.10"))
    assert numeric.grading_settings() == {
        "scorer": "numeric", "tolerance": "0.10", "relative_tolerance": "0",
    }  # fmt: skip


def test_the_metric_contract():
    assert Table().metrics().primary == "correct"
    Table().metrics().check()
    assert Table.evaluation_modes == ("none", "reuse")


def test_grading_is_lean():
    """Thousands of gradings a second: nothing but the comparison happens."""
    table = Table(TableOptions(scorer="numeric"))
    prepared = PreparedTask(TaskSpec("t", "q", target="#### 18"), "q")
    result = RunResult(final_answer="Let me think. 3 * 6 = 18. The answer is 18.")

    async def run():
        for _ in range(2_000):
            await table.evaluate(prepared, result, None)

    began = time.process_time()
    asyncio.run(run())
    assert (time.process_time() - began) / 2_000 < 0.001
