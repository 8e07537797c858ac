"""Writes task folders for the tests."""

from collections.abc import Mapping
from pathlib import Path

MINIMAL = {
    "task.toml": 'version = "1.0"\n',
    "instruction.md": "Do it.\n",
    "environment/Dockerfile": "FROM debian\n",
    "tests/test.sh": "#!/bin/sh\necho 1 > /logs/verifier/reward.txt\n",
}
PORTABLE = {
    **MINIMAL,
    "task.toml": 'schema_version = "1.4"\n[metadata]\nportable = true\n',
}


def write(folder: Path, *parts: Mapping[str, str | bytes | None]) -> Path:
    """A task folder from {path: content}; later parts override, None leaves a file out."""
    files: dict[str, str | bytes | None] = {}
    for part in parts:
        files.update(part)
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        if content is None:
            continue
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return folder
