"""The build context of a task: the files of environment/ that .dockerignore leaves in it."""

import posixpath
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from proctor.benchmarks.harbor.tree import TaskFileEntry, is_cache
from proctor.kernel.ignore import DockerIgnore, PathPattern

RECIPE_FILES = ("Dockerfile", ".dockerignore")


@dataclass(frozen=True, slots=True)
class BuildContext:
    """Paths are relative to `root` (environment/ or tests/ on the host), with `/`.

    `whole` says that nothing in the folder is left out, so that it can be copied as one tree.
    """

    root: Path
    files: dict[str, TaskFileEntry]
    folders: frozenset[str]
    whole: bool

    @classmethod
    def of(
        cls, root: Path, entries: Sequence[TaskFileEntry], rules: DockerIgnore
    ) -> "BuildContext":
        """The context of the entries below `root` (paths relative to the task folder)."""
        files: dict[str, TaskFileEntry] = {}
        whole = True
        for entry in entries:
            path = entry.path.removeprefix(f"{root.name}/")
            if is_cache(entry) or rules.ignores(path):
                whole = False
            else:
                files[path] = entry
                # A link may lead out of the part that is copied: its content is copied instead.
                whole = whole and entry.link is None
        folders = {""}
        for path in files:
            parent = posixpath.dirname(path)
            while parent and parent not in folders:
                folders.add(parent)
                parent = posixpath.dirname(parent)
        return cls(root, files, frozenset(folders), whole)

    def find(self, source: str) -> list[tuple[str, bool]]:
        """What a COPY source names: (path, whether it is a folder), sorted. Empty when nothing.

        A source cannot leave the context; `*`, `?` and `[…]` match within one path segment.
        """
        path = posixpath.normpath("/" + source).strip("/")
        if ".." in source.split("/") and posixpath.normpath(source).startswith(".."):
            return []
        if path in self.folders:
            return [(path, True)]
        if path in self.files:
            return [(path, self.files[path].host.is_dir())]
        if not any(char in path for char in "*?["):
            return []
        pattern = PathPattern(path)
        matching = [p for p in (*self.files, *self.folders) if p and pattern.matches(p.split("/"))]
        return [(p, p in self.folders) for p in sorted(matching)]

    def copies(self, source: str, target: str, *, folder: bool) -> list[tuple[str, str]]:
        """(host path, path inside) pairs that copy a file, or what is in a folder, to `target`."""
        if not folder:
            return [(str(self.files[source].host), target)]
        if self.whole:
            return [(str(self.root / source), target)]
        prefix = source + "/" if source else ""
        return [
            (str(entry.host), posixpath.normpath(f"{target}/{path.removeprefix(prefix)}"))
            for path, entry in sorted(self.files.items())
            if path.startswith(prefix)
        ]

    def without_recipe(self) -> "BuildContext":
        """The same files but the Dockerfile and .dockerignore themselves."""
        files = {p: e for p, e in self.files.items() if p not in RECIPE_FILES}
        whole = self.whole and len(files) == len(self.files)
        return BuildContext(self.root, files, self.folders, whole)
