"""Removes trees that an agent may have shaped: locked folders, endless depth, links to elsewhere.

Works on directory descriptors and never follows a link. What was done stays done, so a removal
can be continued by calling it again.
"""

import os
import secrets
import stat
import time
from itertools import islice

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_BATCH = 1_000
_DEPTH = 16
"""Deeper folders are first moved up, so that depth costs neither stack nor descriptors."""


class _UsedUp(Exception):
    """The budget of entries or time is spent."""


class _Budget:
    def __init__(self, max_entries: int | None, timeout_s: float | None) -> None:
        self.entries_left = -1 if max_entries is None else max_entries
        self.deadline = None if timeout_s is None else time.monotonic() + timeout_s

    def spend(self) -> None:
        if self.entries_left == 0 or (self.deadline and time.monotonic() > self.deadline):
            raise _UsedUp
        self.entries_left -= 1


def remove_entry(
    dir_fd: int, name: str, *, max_entries: int | None = None, timeout_s: float | None = None
) -> bool:
    """Remove the file or tree `name` in the folder `dir_fd`; nothing to remove is fine.

    Returns False when `max_entries` or `timeout_s` was used up before the end: call again to go
    on. Raises the first OSError when something could not be removed, after removing the rest.
    """
    budget = _Budget(max_entries, timeout_s)
    try:
        error = _remove(dir_fd, name, budget, None, 0)
    except _UsedUp:
        return False
    if error is not None:
        raise error
    return True


def remove_contents(dir_fd: int, *, max_entries: int | None = None) -> bool:
    """Remove everything in the folder `dir_fd` but not itself; otherwise like `remove_entry`."""
    try:
        error = _empty(dir_fd, _Budget(max_entries, None), dir_fd, 0)
    except _UsedUp:
        return False
    if error is not None:
        raise error
    return True


def open_directory(name: str, dir_fd: int | None = None) -> int:
    """A descriptor of a real folder that we own, made accessible first if need be."""
    try:
        fd = os.open(name, _DIRECTORY, dir_fd=dir_fd)
    except PermissionError:
        _unlock(name, dir_fd)
        fd = os.open(name, _DIRECTORY, dir_fd=dir_fd)
    mode = os.fstat(fd).st_mode
    if mode & stat.S_IRWXU != stat.S_IRWXU:
        try:
            os.fchmod(fd, stat.S_IMODE(mode) | stat.S_IRWXU)
        except BaseException:
            os.close(fd)
            raise
    return fd


def _unlock(name: str, dir_fd: int | None) -> None:
    """chmod u+rwx without following a link that may have taken the folder's place."""
    handle = os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=dir_fd)
    try:
        os.chmod(f"/proc/self/fd/{handle}", stat.S_IRWXU)
    finally:
        os.close(handle)


def _remove(dir_fd: int, name: str, budget: _Budget, top: int | None, depth: int) -> OSError | None:
    """Remove one entry, or move it to the folder `top` when it lies too deep to go in.

    Returns the first error instead of raising it, so that the rest is removed all the same.
    """
    budget.spend()
    try:
        os.unlink(name, dir_fd=dir_fd)
        return None
    except FileNotFoundError:
        return None
    except (IsADirectoryError, PermissionError) as error:
        if not _is_folder(name, dir_fd):
            return error
    try:
        fd = open_directory(name, dir_fd)
        try:
            if top is not None and depth >= _DEPTH:
                os.rename(name, f"deep-{secrets.token_hex(8)}", src_dir_fd=dir_fd, dst_dir_fd=top)
                return None
            error_inside = _empty(fd, budget, fd if top is None else top, depth)
        finally:
            os.close(fd)
        if error_inside is not None:
            return error_inside
        os.rmdir(name, dir_fd=dir_fd)
    except FileNotFoundError:  # somebody else is removing it too
        return None
    except OSError as error:
        return error
    return None


def _is_folder(name: str, dir_fd: int) -> bool:
    try:
        return stat.S_ISDIR(os.stat(name, dir_fd=dir_fd, follow_symlinks=False).st_mode)
    except FileNotFoundError:
        return False


def _empty(fd: int, budget: _Budget, top: int, depth: int) -> OSError | None:
    """Remove what a folder holds, in batches, until it is empty or nothing more gives way."""
    stuck: set[str] = set()
    first: OSError | None = None
    while True:
        with os.scandir(fd) as entries:
            fresh = (entry.name for entry in entries if entry.name not in stuck)
            names = list(islice(fresh, _BATCH))
        if not names:
            return first
        for name in names:
            error = _remove(fd, name, budget, top, depth + 1)
            if error is not None:
                stuck.add(name)
                first = first or error
