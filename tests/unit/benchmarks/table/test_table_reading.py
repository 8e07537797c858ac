"""File noise, physical line numbers, exact values (cases B25 and B26)."""

import csv
import gzip
import io
import os
import re

import pytest

from proctor.benchmarks.table import Table, TableOptions
from proctor.benchmarks.table.cells import from_cell, to_cell
from proctor.benchmarks.table.problems import Problems
from proctor.benchmarks.table.reading import rows
from proctor.benchmarks.table.source import find_source
from proctor.kernel.errors import DataError

BOM = b"\xef\xbb\xbf"


def read(path):
    problems = Problems(path)
    found = [(row.line, dict(row.values)) for row in rows(path, problems)]
    problems.check()
    return found


def faults(path):
    problems = Problems(path)
    list(rows(path, problems))
    with pytest.raises(DataError) as caught:
        problems.check()
    return [text.removeprefix(f"{path}, ") for text in caught.value.problems]


# --- B25

NOISY_JSONL = BOM + b'{"id": "a", "question": "one"}\r\n\r\n  \t \r\n{"id": "b", "question": "two"}'
NOISY_CSV = BOM + b"id,question\r\na,one\r\n\r\n  \r\nb,two"


def test_b25_noise_in_jsonl(write):
    path = write("tasks.jsonl", NOISY_JSONL)
    assert read(path) == [(1, {"id": "a", "question": "one"}), (4, {"id": "b", "question": "two"})]


def test_b25_noise_in_csv(write):
    path = write("tasks.csv", NOISY_CSV)
    assert read(path) == [(2, {"id": "a", "question": "one"}), (5, {"id": "b", "question": "two"})]


def test_b25_bad_rows_are_told_together_by_file_and_line(write):
    path = write("tasks.jsonl", NOISY_JSONL + b'\r\n[]\r\n{"id":')
    table = Table(
        TableOptions(scorer="python:" + __file__ + ":anything", columns={"input": "question"}), path
    )
    with pytest.raises(DataError) as caught:
        table.load_tasks()
    assert len(caught.value.problems) == 2
    assert caught.value.problems[0] == f"{path}, line 5: a row must be an object, found array"
    assert caught.value.problems[1].startswith(f"{path}, line 6: invalid JSON")
    assert f"2 problems in {path}" in str(caught.value)


@pytest.mark.parametrize("value", [[1, "two", [3.5, None]], {"k": [True]}, [], {}, ["a\r\nb"]])
def test_b25_values_read_back_from_our_own_csv(tmp_path, value):
    path = tmp_path / "export.csv"
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["input", "target"])
        writer.writerow([to_cell(["q"]), to_cell(value)])
    (task,) = Table(TableOptions(scorer="json"), path).load_tasks()
    assert task.target == value
    assert task.input == ["q"]


@pytest.mark.parametrize(
    "text",
    ["plain", "[1, 2]", '{"a": 1}', '"[1]"', '"\\"[1]\\""', '"quoted"', "[not json", "{", '"', "",
     "007", "a\nb", '[{"deep": "]"}]', " [1]"],
)  # fmt: skip
def test_text_reads_back_as_the_same_text(text):
    assert from_cell(to_cell(text)) == text


def test_cells_of_other_programs_mean_themselves():
    assert from_cell('"Yes," he said') == '"Yes," he said'
    assert from_cell('"quoted"') == '"quoted"'
    assert to_cell("plain") == "plain"


# --- B26


def test_b26_records_end_only_at_newlines(write):
    texts = ["a\u2028b", "c\u0085d", "e\x0cf\u2029\x1c"]
    lines = [f'{{"input": "{text}"}}' for text in texts[:2]] + ['{"input": "e\\ff\u2029\\u001c"}']
    path = write("log.jsonl", "\r\n".join(lines) + "\r\n")
    assert [values["input"] for _, values in read(path)] == texts
    path = write("log.csv", "input\n" + "\n".join(texts) + "\n")
    assert [values["input"] for _, values in read(path)] == texts


def test_b26_integers_keep_all_digits(write, load):
    path = write(
        "big.jsonl", '{"id": 9007199254740993, "input": 107505301260286111, "target": 1}\n'
    )
    (task,) = load(path)
    assert task.id == "9007199254740993"
    assert task.input == 107505301260286111


@pytest.mark.parametrize("token", ["NaN", "Infinity", "-Infinity", "1e999"])
def test_b26_what_is_not_json_is_refused_with_its_line(write, token):
    path = write("x.jsonl", f'{{"a": 1}}\n{{"score": {token}}}\n')
    (fault,) = faults(path)
    assert re.match(r"line 2: invalid JSON: (NaN|-?Infinity|number)", fault)


