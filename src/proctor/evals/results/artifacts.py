"""Files kept as evidence of an attempt, under its `artifacts/`."""

import errno
import hashlib
import os
import stat
from collections.abc import Mapping
from pathlib import Path

from proctor.evals.contracts.result import Artifact
from proctor.kernel.errors import BenchmarkFault, ProctorError, StorageError
from proctor.store.files import storage_error, write_atomic

_CHUNK_BYTES = 1 << 20
_BAD_NAME = (errno.EEXIST, errno.EISDIR, errno.ENOTDIR, errno.ENAMETOOLONG, errno.EINVAL,
             errno.EILSEQ, errno.ENOTEMPTY)  # fmt: skip


def keep_all(directory: str, files: Mapping[str, Path | bytes]) -> tuple[Artifact, ...]:
    """Put artifacts into `directory`, made on use."""
    return tuple(keep(Path(directory), name, data) for name, data in files.items())


def keep(directory: Path, name: str, data: Path | bytes) -> Artifact:
    """Put an artifact into `directory` under the relative `name`."""
    relative = Path(name)
    if relative.is_absolute() or ".." in relative.parts or not relative.parts or "\0" in name:
        raise BenchmarkFault(f"not a relative artifact path: {name!r}")
    target = directory / relative
    content = data if isinstance(data, bytes) else data.read_bytes()
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(str(target), content, "artifact")
    except (OSError, StorageError) as error:
        raise _not_kept(error, name, target) from error
    return Artifact(relative.as_posix(), len(content), hashlib.sha256(content).hexdigest())


def _not_kept(error: OSError | StorageError, name: str, target: Path) -> ProctorError:
    """A name that the file system refuses is the benchmark's fault; anything else the disk's."""
    reason = error if isinstance(error, OSError) else error.__cause__
    if isinstance(reason, OSError) and reason.errno in _BAD_NAME:
        return BenchmarkFault(f"cannot keep an artifact as {name!r:.300}: {reason.strerror}")
    return error if isinstance(error, StorageError) else storage_error(error, str(target))


def inventory(directory: str, missed: list[OSError] | None = None) -> tuple[Artifact, ...]:
    """Every regular file under an attempt's artifacts folder, sorted by path.

    What cannot be looked at, such as a file under folders of too long a path, is put into `missed`.
    """
    missed = [] if missed is None else missed
    if not os.path.isdir(directory):
        return ()
    found = []
    for folder, _, files in os.walk(directory, onerror=missed.append):
        for name in files:
            path = os.path.join(folder, name)
            try:
                if not stat.S_ISREG(os.lstat(path).st_mode):
                    continue
                size, digest = _digest(path)
            except OSError as error:
                missed.append(error)
                continue
            relative = os.path.relpath(path, directory).replace(os.sep, "/")
            found.append(Artifact(relative, size, digest))
    return tuple(sorted(found, key=lambda a: a.path))


def _digest(path: str) -> tuple[int, str]:
    digest, size = hashlib.sha256(), 0
    with open(path, "rb") as file:
        while chunk := file.read(_CHUNK_BYTES):
            digest.update(chunk)
            size += len(chunk)
    return size, digest.hexdigest()
