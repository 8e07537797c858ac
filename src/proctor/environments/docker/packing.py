"""Tar streams for an engine: one file, or a tree of the host whose links stay inside it."""

import io
import os
import stat
import tarfile
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import IO

from proctor.environments import copying
from proctor.kernel.errors import EnvironmentFault

_IN_MEMORY = 4_000_000
_CHUNK = 262_144
_MAX_DEPTH = 100
_BLOCK = tarfile.BLOCKSIZE


def one_file(name: str, data: bytes, mode: int, ids: tuple[int, int], mtime: float) -> bytes:
    """A tar stream with one regular file."""
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode, entry.mtime = len(data), mode & 0o777, mtime
    entry.uid, entry.gid = ids
    return b"".join((_head(entry), data, b"\0" * (-len(data) % _BLOCK), b"\0" * 2 * _BLOCK))


def folders(names: Sequence[str], ids: tuple[int, int], mode: int, mtime: float) -> bytes:
    """A tar stream with empty folders, outer ones first."""
    parts = []
    for name in names:
        entry = tarfile.TarInfo(name)
        entry.type, entry.mode, entry.mtime = tarfile.DIRTYPE, mode, mtime
        entry.uid, entry.gid = ids
        parts.append(_head(entry))
    return b"".join((*parts, b"\0" * 2 * _BLOCK))


class Pack:
    """Stages a file or tree as a tar stream in a temporary file. Blocking: for a thread.

    The whole tree is checked before anything is sent. Refuses what the contract's `upload` does.
    """

    def __init__(self, ids: tuple[int, int]) -> None:
        self._ids = ids
        self._stopped = False
        self.stream: IO[bytes] = tempfile.SpooledTemporaryFile(max_size=_IN_MEMORY)  # noqa: SIM115

    def stop(self) -> None:
        """Make `entry`, which may run in another thread, end soon with `copying.Stopped`."""
        self._stopped = True

    def entry(self, source: Path, name: str, *, top: bool) -> None:
        """Add `source` under `name`; a folder itself (not what is in it) only if `top`."""
        source = Path(os.path.abspath(source))
        place = os.open(source.parent, copying.DIRECTORY & ~os.O_NOFOLLOW)
        try:
            self._entry(place, source.name or ".", name, str(source), 0 if top else -1)
        finally:
            os.close(place)
        self.stream.write(b"\0" * 2 * _BLOCK)

    def size(self) -> int:
        """Bytes of the stream; rewinds it."""
        size = self.stream.tell()
        self.stream.seek(0)
        return size

    def _entry(self, place: int, own: str, name: str, shown: str, depth: int) -> None:
        if self._stopped:
            raise copying.Stopped
        facts = os.stat(own, dir_fd=place, follow_symlinks=False)
        kind = stat.S_IFMT(facts.st_mode)
        entry = tarfile.TarInfo(name)
        entry.mtime, entry.mode = facts.st_mtime, stat.S_IMODE(facts.st_mode) & 0o777
        entry.uid, entry.gid = self._ids
        if kind == stat.S_IFREG:
            self._file(place, own, entry, shown)
        elif kind == stat.S_IFDIR:
            self._folder(place, own, entry, shown, depth)
        elif kind == stat.S_IFLNK and depth > 0:
            entry.type, entry.linkname = tarfile.SYMTYPE, os.readlink(own, dir_fd=place)
            copying.check_link(entry.linkname, depth - 1, shown)
            self.stream.write(_head(entry))
        else:
            raise copying.not_a_file(shown, kind)

    def _folder(self, place: int, own: str, entry: tarfile.TarInfo, shown: str, depth: int) -> None:
        if depth > _MAX_DEPTH:
            message = f"{shown} is nested deeper than {_MAX_DEPTH} folders"
            raise EnvironmentFault(message, code="too_large", permanent=True)
        if depth >= 0:
            entry.type = tarfile.DIRTYPE
            self.stream.write(_head(entry))
        folder = os.open(own, copying.DIRECTORY, dir_fd=place)
        prefix = "" if entry.name == "." else f"{entry.name}/"
        try:
            for inner in sorted(os.listdir(folder)):
                inside = f"{shown}/{inner}"
                self._entry(folder, inner, f"{prefix}{inner}", inside, max(depth, 0) + 1)
        finally:
            os.close(folder)

    def _file(self, place: int, own: str, entry: tarfile.TarInfo, shown: str) -> None:
        source = copying.open_regular(place, own, shown)
        try:
            left = entry.size = os.fstat(source).st_size
            self.stream.write(_head(entry))
            while left and (chunk := os.read(source, min(left, _CHUNK))):
                if self._stopped:
                    raise copying.Stopped
                left -= len(chunk)
                self.stream.write(chunk)
        finally:
            os.close(source)
        # A file that shrank while it was read is filled up: its size stands in the head already.
        self.stream.write(b"\0" * (left + -entry.size % _BLOCK))


def _head(entry: tarfile.TarInfo) -> bytes:
    return entry.tobuf(tarfile.GNU_FORMAT, "utf-8", "surrogateescape")


def first_file(data: bytes, shown: str, limit_bytes: int) -> bytes:
    """The contents of the first entry of a tar stream, which must be a regular file."""
    try:
        with tarfile.open(fileobj=io.BytesIO(data), mode="r:") as archive:
            entry = archive.next()
            if entry is None or not entry.isreg():
                raise copying.not_a_file(shown, 0)
            if entry.size > limit_bytes:
                raise too_large(shown, limit_bytes)
            stream = archive.extractfile(entry)
            return b"" if stream is None else stream.read()
    except tarfile.TarError as error:
        raise EnvironmentFault(f"cannot read {shown}: {error}") from error


def too_large(shown: str, limit_bytes: int) -> EnvironmentFault:
    """The fault for more than the caller wants."""
    message = f"{shown} holds more than {limit_bytes} bytes"
    return EnvironmentFault(message, code="too_large", permanent=True)