def test_b26_an_integer_of_5000_digits_is_refused_with_its_line(write):
    path = write("x.jsonl", '{"a": 1}\n\n{"a": ' + "7" * 5000 + '}\n{"a": 2}\n')
    (fault,) = faults(path)
    assert fault.startswith("line 3: invalid JSON: Exceeds the limit")


# --- more of the same kind


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        (b'"text"', "a row must be an object, found string"),
        (b"3", "a row must be an object, found number"),
        (b"true", "a row must be an object, found boolean"),
        (b"null", "a row must be an object, found null"),
        (b'{"a": 1} {"b": 2}', "invalid JSON: Extra data at column 10"),
        (b"{'a': 1}", "invalid JSON: Expecting property name"),
        (b'{"a": "\xff"}', "invalid JSON: not UTF-8 at byte 7"),
        (b'{"a": "tab\there"}', "invalid JSON: Invalid control character at"),
        (b"[" * 100_000, "invalid JSON: nested too deeply"),
        (rb'{"a": ["\ud83d"]}', "a text holds half a character"),
        (rb'{"\udc00": 1}', "a text holds half a character"),
        (b"\xef\xbb\xbf{}", "invalid JSON"),
    ],
)
def test_rows_that_are_none(write, line, fault):
    (found,) = faults(write("x.jsonl", b'{"a": 1}\n' + line + b"\n"))
    assert found.startswith(f"line 2: {fault}")


def test_a_whole_pair_of_surrogates_is_one_character(write):
    assert read(write("x.jsonl", rb'{"a": "\ud83d\ude00"}')) == [(1, {"a": "\U0001f600"})]


def test_csv_rows_start_where_they_start(write):
    text = 'id,input\n1,"two\nlines"\n\n2,"a ""quoted"" word, and a comma"\n3,"x\n\ny"\n4,last\n'
    assert read(write("x.csv", text)) == [
        (2, {"id": "1", "input": "two\nlines"}),
        (5, {"id": "2", "input": 'a "quoted" word, and a comma'}),
        (6, {"id": "3", "input": "x\n\ny"}),
        (9, {"id": "4", "input": "last"}),
    ]


def test_csv_carriage_returns_are_data_only_where_lines_end_without_them(write):
    text = 'id,input\r\n1,"two\r\nlines"\r\n2,x\r\n'
    assert [v["input"] for _, v in read(write("crlf.csv", text))] == ["two\nlines", "x"]
    text = 'id,input\n1,"two\r\nlines"\n2,x\r\n'
    assert [v["input"] for _, v in read(write("lf.csv", text))] == ["two\r\nlines", "x"]


def test_csv_faults_are_told_together(write):
    text = b'id,input\n1\n2,a,b\n3,"x"y\n4,ok\n5,\xff\n6,"never closed\n'
    assert faults(write("x.csv", text)) == [
        "line 2: the row has 1 cell, the header has 2",
        "line 3: the row has 3 cells, the header has 2",
        "line 4: invalid CSV: ',' expected after '\"'",
        "line 6: not UTF-8 at byte 2",
        "line 7: invalid CSV: unexpected end of data",
    ]


def test_csv_columns_without_a_name_are_ignored_and_blank_rows_skipped(write):
    assert read(write("x.csv", " id , input ,\n1,a,\n,,\n2,b,note\n")) == [
        (2, {"id": "1", "input": "a"}),
        (4, {"id": "2", "input": "b"}),
    ]


def test_csv_columns_with_one_name_are_refused(write):
    assert faults(write("x.csv", "id,input,input\n1,a,b\n")) == [
        "line 1: the column 'input' is there twice"
    ]


def test_csv_cells_may_be_long(write):
    long = "y" * 500_000
    assert read(write("x.csv", f"input\n{long}\n")) == [(2, {"input": long})]


def test_compressed_files_are_recognised_by_content(write):
    packed = gzip.compress(b'{"a": 1}\n{"a": 2}\n')
    expected = [(1, {"a": 1}), (2, {"a": 2})]
    assert read(write("x.jsonl.gz", packed)) == expected
    assert read(write("y.jsonl", packed)) == expected
    assert read(write("x.csv.gz", gzip.compress(b"a\n1\n"))) == [(2, {"a": "1"})]
    assert read(write("z.jsonl.gz", b'{"a": 1}\n')) == [(1, {"a": 1})]


@pytest.mark.parametrize("cut", [12, 30, -4])
def test_a_damaged_compressed_file_is_a_clear_error(write, cut):
    packed = gzip.compress(b"".join(b'{"a": %d}\n' % (i * i) for i in range(50)))
    with pytest.raises(DataError, match="the compressed data is damaged after line"):
        read(write("x.jsonl.gz", packed[:cut]))


