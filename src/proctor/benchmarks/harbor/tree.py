"""The files of a task folder: walked once, bounded, and refused where they could do harm.

Links may point only inside their own top-level part (environment/, tests/, …): one that leaves
it would put host files, or the tests, in front of the agent. Fifos, sockets and devices are
refused because reading one can block for ever.
"""

import hashlib
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from proctor.kernel.errors import DataError

PARTS = ("environment", "tests", "solution", "steps")
"""The sub-folders that belong to a task; others are left alone."""

SINGLE_FILES = ("task.toml", "instruction.md", "README.md", "trajectory.json")

_CHUNK_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Limits:
    """The most one task folder may hold."""

    files: int = 5_000
    megabytes: int = 2_048


@dataclass(frozen=True, slots=True)
class TaskFileEntry:
    """One file. `path` is relative to the task folder, with `/`; `link` is its target text."""

    path: str
    host: Path
    size_bytes: int
    executable: bool
    link: str | None = None


@dataclass(slots=True)
class TaskTree:
    """What a walk found, sorted by path. `problems` make the task unusable, `refused` are the
    paths that they are about; `cut_short` says that the walk stopped at a limit."""

    folder: Path
    files: list[TaskFileEntry] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    refused: set[str] = field(default_factory=set)
    total_bytes: int = 0
    cut_short: bool = False

    def refuse(self, path: str, why: str) -> None:
        """Note what is wrong with a path."""
        self.refused.add(path)
        self.problems.append(f"{path} {why}")

    def has(self, path: str) -> bool:
        """Whether there is a file at exactly this path."""
        return any(entry.path == path for entry in self.files)

    def under(self, part: str) -> list[TaskFileEntry]:
        """The files below a sub-folder."""
        return [entry for entry in self.files if entry.path.startswith(part + "/")]


def walk(folder: Path, limits: Limits) -> TaskTree:
    """Find the files of a task folder. Stops early when a limit is passed."""
    tree = TaskTree(folder)
    for name in SINGLE_FILES:
        if os.path.lexists(folder / name):
            _add(tree, folder / name, name, folder)
    for part in PARTS:
        root = folder / part
        if not os.path.lexists(root):
            continue
        if root.is_symlink() or not root.is_dir():
            tree.refuse(part, "must be a folder, not a link or file")
            continue
        for entry in _scan(root):
            _add(tree, Path(entry.path), os.path.relpath(entry.path, folder), root)
            if _too_much(tree, limits):
                return tree
    tree.files.sort(key=lambda e: e.path)
    tree.problems.sort()
    return tree


def _scan(root: Path) -> Iterator[os.DirEntry[str]]:
    """Everything below `root` but folders, without following links."""
    pending = [str(root)]
    while pending:
        with os.scandir(pending.pop()) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    pending.append(entry.path)
                else:
                    yield entry


def _too_much(tree: TaskTree, limits: Limits) -> bool:
    before = len(tree.problems)
    if len(tree.files) > limits.files:
        tree.problems.append(
            f"holds more than {limits.files:,} files: raise the limit with "
            "-p benchmark.max_files=N if that is meant"
        )
    elif tree.total_bytes > limits.megabytes * 1_000_000:
        tree.problems.append(
            f"holds more than {limits.megabytes:,} MB: raise the limit with "
            "-p benchmark.max_mb=N if that is meant"
        )
    tree.cut_short = len(tree.problems) > before
    return tree.cut_short


def _add(tree: TaskTree, host: Path, relative: str, root: Path) -> None:
    path = relative.replace(os.sep, "/")
    shown = path.encode("utf-8", "backslashreplace").decode()
    if shown != path:
        tree.problems.append(f"the name of {shown} is not UTF-8")
        return
    mode = os.lstat(host).st_mode
    link = None
    if stat.S_ISLNK(mode):
        link = os.readlink(host)
        resolved = Path(os.path.realpath(host))
        if not resolved.is_relative_to(os.path.realpath(root)):
            tree.refuse(path, f"is a link that leaves {_named(root, tree.folder)}")
            return
        if not resolved.exists():
            tree.refuse(path, "is a link to nothing")
            return
        host = resolved
        mode = os.stat(host).st_mode
    if stat.S_ISDIR(mode) and link is not None and root != tree.folder:
        tree.files.append(TaskFileEntry(path, host, 0, False, link))
        return
    if not stat.S_ISREG(mode):
        tree.refuse(path, "is not a regular file")
        return
    size = os.stat(host).st_size
    tree.total_bytes += size
    executable = bool(mode & stat.S_IXUSR)
    tree.files.append(TaskFileEntry(path, host, size, executable, link))


def _named(root: Path, folder: Path) -> str:
    return "the task folder" if root == folder else f"{root.name}/"


def file_sha256(path: Path) -> str:
    """Hex digest of a file's bytes. Raises DataError naming a file that cannot be read."""
    digest = hashlib.sha256()
    try:
        with open(path, "rb") as file:
            while chunk := file.read(_CHUNK_BYTES):
                digest.update(chunk)
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror}") from None
    return digest.hexdigest()


def is_cache(entry: TaskFileEntry) -> bool:
    """Whether a file is only Python's compiled copy of a source that lies beside it.

    Installing a package compiles the modules in it, sample data included; that must neither
    reach a workspace nor change a digest.
    """
    folder, name = os.path.split(entry.path)
    if not name.endswith(".pyc") or os.path.basename(folder) != "__pycache__":
        return False
    return os.path.exists(entry.host.parent.parent / (name.split(".")[0] + ".py"))
