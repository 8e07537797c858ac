"""Files kept as evidence of an attempt, under its `artifacts/`."""

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path

from proctor.evals.contracts.result import Artifact
from proctor.kernel.errors import BenchmarkFault
from proctor.store.files import write_atomic

_CHUNK_BYTES = 1 << 20


def keep_all(directory: str, files: Mapping[str, Path | bytes]) -> tuple[Artifact, ...]:
    """Put artifacts into `directory`, made on use."""
    return tuple(keep(Path(directory), name, data) for name, data in files.items())


def keep(directory: Path, name: str, data: Path | bytes) -> Artifact:
    """Put an artifact into `directory` under the relative `name`."""
    relative = Path(name)
    if relative.is_absolute() or ".." in relative.parts or not relative.parts:
        raise BenchmarkFault(f"not a relative artifact path: {name!r}")
    target = directory / relative
    target.parent.mkdir(parents=True, exist_ok=True)
    content = data if isinstance(data, bytes) else data.read_bytes()
    write_atomic(str(target), content, "artifact")
    return Artifact(relative.as_posix(), len(content), hashlib.sha256(content).hexdigest())


def inventory(directory: str) -> tuple[Artifact, ...]:
    """Every regular file under an attempt's artifacts folder, sorted by path."""
    if not os.path.isdir(directory):
        return ()
    found = []
    for folder, _, files in os.walk(directory):
        for name in files:
            path = os.path.join(folder, name)
            if os.path.islink(path) or not os.path.isfile(path):
                continue
            relative = os.path.relpath(path, directory).replace(os.sep, "/")
            size, digest = _digest(path)
            found.append(Artifact(relative, size, digest))
    return tuple(sorted(found, key=lambda a: a.path))


def _digest(path: str) -> tuple[int, str]:
    digest, size = hashlib.sha256(), 0
    with open(path, "rb") as file:
        while chunk := file.read(_CHUNK_BYTES):
            digest.update(chunk)
            size += len(chunk)
    return size, digest.hexdigest()
