"""Takes a tar stream of a hostile tree apart into a folder of the host."""

import os
import stat
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any, cast

from proctor.environments import copying
from proctor.kernel.errors import EnvironmentFault

_CHUNK = 262_144
_MAX_DEPTH = 100
_KINDS = {
    tarfile.FIFOTYPE: stat.S_IFIFO,
    tarfile.CHRTYPE: stat.S_IFCHR,
    tarfile.BLKTYPE: stat.S_IFBLK,
}


class Unpack:
    """One download. Blocking: for a thread.

    Whatever stands on the way at the target is treated as by `copying.TreeCopy`: nothing is
    written through a link. `limit_bytes` bounds the files together, and with them their number.
    """

    def __init__(self, limit_bytes: int, shown: str) -> None:
        self._bound = copying.Bound(limit_bytes)
        self._shown = shown
        self._stopped = False

    def stop(self) -> None:
        """Make `run`, which may be in another thread, end soon with `copying.Stopped`."""
        self._stopped = True

    def run(self, read: Callable[[int], bytes], target: Path) -> None:
        """Write everything of the stream; its topmost entry becomes `target`."""
        target = Path(os.path.abspath(target))
        source = cast(IO[bytes], _Source(read))
        try:
            with tarfile.open(fileobj=source, mode="r|", bufsize=_CHUNK) as archive:
                for entry in archive:
                    if self._stopped:
                        raise copying.Stopped
                    self._entry(archive, entry, target)
                    cast(Any, archive).members.clear()  # a tree can have very many entries
        except tarfile.TarError as error:
            raise EnvironmentFault(f"cannot download {self._shown}: {error}") from error

    def _entry(self, archive: tarfile.TarFile, entry: tarfile.TarInfo, target: Path) -> None:
        parts = _parts(entry.name, self._shown)
        shown = "/".join((self._shown, *parts))
        self._bound.entry(shown)
        if len(parts) > _MAX_DEPTH:
            message = f"{shown} is nested deeper than {_MAX_DEPTH} folders"
            raise EnvironmentFault(message, code="too_large", permanent=True)
        if not parts:
            target.parent.mkdir(parents=True, exist_ok=True)
        place, name = self._place(target, parts)
        try:
            self._make(archive, entry, (place, name), shown, parts, target)
        finally:
            os.close(place)

    def _make(
        self,
        archive: tarfile.TarFile,
        entry: tarfile.TarInfo,
        where: tuple[int, str],
        shown: str,
        parts: list[str],
        target: Path,
    ) -> None:
        place, name = where
        if entry.isdir():
            os.close(copying.make_folder(place, name, entry.mode & 0o777 | stat.S_IRWXU))
        elif entry.isreg():
            stream = archive.extractfile(entry)
            if stream is not None:
                self._file(stream.read, entry, where, shown)
        elif entry.issym() and parts:
            copying.check_link(entry.linkname, len(parts) - 1, shown)
            copying.clear(place, name, shown)
            os.symlink(entry.linkname, name, dir_fd=place)
        elif entry.islnk() and parts:
            self._again(entry, where, shown, target)
        else:
            raise copying.not_a_file(shown, _KINDS.get(entry.type, stat.S_IFLNK))

    def _again(
        self, entry: tarfile.TarInfo, where: tuple[int, str], shown: str, target: Path
    ) -> None:
        """A second name of a file that came before: a copy of it."""
        place, name = self._place(target, _parts(entry.linkname, shown))
        try:
            source = copying.open_regular(place, name, shown)
        finally:
            os.close(place)
        try:
            entry.size = os.fstat(source).st_size
            self._file(lambda size: os.read(source, size), entry, where, shown)
        finally:
            os.close(source)

    def _file(
        self,
        read: Callable[[int], bytes],
        entry: tarfile.TarInfo,
        where: tuple[int, str],
        shown: str,
    ) -> None:
        self._bound.size(entry.size, shown)
        place, name = where
        copying.clear(place, name, shown)
        fd = copying.create(place, name, entry.mode & 0o777 | stat.S_IRUSR)
        try:
            while chunk := read(_CHUNK):
                if self._stopped:
                    raise copying.Stopped
                copying.write_all(fd, chunk)
            os.utime(fd, (max(0.0, entry.mtime), max(0.0, entry.mtime)))
        finally:
            os.close(fd)

    def _place(self, target: Path, parts: list[str]) -> tuple[int, str]:
        """A descriptor of the folder that holds an entry, and the entry's name in it."""
        fd = os.open(target.parent, copying.DIRECTORY & ~os.O_NOFOLLOW)
        if not parts:
            return fd, target.name
        try:
            for part in (target.name, *parts[:-1]):
                inner = copying.step_into(fd, part)
                os.close(fd)
                fd = inner
        except BaseException:
            os.close(fd)
            raise
        return fd, parts[-1]


class _Source:
    """What tarfile reads from."""

    def __init__(self, read: Callable[[int], bytes]) -> None:
        self.read: Any = read


def _parts(name: str, shown: str) -> list[str]:
    """The names of an entry below the topmost one."""
    parts = [part for part in name.split("/") if part not in ("", ".")]
    if ".." in parts:
        message = f"{shown}: the engine sent a name that leaves the tree ({name!r})"
        raise EnvironmentFault(message, code="refused_path", permanent=True)
    return parts[1:]
