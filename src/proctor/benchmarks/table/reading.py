"""Rows of JSONL and CSV files, one at a time, with the physical line each starts on.

Blank lines are skipped and counted. A carriage return before the newline is dropped. A row that
cannot be read is noted in `Problems` and left out; reading goes on, so that all are told at once.
"""

import csv
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from proctor.benchmarks.table.problems import Problems
from proctor.benchmarks.table.source import MAX_LINE_BYTES, format_of, physical_lines
from proctor.kernel import jsontext
from proctor.kernel.jsontext import JsonError

_KINDS = {
    type(None): "null",
    bool: "boolean",
    int: "number",
    float: "number",
    str: "string",
    list: "array",
    dict: "object",
}


@dataclass(frozen=True, slots=True)
class Row:
    """One record. `cells`: the values are CSV cells, that is text."""

    line: int
    values: Mapping[str, Any]
    cells: bool = False


def kind_of(value: Any) -> str:
    """The JSON name of a value's type."""
    return _KINDS.get(type(value), type(value).__name__)


def rows(path: Path, problems: Problems) -> Iterator[Row]:
    """The rows of a file, by the format that its name tells. Raises DataError."""
    return csv_rows(path, problems) if format_of(path) == "csv" else json_rows(path, problems)


def json_rows(path: Path, problems: Problems) -> Iterator[Row]:
    """The objects of a JSONL file."""
    for number, line in physical_lines(path):
        if not line.strip():
            continue
        try:
            value = jsontext.loads(line)
        except JsonError as error:
            problems.add(number, f"invalid JSON: {error}")
            continue
        if not isinstance(value, dict):
            problems.add(number, f"a row must be an object, found {kind_of(value)}")
        elif b"\\u" in line and _has_lone_surrogate(value):
            problems.add(
                number, "a text holds half a character (a lone surrogate, \\ud800-\\udfff)"
            )
        else:
            yield Row(number, value)


def _has_lone_surrogate(value: Any) -> bool:
    if isinstance(value, str):
        return not value.isascii() and any("\ud800" <= ch <= "\udfff" for ch in value)
    if isinstance(value, list):
        return any(map(_has_lone_surrogate, value))
    if isinstance(value, dict):
        return any(_has_lone_surrogate(k) or _has_lone_surrogate(v) for k, v in value.items())
    return False


def csv_rows(path: Path, problems: Problems) -> Iterator[Row]:
    """The rows of a CSV file with a header line (RFC 4180: commas, double quotes).

    Columns without a name are ignored; rows whose cells are all blank are skipped.
    """
    # The limit is process-wide in the csv module; it is only ever raised.
    csv.field_size_limit(max(csv.field_size_limit(), MAX_LINE_BYTES))
    reader = csv.reader(_text_lines(path, problems), strict=True)
    header: list[str] | None = None
    while True:
        start = reader.line_num + 1
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            problems.add(start, f"invalid CSV: {error}")
            continue
        if not any(cell.strip() for cell in cells):
            continue
        if header is None:
            header = cells
            if not _header_is_usable(header, start, problems):
                return
        elif len(cells) != len(header):
            problems.add(start, f"{_count(len(cells))}, the header has {len(header)}")
        else:
            yield Row(start, {k: v for k, v in zip(header, cells, strict=True) if k}, cells=True)


def _count(cells: int) -> str:
    return "the row has 1 cell" if cells == 1 else f"the row has {cells} cells"


def _header_is_usable(header: list[str], line: int, problems: Problems) -> bool:
    header[:] = [name.strip() for name in header]
    named = [name for name in header if name]
    doubled = sorted({name for name in named if named.count(name) > 1})
    for name in doubled:
        problems.add(line, f"the column {name!r} is there twice")
    return not doubled


def _text_lines(path: Path, problems: Problems) -> Iterator[str]:
    """Decoded lines for the csv module, which also sees the newlines inside quoted cells.

    In a file whose first line ends in CR LF, all line ends become LF: that is how the program
    that wrote it ends lines, so the CR is no part of a value. In other files it is data.
    """
    carriage = False
    for number, line in physical_lines(path):
        if number == 1:
            carriage = line.endswith(b"\r\n")
        if carriage and line.endswith(b"\r\n"):
            line = line[:-2] + b"\n"
        try:
            yield line.decode("utf-8")
        except UnicodeDecodeError as error:
            problems.add(number, f"not UTF-8 at byte {error.start}")
            yield line.decode("utf-8", "replace")
