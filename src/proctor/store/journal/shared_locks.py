"""Whether a directory's file system lets several processes share a database's locks and memory."""

import errno
import fcntl
import os
import re
import tempfile
from pathlib import Path

_NETWORK = frozenset(
    (
        "9p", "afs", "beegfs", "ceph", "cifs", "fuse.glusterfs", "fuse.gcsfuse", "fuse.s3fs",
        "fuse.sshfs", "glusterfs", "lustre", "ncpfs", "nfs", "nfs4", "prl_fs", "smb3", "smbfs",
        "vboxsf", "virtiofs",
    )
)  # fmt: skip
"""Kinds of file systems behind which other machines may be, or a host that locks by itself."""
_NO_LOCKS = frozenset((errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL))


def locks_are_shared(directory: str, mounts: str | None = None) -> bool:
    """False if `directory` is on a network file system, or locking a file there fails.

    `mounts` is the text of the kernel's table of mounts; by default that of this process. Where
    there is none, only locking is tried. A directory in which no file can be made counts as
    shared: opening the journal will say what is wrong.
    """
    if mounts is None:
        try:
            mounts = Path("/proc/self/mountinfo").read_text("utf-8", errors="surrogateescape")
        except OSError:
            mounts = ""
    if file_system_of(os.path.realpath(directory), mounts) in _NETWORK:
        return False
    return _can_lock(directory)


def file_system_of(path: str, mounts: str) -> str | None:
    """The kind of the file system that holds `path`, by the longest mount point above it."""
    best, kind = -1, None
    for line in mounts.splitlines():
        fields = line.split(" ")
        if len(fields) < 10 or "-" not in fields[6:]:
            continue
        point = _unescaped(fields[4])
        inside = path == point or path.startswith(point.rstrip("/") + "/")
        if inside and len(point) >= best:  # the same point again: the later one is on top
            best, kind = len(point), fields[fields.index("-", 6) + 1]
    return kind


def _unescaped(text: str) -> str:
    """Blanks and backslashes stand as octal numbers in the kernel's table."""
    return re.sub(r"\\([0-7]{3})", lambda m: chr(int(m[1], 8)), text)


def _can_lock(directory: str) -> bool:
    try:
        with tempfile.TemporaryFile(dir=directory) as file:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        return error.errno not in _NO_LOCKS
    return True
