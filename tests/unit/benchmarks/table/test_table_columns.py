"""From rows to tasks: names of columns, ids (case B22), files, references."""

import pytest

from proctor.kernel.errors import DataError
from proctor.kernel.ids import task_dir_name


def problems(load, path, **options):
    with pytest.raises(DataError) as caught:
        load(path, **options)
    return [text.removeprefix(f"{path}, ") for text in caught.value.problems]


B22 = ["../evil", "/abs", "a/b", "a_b", "Task", "task", "\u00e9", "e\u0301", "x" * 400, "CON",
       "end.", "nul\0byte", "", "任务-1"]  # fmt: skip


@pytest.mark.parametrize("name", ["ids.jsonl", "ids.csv"])
def test_b22_ids_are_refused_only_when_empty_or_with_nul(write, load, name):
    if name.endswith("csv"):
        content = "id,input,target\n" + "".join(f"{i},q,a\n" for i in B22)
        first = 2
    else:
        content = [{"id": i, "input": "q", "target": "a"} for i in B22]
        first = 1
    path = write(name, content)
    assert problems(load, path) == [
        f"line {first + 11}: an id must not contain NUL",
        f"line {first + 12}: an id must not be empty",
    ]
    good = [i for i in B22 if i and "\0" not in i]
    path = write("good.jsonl", [{"id": i, "input": "q", "target": "a"} for i in good])
    tasks = load(path)
    assert [task.id for task in tasks] == good
    assert len({task_dir_name(task.id).lower() for task in tasks}) == 12


def test_ids_may_be_integers_and_nothing_else(write, load):
    rows = [{"id": i, "input": "q", "target": "a"} for i in (7, -1, True, 1.5, None, ["x"], " x ")]
    assert problems(load, write("x.jsonl", rows)) == [
        "line 3: an id must be text or an integer, found boolean",
        "line 4: an id must be text or an integer, found number",
        "line 5: an id must be text or an integer, found null",
        "line 6: an id must be text or an integer, found array",
        "line 7: an id must not have blanks around it: ' x '",
    ]
    assert [t.id for t in load(write("y.jsonl", rows[:2]))] == ["7", "-1"]


def test_doubled_ids_are_all_listed_with_both_lines(write, load):
    rows = [{"id": i, "input": "q", "target": "a"} for i in ("a", 1, "b", "1", "a", "a")]
    assert problems(load, write("x.jsonl", rows)) == [
        "line 4: the id '1' is already on line 2",
        "line 5: the id 'a' is already on line 1",
        "line 6: the id 'a' is already on line 1",
    ]


def test_without_an_id_column_the_physical_line_is_the_id(write, load):
    path = write("x.jsonl", '\n{"input": "q", "target": "a"}\n\n{"input": "r", "target": "b"}\n')
    assert [(t.id, t.input) for t in load(path)] == [("2", "q"), ("4", "r")]
    path = write("x.csv", 'input,target\n"two\nlines",a\nr,b\n')
    assert [t.id for t in load(path)] == ["2", "4"]


def test_some_rows_with_and_some_without_an_id(write, load):
    rows = [{"input": "q", "target": "a"}, {"id": "x", "input": "q", "target": "a"}]
    assert problems(load, write("x.jsonl", rows)) == [
        "line 1: no id in this row, but other rows have one"
    ]


def test_a_full_row(write, load, tmp_path):
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "data.txt").write_text("x")
    row = {
        "id": "t", "input": ["q"], "target": 18, "reference": "eighteen", "category": 3,
        "metadata": {"k": [1]}, "files": {"in/data.txt": "d/data.txt"}, "other": "ignored",
    }  # fmt: skip
    (task,) = load(write("x.jsonl", [row]))
    assert (task.id, task.input, task.target, task.category) == ("t", ["q"], 18, "3")
    assert task.reference.answer == "eighteen"
    assert task.metadata == {"k": [1]}
    assert task.files == {"in/data.txt": (tmp_path / "d" / "data.txt").resolve()}


def test_the_same_row_as_csv(write, load, tmp_path):
    (tmp_path / "data.txt").write_text("x")
    text = (
        "id,input,target,reference,category,metadata,files\n"
        't,q,18,,,"{""k"": [1]}","{""in.txt"": ""data.txt""}"\n'
    )
    (task,) = load(write("x.csv", text), scorer="numeric")
    assert (task.input, task.target, task.category) == ("q", "18", None)
    assert task.reference.answer == "18"
    assert task.metadata == {"k": [1]}
    assert list(task.files) == ["in.txt"]


def test_other_names_of_columns(write, load):
    path = write("x.jsonl", [{"question": "q", "answer": "a", "n": "x", "topic": "maths"}])
    columns = {"input": "question", "target": "answer", "id": "n", "category": "topic"}
    (task,) = load(path, columns=columns)
    assert (task.id, task.input, task.target, task.category) == ("x", "q", "a", "maths")


