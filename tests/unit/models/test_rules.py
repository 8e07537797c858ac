"""The rule file: what it accepts, and how it says what is wrong."""

from pathlib import Path

import pytest

from proctor.kernel.errors import DataError
from proctor.models.scripted.rules import load, read
from proctor.models.scripted.yamltext import YamlProblem, parse


def problems(text: str) -> list[str]:
    with pytest.raises(DataError) as caught:
        read(text, "r.yaml")
    return str(caught.value).splitlines()


def test_plain_words_stay_text_and_numbers_are_numbers() -> None:
    value, places = parse("a: no\nb: 12:30\nc: 1.5\nd: 017\ne: '42'\nf: true\ng: ~\nh: 3\ni: 1_0\n")
    assert value == {
        "a": "no",
        "b": "12:30",
        "c": 1.5,
        "d": "017",
        "e": "42",
        "f": True,
        "g": None,
        "h": 3,
        "i": "1_0",
    }
    assert places[("c",)] == (3, 1)


@pytest.mark.parametrize(
    ("text", "line", "column", "reason"),
    [
        ("a: 'x' y\n", 1, 8, "expected"),
        ("a: 1\nb: 2\na: 3\n", 3, 1, "'a' is given twice"),
        ("a: !!python/object:os.system x", 1, 4, "tags such as"),
        ("? [1]\n: 2\n", 1, 3, "a key must be text"),
        ("a: &x [*x]\n", 1, 4, "contains itself"),
        ("a: 1\nb: \x07\n", 2, 4, "not allowed"),
    ],
)
def test_yaml_problem_has_its_place(text: str, line: int, column: int, reason: str) -> None:
    with pytest.raises(YamlProblem, match=reason) as caught:
        parse(text)
    assert (caught.value.line, caught.value.column) == (line, column)


def test_aliases_cannot_explode() -> None:
    layers = ["l0: &l0 [x, x, x, x, x, x, x, x, x, x]"]
    for n in range(1, 9):
        layers.append(f"l{n}: &l{n} [{', '.join([f'*l{n - 1}'] * 10)}]")
    with pytest.raises(YamlProblem, match="more than"):
        parse("\n".join(layers))


def test_deep_nesting_is_a_problem_not_a_crash() -> None:
    with pytest.raises(YamlProblem):
        parse("[" * 100_000)


def test_unknown_key_names_the_nearest_with_line_and_column() -> None:
    text = "version: 1\nrules:\n  - reply: hi\n    when:\n      taks: a\n"
    assert problems(text)[1:] == [
        "r.yaml:5:7: rules.0.when: unknown key 'taks'; did you mean task?"
    ]


def test_every_problem_is_listed() -> None:
    text = (
        "version: 1\n"
        "rules:\n"
        "  - when: {message: '('}\n"
        "    reply: hi\n"
        "  - reply: 42\n"
        "  - {reply: {fault: {status: 429, kind: reset}}}\n"
        "  - {replies: []}\n"
    )
    found = problems(text)
    assert found[0] == "4 problem(s) in a rule file:"
    assert found[1].startswith("r.yaml:3:12: rules.0.when.message: not a regular expression")
    assert found[2].startswith("r.yaml:5:5: rules.1.reply:")
    assert found[3] == "r.yaml:6:14: rules.2.reply.fault: give either a status or another kind"
    assert found[4].startswith("r.yaml:7:6: rules.3.replies:")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("- 1\n", "expected `version: 1`"),
        ("", "expected `version: 1`"),
        ("version: 2\ndefault: x\n", "1:1: version:"),
        ("version: 1\n", "at least one rule or a default"),
        ("rules: []\ndefault: x\n", "version: is required"),
        ("version: 1\nrules: [{name: a, reply: x}, {name: a, reply: y}]\n", "given twice: a"),
        ("version: 1\nrules: [{name: a}]\n", "either reply or replies"),
        ("version: 1\ndefault: {}\n", "a reply needs"),
        ("version: 1\ndefault: {text: a, text_from: reference}\n", "not both"),
        ("version: 1\ndefault: {fault: explode}\n", "fault.kind"),
        ("version: 1\ndefault: {fault: 200}\n", "fault.status"),
        ("version: 1\ndefault: {text: [a]}\n", "must be text"),
        ("version: 1\nrules: [{reply: a, by: turn}]\n", "by needs replies"),
        ("version: 1\nrules: [{reply: a, when: {attempt: 0}}]\n", "attempt"),
    ],
)
def test_bad_files_say_what_is_wrong(text: str, reason: str) -> None:
    assert reason in "\n".join(problems(text))


def test_missing_and_undecodable_files(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="cannot read the rule file"):
        load(tmp_path / "no.yaml")
    with pytest.raises(DataError, match="cannot read the rule file"):
        load(tmp_path)
    (tmp_path / "latin.yaml").write_bytes(b"default: \xff\n")
    with pytest.raises(DataError, match="not UTF-8"):
        load(tmp_path / "latin.yaml")


def test_digest_is_of_the_bytes(tmp_path: Path) -> None:
    path = tmp_path / "r.yaml"
    path.write_text("version: 1\ndefault: a\n")
    first = load(path)[1]
    path.write_text("version: 1\ndefault: b\n")
    assert load(path)[1] != first
    assert first.startswith("sha256:")
