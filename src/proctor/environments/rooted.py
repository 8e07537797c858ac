"""File operations below one private folder of the host that hostile code may have filled."""

import errno
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from proctor.environments import copying
from proctor.environments.removal import remove_contents, remove_entry
from proctor.kernel.errors import EnvironmentFault

Parts = Sequence[str]
"""The names on the way from the root: no empty ones, no `.` and no `..`."""

_CHUNK = 262_144
_THROUGH_LINK = (errno.ELOOP, errno.ENOTDIR)


def gone(what: str) -> EnvironmentFault:
    """The fault for a place that is not there any more."""
    return EnvironmentFault(what, code="environment_gone")


class RootedFiles:
    """Operations on paths relative to `root`. No link is followed, at any step of a path.

    `shown` is the path as the caller knows it, for messages. Blocking; small files take
    microseconds, trees belong into a thread. `ids` own whatever is made.
    """

    def __init__(self, root: str, ids: copying.Ids = None) -> None:
        self.root = root
        self._ids = ids

    def read(self, parts: Parts, shown: str, limit_bytes: int) -> bytes:
        """The bytes of a regular file."""
        with _faults("read", shown), self._folder(parts[:-1]) as folder:
            fd = copying.open_regular(folder, _last(parts, shown), shown)
            try:
                data = _contents(fd, limit_bytes)
            finally:
                os.close(fd)
        if data is None:
            message = f"{shown} holds more than {limit_bytes} bytes"
            raise EnvironmentFault(message, code="too_large", permanent=True)
        return data

    def write(self, parts: Parts, shown: str, data: bytes, mode: int) -> None:
        """Write a file in place of whatever file or link has its name."""
        name = _last(parts, shown)
        with _faults("write", shown), self._folder(parts[:-1], make=True) as folder:
            copying.clear(folder, name, shown)
            fd = copying.create(folder, name, mode & 0o777, self._ids)
            try:
                copying.write_all(fd, data)
            finally:
                os.close(fd)

    def make(self, parts: Parts, shown: str) -> None:
        """Make a folder and those above it."""
        with _faults("make", shown), self._folder(parts, make=True):
            pass

    def empty(self, parts: Parts, shown: str, *, max_entries: int | None = None) -> bool:
        """Remove what a folder holds, and keep the folder; False when there is more to do."""
        with _faults("empty", shown):
            try:
                with self._folder(parts) as folder:
                    return remove_contents(folder, max_entries=max_entries)
            except FileNotFoundError:
                return True

    def remove(self, parts: Parts, shown: str, *, max_entries: int | None = None) -> bool:
        """Remove a file or tree; False when `max_entries` did not suffice (call again)."""
        name = _last(parts, shown)
        with _faults("remove", shown):
            try:
                with self._folder(parts[:-1]) as folder:
                    return remove_entry(folder, name, max_entries=max_entries)
            except FileNotFoundError:
                return True

    def upload(self, copy: copying.TreeCopy, source: Path, parts: Parts, shown: str) -> None:
        """Copy a host file or tree in."""
        name = _last(parts, shown)
        source = Path(os.path.abspath(source))
        with _faults("upload", str(source)):
            origin = os.open(source.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                with self._folder(parts[:-1], make=True) as folder:
                    copy.entry(origin, source.name or ".", folder, name, str(source))
            finally:
                os.close(origin)

    def download(self, copy: copying.TreeCopy, parts: Parts, shown: str, target: Path) -> None:
        """Copy a file or tree out to the host."""
        name = _last(parts, shown)
        target = Path(os.path.abspath(target))
        with _faults("download", shown), self._folder(parts[:-1]) as folder:
            target.parent.mkdir(parents=True, exist_ok=True)
            place = os.open(target.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                copy.entry(folder, name, place, target.name, shown)
            finally:
                os.close(place)

    @contextmanager
    def _folder(self, parts: Parts, *, make: bool = False) -> Iterator[int]:
        """A descriptor of the folder at `parts`, reached without following any link."""
        try:
            fd = os.open(self.root, copying.DIRECTORY)
        except (FileNotFoundError, NotADirectoryError):
            raise gone(f"the environment's folder {self.root} is gone") from None
        try:
            for part in parts:
                if make:
                    inner = copying.step_into(fd, part, ids=self._ids)
                else:
                    inner = os.open(part, copying.DIRECTORY, dir_fd=fd)
                os.close(fd)
                fd = inner
            yield fd
        finally:
            os.close(fd)


def _contents(fd: int, limit_bytes: int) -> bytes | None:
    """All bytes of an open file, or None when there are more than the limit."""
    if os.fstat(fd).st_size > limit_bytes:
        return None
    chunks: list[bytes] = []
    left = limit_bytes
    while chunk := os.read(fd, _CHUNK):
        left -= len(chunk)
        if left < 0:  # it grew while we read
            return None
        chunks.append(chunk)
    return b"".join(chunks)


def _last(parts: Parts, shown: str) -> str:
    if not parts:
        message = f"{shown} is the environment itself, not a file or folder in it"
        raise EnvironmentFault(message, code="refused_path", permanent=True)
    return parts[-1]


@contextmanager
def _faults(action: str, shown: str) -> Iterator[None]:
    """Turn errors of the host's file system into faults that say which path and why."""
    try:
        yield
    except FileNotFoundError as error:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), shown) from error
    except OSError as error:
        if error.errno in _THROUGH_LINK:
            message = f"cannot {action} {shown}: a link or file stands in the way of its path"
            raise EnvironmentFault(message, code="refused_path", permanent=True) from error
        raise EnvironmentFault(f"cannot {action} {shown}: {error.strerror}") from error