@pytest.mark.parametrize("name", ["x.jsonl", "x.csv"])
def test_missing_columns_are_one_problem_each_with_what_is_there(write, load, name):
    if name.endswith("csv"):
        path = write(name, "question,answer\nq,a\nr,b\n")
    else:
        path = write(name, [{"question": "q", "answer": "a"}] * 2)
    assert problems(load, path, columns={"input": "queston", "category": "topic"}) == [
        "line 1: no row has a column 'queston'; the columns are: question, answer "
        "(did you mean question?); set -p benchmark.columns.input=NAME",
        "line 1: no row has a column 'target'; the columns are: question, answer; "
        "set -p benchmark.columns.target=NAME",
        "line 1: no row has a column 'topic'; the columns are: question, answer; "
        "set -p benchmark.columns.category=NAME",
    ]


def test_rows_that_lack_what_others_have(write, load):
    rows = [{"input": "q", "target": "a"}, {"input": "q"}, {"target": "a"}]
    assert problems(load, write("x.jsonl", rows)) == [
        "line 2: no 'target' in this row",
        "line 3: no 'input' in this row",
    ]


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        ({"input": None}, "column 'input' is empty"),
        ({"input": " \n"}, "column 'input' is empty"),
        ({"target": None}, "column 'target' is empty"),
        ({"target": "  "}, "column 'target' is empty"),
        ({"target": [1]}, "the target is an array; scorer 'exact' compares text (scorer json"),
        ({"target": {"a": 1}}, "the target is an object; scorer 'exact' compares text"),
        ({"category": ["x"]}, "the category must be text, found array"),
        ({"metadata": "x"}, "metadata must be an object, found string"),
        ({"files": ["x"]}, "files must be an object, found array"),
        ({"files": {"a": 3}}, "files: the path of 'a' must be text, found number"),
        ({"files": {"a": "absent.txt"}}, "files: no such file in the folder"),
        ({"files": {"a": "../up.txt"}}, "files: '../up.txt' is outside the folder"),
        ({"files": {"a": "/etc/passwd"}}, "files: '/etc/passwd' is outside the folder"),
        ({"files": {"a": "link.txt"}}, "files: 'link.txt' is outside the folder"),
        ({"files": {"a": "."}}, "files: no such file in the folder"),
        ({"files": {"../a": "here.txt"}}, "files: '../a' is not a path inside the workspace"),
        ({"files": {"/a": "here.txt"}}, "files: '/a' is not a path inside the workspace"),
        ({"files": {"": "here.txt"}}, "files: '' is not a path inside the workspace"),
        ({"files": {"a\0b": "here.txt"}}, "files: 'a\\x00b' is not a path inside the workspace"),
    ],
)
def test_rows_that_are_no_task(write, load, tmp_path, row, problem):
    (tmp_path / "here.txt").write_text("x")
    (tmp_path / "link.txt").symlink_to("/etc/passwd")
    rows = [{"input": "q", "target": "a"}, {"input": "q", "target": "a"} | row]
    (found,) = problems(load, write("x.jsonl", rows))
    assert found.startswith(f"line 2: {problem}")


@pytest.mark.parametrize(
    ("scorer", "target", "problem"),
    [
        ("numeric", "no number", "the target is not numeric"),
        ("choice", "AB", "the target must be one letter of ABC"),
        ("regex", "(", "not a regular expression"),
        ("json", "text", "the target is not JSON (Expecting value at column 1)"),
    ],
)
def test_targets_that_a_scorer_cannot_use(write, load, scorer, target, problem):
    path = write("x.jsonl", [{"input": "q", "target": target}])
    (found,) = problems(load, path, scorer=scorer)
    assert found.startswith(f"line 1: {problem}")


def test_a_cell_that_looks_like_json_is_text_to_scorers_of_text(write, load):
    path = write("x.csv", 'input,target\nq,"[1, 2]"\n')
    assert load(path)[0].target == "[1, 2]"
    assert load(path, scorer="json")[0].target == [1, 2]


def test_references(write, load):
    path = write("x.jsonl", [{"input": "q", "target": "a+"}])
    assert load(path)[0].reference.answer == "a+"
    assert load(path, scorer="regex")[0].reference is None
    path = write("y.jsonl", [{"input": "q", "target": "a+", "reference": "aa"}])
    assert load(path, scorer="regex")[0].reference.answer == "aa"


def test_one_pattern_for_all_rows_needs_no_targets(write, load):
    path = write("x.jsonl", [{"input": "q"}])
    assert load(path, scorer="regex", pattern="^yes")[0].target is None


@pytest.mark.parametrize(("name", "content"), [("x.jsonl", "\n \n"), ("x.csv", "id,input\n")])
def test_a_file_without_rows(write, load, name, content):
    with pytest.raises(DataError, match="has no rows"):
        load(write(name, content))