def test_an_unpacked_size_without_end_is_refused(write, monkeypatch):
    from proctor.benchmarks.table import source

    monkeypatch.setattr(source, "MAX_UNPACKED_BYTES", 10_000)
    packed = gzip.compress(b'{"a": 1}\n' * 2_000)
    with pytest.raises(DataError, match="unpacks to more than 10000 bytes"):
        read(write("x.jsonl.gz", packed))
    assert len(read(write("x.jsonl", b'{"a": 1}\n' * 2_000))) == 2_000


def test_a_line_without_end_is_refused(write, monkeypatch):
    from proctor.benchmarks.table import source

    monkeypatch.setattr(source, "MAX_LINE_BYTES", 1_000)
    path = write("x.jsonl.gz", gzip.compress(b'{"a": 1}\n{"a": "' + b"x" * 5_000_000))
    with pytest.raises(DataError, match="line 2: longer than 1000 bytes"):
        read(path)


def test_utf_16_is_named(write):
    path = write("x.jsonl", '{"a": 1}'.encode("utf-16"))
    with pytest.raises(DataError, match="is UTF-16, not UTF-8") as caught:
        read(path)
    assert caught.value.hint == "save it again as UTF-8"


def test_problems_are_counted_beyond_those_kept(write):
    path = write("x.jsonl", "x\n" * 3_000)
    problems = Problems(path)
    assert list(rows(path, problems)) == []
    with pytest.raises(DataError, match="3000 problems in") as caught:
        problems.check()
    assert len(caught.value.problems) == 1_000
    assert "line 20: " in str(caught.value)
    assert "… and 980 more" in str(caught.value)


def test_reading_is_streamed(tmp_path):
    """20 MB are read without holding more than a row."""
    import tracemalloc

    path = tmp_path / "big.jsonl.gz"
    line = b'{"input": "' + b"x" * 99_980 + b'"}\n'
    with gzip.open(path, "wb", compresslevel=1) as file:
        for _ in range(200):
            file.write(line)
    tracemalloc.start()
    try:
        count = sum(1 for _ in rows(path, Problems(path)))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert count == 200
    assert peak < 2_000_000


# --- where the data is


def test_the_only_data_file_of_a_folder(write, tmp_path):
    path = write("tasks.jsonl", b"")
    write("README.md", b"")
    assert find_source(tmp_path, "table") == path
    assert find_source(path, "table") == path


def test_a_folder_without_or_with_several_data_files(write, tmp_path):
    with pytest.raises(DataError, match=r"holds no data file \(\*\.jsonl, .*\*\.csv.*\.gz\)"):
        find_source(tmp_path, "table")
    write("b.csv", b"")
    write("a.jsonl.gz", b"")
    with pytest.raises(DataError, match=r"holds 2 data files: a\.jsonl\.gz, b\.csv") as caught:
        find_source(tmp_path, "table")
    assert caught.value.hint == "give --data the path of one of them"
    assert find_source(tmp_path, "gsm8k", ("jsonl",)).name == "a.jsonl.gz"


def test_a_missing_path_names_what_is_near(write, tmp_path):
    write("tasks.jsonl", b"")
    with pytest.raises(DataError, match="no such file or folder") as caught:
        find_source(tmp_path / "task.jsonl", "table")
    assert caught.value.hint == f"did you mean {tmp_path / 'tasks.jsonl'}?"
    with pytest.raises(DataError) as caught:
        find_source(tmp_path / "none" / "x.jsonl", "table")
    assert "there is no folder" in caught.value.hint
    with pytest.raises(DataError, match="benchmark 'table' needs data"):
        find_source(None, "table")


def test_other_kinds_of_files_are_refused_without_opening_them(write, tmp_path):
    os.mkfifo(tmp_path / "pipe.jsonl")
    with pytest.raises(DataError, match="is not a regular file"):
        find_source(tmp_path / "pipe.jsonl", "table")
    with pytest.raises(DataError, match="no data file"):
        find_source(tmp_path, "table")
    with pytest.raises(DataError, match="type of the file is not recognised") as caught:
        find_source(write("x.xlsx", b""), "table")
    assert "*.csv" in caught.value.hint


def test_the_csv_writer_of_python_reads_back(tmp_path):
    cells = ["a", 'say "x"', "l1\nl2", "comma, here", "\u2028", " padded ", "[1]", "x\ry"]
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    writer.writerows([[f"c{i}" for i in range(len(cells))], cells])
    path = tmp_path / "x.csv"
    path.write_bytes(text.getvalue().encode("utf-8"))
    ((line, values),) = read(path)
    assert line == 2
    assert list(values.values()) == cells
