"""Digests of task folders: the published content hash, and what reuse compares."""

import hashlib
import posixpath
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from proctor.benchmarks.harbor.tree import Limits, TaskFileEntry, file_sha256, is_cache, walk
from proctor.kernel.digest import of_json
from proctor.kernel.errors import DataError
from proctor.kernel.ignore import GitIgnore

_UNBOUNDED = Limits(files=10**9, megabytes=10**9)


def content_hash(folder: Path) -> str:
    """The hash of a task's publishable files, as registries of Harbor tasks state it.

    sha256 over the lines `<path>\\0<sha256 hex of the file>\\n`, sorted by path, of task.toml,
    instruction.md, README.md, trajectory.json and everything in environment/, tests/, solution/
    and steps/ that .gitignore (of the folder) and .harborignore (inside tests/ and solution/
    trees) leave in. Raises DataError when the folder cannot be read or has files that must not
    be published (links that leave it, fifos, …).
    """
    tree = walk(folder, _UNBOUNDED)
    if tree.problems:
        raise DataError(f"{folder} cannot be hashed:", problems=tree.problems)
    files = [e for e in tree.files if not e.host.is_dir()]
    ignored = _Ignored(folder, files)
    digest = hashlib.sha256()
    for entry in files:
        if not ignored(entry.path):
            digest.update(f"{entry.path}\0{file_sha256(entry.host)}\n".encode())
    return "sha256:" + digest.hexdigest()


class _Ignored:
    """The ignore files of one task folder, each in force below its own folder."""

    def __init__(self, folder: Path, files: Iterable[TaskFileEntry]) -> None:
        self._rules: dict[str, GitIgnore] = {}
        if (folder / ".gitignore").is_file():
            self._rules[""] = _ignore_file(folder / ".gitignore")
        for entry in files:
            where, name = posixpath.split(entry.path)
            if name == ".harborignore" and {"tests", "solution"} & set(where.split("/")):
                self._rules[where + "/"] = _ignore_file(entry.host)

    def __call__(self, path: str) -> bool:
        return any(
            path.startswith(where) and rules.ignores(path.removeprefix(where))
            for where, rules in self._rules.items()
        )


def _ignore_file(path: Path) -> GitIgnore:
    try:
        return GitIgnore(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:  # ValueError: not UTF-8, or too many rules
        raise DataError(f"cannot read {path}: {error}") from None


def files_digest(entries: Iterable[TaskFileEntry], settings: Mapping[str, Any]) -> str:
    """The digest of files (path, content, whether executable) together with `settings`."""
    listed = [
        [e.path, "link " + e.link if e.host.is_dir() and e.link else file_sha256(e.host),
         e.executable]
        for e in entries
        if not is_cache(e)
    ]  # fmt: skip
    return of_json({"files": listed, "settings": settings})
