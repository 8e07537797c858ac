"""Files that survive: atomic replacement, append-only lines, strict reading.

Every file is written beside its target and renamed, so a reader sees the old bytes or the new
ones, never half of them, and a full disk leaves the previous file intact. Fault points are named
after the file's role: `<role>.begin`, `.partial` (half the bytes written), `.written`,
`.synced`, `.renamed`, `.done`.
"""

import errno
import os
import stat
import threading
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import Any

from proctor.kernel import faults, jsontext
from proctor.kernel.errors import StorageError
from proctor.kernel.faults import fault_point

TEMPORARY_SUFFIX = ".tmp"
"""A stray file with this ending is left over from a crash and is ignored by every reader."""


class Sync(Enum):
    """How much reaches the disk before the call returns.

    `NONE`: nothing is waited for. `FILE`: rename, then sync the file: after a power failure the
    content is whole or the file counts as absent. `RECORD`: sync the file, rename, sync the
    directory: nothing announced afterwards can be lost.
    """

    NONE = 0
    FILE = 1
    RECORD = 2


def write_atomic(path: str, data: bytes, role: str, sync: Sync = Sync.NONE) -> None:
    """Put `data` at `path` in one step. Raises StorageError naming the path and the reason."""
    temporary = path + TEMPORARY_SUFFIX
    try:
        fault_point(f"{role}.begin")
        fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
        try:
            _write_all(fd, data, role)
            fault_point(f"{role}.written")
            if sync is Sync.RECORD:
                os.fsync(fd)
                fault_point(f"{role}.synced")
            os.rename(temporary, path)
            fault_point(f"{role}.renamed")
            if sync is Sync.FILE:
                os.fsync(fd)
        finally:
            os.close(fd)
        if sync is Sync.RECORD:
            sync_directory(os.path.dirname(path))
        fault_point(f"{role}.done")
    except OSError as error:
        _discard(temporary)
        raise storage_error(error, path) from error


def _write_all(fd: int, data: bytes, role: str) -> None:
    if not faults.active():  # one call in the usual case
        written = os.write(fd, data)
        if written == len(data):
            return
        data = data[written:]
    half = len(data) // 2
    view = memoryview(data)
    written = 0
    while written < len(data):
        end = half if written < half else len(data)
        written += os.write(fd, view[written:end])
        if written == half:
            fault_point(f"{role}.partial")


def _discard(path: str) -> None:
    try:
        os.unlink(path)
    except OSError:
        return


def storage_error(error: OSError, path: str) -> StorageError:
    """A StorageError that says which file and why, and what to do."""
    return StorageError(
        f"cannot write {path}: {error.strerror or error}",
        hint="free space or fix permissions, then `proctor resume` continues this run",
    )


def sync_directory(path: str) -> None:
    """Make the entries of a directory durable."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def sync_ancestors(path: str, root: str) -> None:
    """Make the entries of every directory from `path` up to and including `root` durable."""
    current = path
    while True:
        sync_directory(current)
        if current == root or len(current) <= len(root):
            return
        current = os.path.dirname(current)


def write_json(path: str, value: Any, role: str, sync: Sync = Sync.NONE) -> None:
    """Write `value` as one compact JSON document."""
    write_atomic(path, (jsontext.dumps(value) + "\n").encode("utf-8"), role, sync)


def write_pretty_json(path: str, value: Any, role: str, sync: Sync = Sync.NONE) -> None:
    """Write `value` as indented JSON, for files that people open."""
    write_atomic(path, jsontext.pretty(value).encode("utf-8"), role, sync)


def read_json(path: str) -> Any:
    """Parse a JSON file. Raises OSError, or JsonError naming the file."""
    try:
        return jsontext.loads(_read(path))
    except jsontext.JsonError as error:
        raise jsontext.JsonError(f"{path}: {error}") from None


_AT_ONCE = 1 << 16


def _read(path: str) -> bytes:
    """The bytes of a file; a file object would cost as much again as these calls. A pipe that lies
    in its place is read as empty instead of waited for, a device is not read to its end."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        first = os.read(fd, _AT_ONCE)
        if len(first) == _AT_ONCE and not stat.S_ISREG(os.fstat(fd).st_mode):
            raise OSError(errno.EINVAL, "not a file")
        pieces = [first]
        while piece := os.read(fd, _AT_ONCE):
            pieces.append(piece)
        return first if len(pieces) == 1 else b"".join(pieces)
    except OSError as error:
        error.filename = path
        raise
    finally:
        os.close(fd)


def read_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """(number from 1, line without its end) for each line; lines end only at `\\n`.

    A final piece without `\\n` is yielded too: the caller decides whether a torn tail counts.
    """
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            yield number, line.removesuffix(b"\n").removesuffix(b"\r")


class AppendFile:
    """A file of lines that only grows, safe from several threads. Lines are not synced.

    A crash or a full disk may leave a torn line; the next line that is written, by this process
    or the one that opens the file again, ends it first, so that it damages no other line.
    """

    def __init__(self, path: str, role: str) -> None:
        self._path = path
        self._role = role
        self._lock = threading.Lock()
        try:
            flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
            self._fd = os.open(path, flags, 0o644)
            size = os.fstat(self._fd).st_size
            self._torn = size > 0 and os.pread(self._fd, 1, size - 1) != b"\n"
        except OSError as error:
            raise storage_error(error, path) from error

    def append(self, value: Any) -> None:
        """Append `value` as one JSON line. Raises StorageError."""
        data = (jsontext.dumps(value) + "\n").encode("utf-8")
        try:
            fault_point(f"{self._role}.begin")
            with self._lock:
                self._write(b"\n" + data if self._torn else data)
            fault_point(f"{self._role}.done")
        except OSError as error:
            raise storage_error(error, self._path) from error

    def _write(self, data: bytes) -> None:
        """One write call in the usual case; in two halves where a test wants to come between."""
        written = 0
        if faults.active():
            written = os.write(self._fd, data[: len(data) // 2])
            self._torn = True
            fault_point(f"{self._role}.partial")
        while written < len(data):
            written += os.write(self._fd, data[written:] if written else data)
            self._torn = True
        self._torn = False

    def close(self) -> None:
        """Close the file. Idempotent."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def read_json_lines(path: str) -> Iterator[Any]:
    """Each whole JSON line of an append-only file; torn lines are passed over."""
    if not os.path.exists(path):
        return
    for _, line in read_lines(Path(path)):
        if not line.strip():
            continue
        try:
            yield jsontext.loads(line)
        except jsontext.JsonError:
            continue
