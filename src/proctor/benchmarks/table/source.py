"""From `--data` to one file, and from that file to its physical lines.

Lines end only at `\\n`. A byte-order mark at the start of the file is dropped. Compressed files
are recognised by their content, whatever their name. Nothing is held but the current line.
"""

import difflib
import gzip
import stat
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from proctor.kernel.errors import DataError

FORMATS = {".jsonl": "jsonl", ".ndjson": "jsonl", ".csv": "csv"}
MAX_LINE_BYTES = 64 * 1024 * 1024
"""A longer physical line is refused: 64 MiB."""
MAX_UNPACKED_BYTES = 4 * 1024**3
"""A compressed file that unpacks to more is refused: 4 GiB."""

_BOM = b"\xef\xbb\xbf"
_UTF16 = (b"\xff\xfe", b"\xfe\xff")
_RECOGNISED = ", ".join(f"*{suffix}" for suffix in FORMATS) + " (each also with .gz)"


def find_source(data: Path | None, benchmark_id: str, formats: tuple[str, ...] = ()) -> Path:
    """The data file that `data` means: itself, or the one recognised file of a folder.

    `formats` restricts what is recognised (`jsonl`, `csv`); empty means both. Raises DataError.
    """
    if data is None:
        raise DataError(
            f"benchmark {benchmark_id!r} needs data", hint="give --data FILE or --data FOLDER"
        )
    try:
        mode = data.stat().st_mode
    except OSError as error:
        raise DataError(_cannot_open(data, error), hint=_nearest_paths(data)) from None
    if stat.S_ISDIR(mode):
        return _only_file(data, formats)
    if not stat.S_ISREG(mode):
        raise DataError(f"{data} is not a regular file", hint="give a data file or its folder")
    if not _accepted(data, formats):
        raise DataError(
            f"{data}: the type of the file is not recognised",
            hint=f"name it after what it holds: {_expected(formats)}",
        )
    return data


def format_of(path: Path) -> str | None:
    """`jsonl`, `csv` or None, by the name."""
    name = path.name.lower().removesuffix(".gz")
    return FORMATS.get(Path(name).suffix)


def physical_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """(line number from 1, bytes with their newline) of a file. Raises DataError."""
    total = 0
    number = 0
    try:
        with path.open("rb") as raw:
            stream, packed = _unpacked(raw)
            while line := stream.readline(MAX_LINE_BYTES + 1):
                number += 1
                total += len(line)
                if len(line) > MAX_LINE_BYTES:
                    raise DataError(f"{path}, line {number}: longer than {MAX_LINE_BYTES} bytes")
                if packed and total > MAX_UNPACKED_BYTES:
                    raise DataError(f"{path}: unpacks to more than {MAX_UNPACKED_BYTES} bytes")
                if number == 1:
                    line = _without_mark(path, line)
                yield number, line
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DataError(
            f"{path}: the compressed data is damaged after line {number}: {error}",
            hint="fetch or pack the file again",
        ) from None
    except OSError as error:
        raise DataError(_cannot_open(path, error)) from None


def _unpacked(raw: BinaryIO) -> tuple[BinaryIO, bool]:
    magic = raw.read(2)
    raw.seek(0)
    if magic == b"\x1f\x8b":
        return gzip.GzipFile(fileobj=raw, mode="rb"), True  # type: ignore[return-value]
    return raw, False


def _without_mark(path: Path, line: bytes) -> bytes:
    if line.startswith(_UTF16):
        raise DataError(f"{path} is UTF-16, not UTF-8", hint="save it again as UTF-8")
    return line.removeprefix(_BOM)


def _only_file(folder: Path, formats: tuple[str, ...]) -> Path:
    try:
        found = sorted(p for p in folder.iterdir() if _accepted(p, formats) and p.is_file())
    except OSError as error:
        raise DataError(_cannot_open(folder, error)) from None
    if len(found) == 1:
        return found[0]
    if not found:
        raise DataError(
            f"{folder} holds no data file ({_expected(formats)})",
            hint="give --data the path of the file itself",
        )
    names = ", ".join(p.name for p in found[:10]) + (", …" if len(found) > 10 else "")
    raise DataError(
        f"{folder} holds {len(found)} data files: {names}",
        hint="give --data the path of one of them",
    )


def _accepted(path: Path, formats: tuple[str, ...]) -> bool:
    kind = format_of(path)
    return kind is not None and (not formats or kind in formats)


def _expected(formats: tuple[str, ...]) -> str:
    if not formats:
        return _RECOGNISED
    return ", ".join(f"*{s}" for s, kind in FORMATS.items() if kind in formats) + " (also .gz)"


def _cannot_open(path: Path, error: OSError) -> str:
    if isinstance(error, FileNotFoundError):
        return f"no such file or folder: {path}"
    return f"{path} cannot be read: {error.strerror or error}"


def _nearest_paths(path: Path) -> str:
    try:
        names = [p.name for p in path.parent.iterdir()]
    except OSError:
        return f"there is no folder {path.parent} either"
    close = difflib.get_close_matches(path.name, names, n=3, cutoff=0.5)
    if not close:
        return f"check the path; relative paths start from {Path.cwd()}"
    return "did you mean " + " or ".join(str(path.parent / name) for name in close) + "?"
