"""A build context as a tar stream that is the same for the same files, whatever their times."""

import hashlib
import os
import stat
import tarfile
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from proctor.environments import copying
from proctor.kernel.errors import EnvironmentFault
from proctor.kernel.ignore import DockerIgnore

_IN_MEMORY = 4_000_000
_CHUNK = 262_144
_MAX_BYTES = 2_000_000_000
_RECIPE = ("Dockerfile", ".dockerignore")


@dataclass(frozen=True, slots=True)
class Packed:
    """`digest` is the sha256 of the stream, as hexadecimal digits."""

    stream: IO[bytes]
    size: int
    digest: str


def pack_context(folder: Path) -> Packed:
    """Everything in `folder` but what its .dockerignore leaves out. Blocking.

    Raises EnvironmentFault `image_build` for contexts without a Dockerfile or of more than 2 GB.
    """
    if not (folder / "Dockerfile").is_file():
        message = f"{folder} holds no Dockerfile"
        raise EnvironmentFault(message, code="image_build", permanent=True)
    ignore = folder / ".dockerignore"
    rules = DockerIgnore(ignore.read_text("utf-8", "replace") if ignore.is_file() else "")
    stream: IO[bytes] = tempfile.SpooledTemporaryFile(max_size=_IN_MEMORY)  # noqa: SIM115
    try:
        with tarfile.open(fileobj=stream, mode="w|", format=tarfile.GNU_FORMAT) as archive:
            for path in _walk(str(folder), "", rules):
                _add(archive, folder, path)
                if stream.tell() > _MAX_BYTES:
                    message = f"the build context {folder} is larger than {_MAX_BYTES:,} bytes"
                    raise EnvironmentFault(message, code="image_build", permanent=True)
        size = stream.tell()
        stream.seek(0)
        found = hashlib.sha256()
        while chunk := stream.read(_CHUNK):
            found.update(chunk)
        stream.seek(0)
    except BaseException:
        stream.close()
        raise
    return Packed(stream, size, found.hexdigest())


def _walk(root: str, below: str, rules: DockerIgnore) -> list[str]:
    """Relative paths of folders and files, sorted. Folders are looked into even when they are
    ignored: a rule may take one of their files out again."""
    found = []
    for name in sorted(os.listdir(os.path.join(root, below) if below else root)):
        path = f"{below}/{name}" if below else name
        facts = os.lstat(os.path.join(root, path))
        kept = path in _RECIPE or not rules.ignores(path)
        if stat.S_ISDIR(facts.st_mode):
            inner = _walk(root, path, rules)
            if kept or inner:
                found += [path, *inner]
        elif kept:
            found.append(path)
    return found


def _add(archive: tarfile.TarFile, folder: Path, path: str) -> None:
    facts = os.lstat(folder / path)
    entry = tarfile.TarInfo(path)
    entry.mode = 0o755 if facts.st_mode & stat.S_IXUSR else 0o644
    if stat.S_ISDIR(facts.st_mode):
        entry.type = tarfile.DIRTYPE
        archive.addfile(entry)
    elif stat.S_ISLNK(facts.st_mode):
        entry.type, entry.linkname = tarfile.SYMTYPE, os.readlink(folder / path)
        archive.addfile(entry)
    elif stat.S_ISREG(facts.st_mode):
        entry.size = facts.st_size
        with open(folder / path, "rb") as source:
            archive.addfile(entry, source)
    else:
        raise copying.not_a_file(path, stat.S_IFMT(facts.st_mode))
