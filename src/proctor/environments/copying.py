"""Copies a file or tree between two folders when neither side's names can be trusted.

Everything goes through directory descriptors, so that a link put in place while we copy is never
followed. Kept: contents, rwx bits, modification times of files, links that stay in the tree.
"""

import os
import stat
from typing import TypeAlias

from proctor.kernel.errors import EnvironmentFault

DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_CHUNK = 262_144
_MAX_DEPTH = 100
Ids: TypeAlias = tuple[int, int] | None
"""(user, group) that new files are given to; None leaves them to the user that runs this code."""

_KINDS = {
    stat.S_IFLNK: "a symbolic link",
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


class Stopped(Exception):
    """The copy was told to stop."""


MOST_ENTRIES = 200_000
"""Files, folders and links that a bounded copy may hold: empty ones cost no bytes, but a disk has
only so many inodes."""


class Bound:
    """Counts what a copy out of a sandbox brings; `limit_bytes` None: nothing is bounded."""

    def __init__(self, limit_bytes: int | None) -> None:
        self._limit_bytes = limit_bytes
        self._bytes = self._entries = 0

    def entry(self, shown: str) -> None:
        """One more entry. Raises EnvironmentFault `too_large`."""
        self._entries += 1
        if self._limit_bytes is not None and self._entries > MOST_ENTRIES:
            message = f"{shown}: more than {MOST_ENTRIES} files and folders together"
            raise EnvironmentFault(message, code="too_large", permanent=True)

    def size(self, size: int, shown: str) -> None:
        """That many more bytes of files. Raises EnvironmentFault `too_large`."""
        self._bytes += size
        if self._limit_bytes is not None and self._bytes > self._limit_bytes:
            message = f"{shown}: more than {self._limit_bytes} bytes together"
            raise EnvironmentFault(message, code="too_large", permanent=True)


class TreeCopy:
    """One copy. `limit_bytes` bounds the files together, and with them the number of entries;
    None means no bound."""

    def __init__(self, limit_bytes: int | None = None, ids: Ids = None) -> None:
        self._bound = Bound(limit_bytes)
        self._ids = ids
        self._stopped = False

    def stop(self) -> None:
        """Make the copy, which may run in another thread, end soon with `Stopped`."""
        self._stopped = True

    def entry(self, source_dir: int, name: str, target_dir: int, new_name: str, shown: str) -> None:
        """Copy `name` of one folder to `new_name` of another. `shown` names it in messages.

        Raises FileNotFoundError and EnvironmentFault `not_a_file`, `refused_path`, `too_large`.
        """
        self._entry(source_dir, name, target_dir, new_name, shown, 0)

    def _entry(
        self, source_dir: int, name: str, target_dir: int, new_name: str, shown: str, depth: int
    ) -> None:
        if self._stopped:
            raise Stopped
        self._bound.entry(shown)
        kind = stat.S_IFMT(os.stat(name, dir_fd=source_dir, follow_symlinks=False).st_mode)
        if kind == stat.S_IFREG:
            self._file(source_dir, name, target_dir, new_name, shown)
        elif kind == stat.S_IFDIR:
            self._folder(source_dir, name, target_dir, new_name, shown, depth)
        elif kind == stat.S_IFLNK and depth:
            link = os.readlink(name, dir_fd=source_dir)
            check_link(link, depth - 1, shown)
            clear(target_dir, new_name, shown)
            os.symlink(link, new_name, dir_fd=target_dir)
            if self._ids is not None:
                os.chown(new_name, *self._ids, dir_fd=target_dir, follow_symlinks=False)
        else:
            raise not_a_file(shown, kind)

    def _folder(
        self, source_dir: int, name: str, target_dir: int, new_name: str, shown: str, depth: int
    ) -> None:
        if depth > _MAX_DEPTH:
            raise EnvironmentFault(
                f"{shown} is nested deeper than {_MAX_DEPTH} folders",
                code="too_large",
                permanent=True,
            )
        source = os.open(name, DIRECTORY, dir_fd=source_dir)
        try:
            mode = stat.S_IMODE(os.fstat(source).st_mode) & 0o777 | stat.S_IRWXU
            target = make_folder(target_dir, new_name, mode, self._ids)
            try:
                with os.scandir(source) as entries:
                    for item in entries:
                        inner = f"{shown}/{item.name}"
                        self._entry(source, item.name, target, item.name, inner, depth + 1)
            finally:
                os.close(target)
        finally:
            os.close(source)

    def _file(self, source_dir: int, name: str, target_dir: int, new_name: str, shown: str) -> None:
        source = open_regular(source_dir, name, shown)
        try:
            facts = os.fstat(source)
            self._bound.size(facts.st_size, shown)
            clear(target_dir, new_name, shown)
            mode = stat.S_IMODE(facts.st_mode) & 0o777 | stat.S_IRUSR
            target = create(target_dir, new_name, mode, self._ids)
            try:
                self._contents(source, target, facts.st_size, shown)
                os.utime(target, ns=(facts.st_atime_ns, facts.st_mtime_ns))
            finally:
                os.close(target)
        finally:
            os.close(source)

    def _contents(self, source: int, target: int, expected: int, shown: str) -> None:
        while chunk := os.read(source, _CHUNK):
            if self._stopped:
                raise Stopped
            expected -= len(chunk)
            if expected < 0:  # it grows while we read
                self._bound.size(len(chunk), shown)
            write_all(target, chunk)


def check_link(link: str, depth: int, shown: str) -> None:
    """Refuse a link `depth` folders below the top of a tree unless it can only lead into it."""
    if not _stays_inside(link, depth):
        raise EnvironmentFault(
            f"{shown} is a symbolic link that leaves the tree (to {link!r})",
            code="refused_path",
            permanent=True,
        )


def _stays_inside(link: str, depth: int) -> bool:
    """Whether a link `depth` folders below the top can only lead into the tree.

    `..` may stand only at the front: `name/..` leads elsewhere when `name` is itself a link.
    """
    parts = [part for part in link.split("/") if part not in ("", ".")]
    ups = 0
    while ups < len(parts) and parts[ups] == "..":
        ups += 1
    return bool(link) and not link.startswith("/") and ups <= depth and ".." not in parts[ups:]


def not_a_file(shown: str, kind: int) -> EnvironmentFault:
    """The fault for a file of the wrong kind."""
    what = _KINDS.get(kind, "a special file")
    return EnvironmentFault(f"{shown} is {what}: refused", code="not_a_file", permanent=True)


def open_regular(dir_fd: int, name: str, shown: str) -> int:
    """A descriptor of a regular file, without following a link or waiting for a pipe."""
    kind = stat.S_IFMT(os.stat(name, dir_fd=dir_fd, follow_symlinks=False).st_mode)
    if kind != stat.S_IFREG:  # opening a device can already have an effect
        raise not_a_file(shown, kind)
    fd = os.open(name, _READ, dir_fd=dir_fd)
    kind = stat.S_IFMT(os.fstat(fd).st_mode)
    if kind != stat.S_IFREG:  # exchanged in between
        os.close(fd)
        raise not_a_file(shown, kind)
    return fd


def clear(dir_fd: int, name: str, shown: str) -> None:
    """Remove a file or link that is in the way. A folder in the way is a fault."""
    try:
        os.unlink(name, dir_fd=dir_fd)
    except FileNotFoundError:
        return
    except (IsADirectoryError, PermissionError):
        if stat.S_ISDIR(os.stat(name, dir_fd=dir_fd, follow_symlinks=False).st_mode):
            message = f"{shown}: a folder of that name is in the way"
            raise EnvironmentFault(message, code="not_a_file", permanent=True) from None
        raise


def create(dir_fd: int, name: str, mode: int, ids: Ids = None) -> int:
    """A descriptor of a new file with exactly these rights."""
    fd = os.open(name, _CREATE, 0o600, dir_fd=dir_fd)
    if ids is not None:
        os.fchown(fd, *ids)
    os.fchmod(fd, mode)
    return fd


def make_folder(dir_fd: int, name: str, mode: int = 0o755, ids: Ids = None) -> int:
    """A descriptor of the folder `name`, which is made unless it is there.

    A file or link in its place is removed.
    """
    for _ in range(3):
        try:
            return step_into(dir_fd, name, mode, ids)
        except NotADirectoryError:  # O_DIRECTORY with O_NOFOLLOW: also for links
            os.unlink(name, dir_fd=dir_fd)
    raise NotADirectoryError(f"{name} is exchanged all the time")


def step_into(dir_fd: int, name: str, mode: int = 0o755, ids: Ids = None) -> int:
    """A descriptor of the folder `name`, which is made unless something has its name."""
    try:
        os.mkdir(name, mode, dir_fd=dir_fd)
    except FileExistsError:
        return os.open(name, DIRECTORY, dir_fd=dir_fd)
    fd = os.open(name, DIRECTORY, dir_fd=dir_fd)
    if ids is not None:
        os.fchown(fd, *ids)
    return fd


def write_all(fd: int, data: bytes) -> None:
    """Write every byte."""
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]
