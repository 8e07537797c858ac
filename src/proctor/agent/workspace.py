"""A workspace in a folder of this machine: what its files are, by digest."""

import asyncio
import hashlib
import os
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path

MAX_FILES = 100_000


class FolderWorkspace:
    """The regular files and links below `root`. A file that has not changed by size, times and
    inode since the last look is not read again. `ignore`: names of folders that do not count."""

    def __init__(self, root: str | os.PathLike[str], ignore: frozenset[str] = frozenset()) -> None:
        self.root = Path(root)
        self._ignore = ignore
        self._known: dict[str, tuple[tuple[int, ...], str]] = {}

    async def manifest(self) -> Mapping[str, str]:
        """Relative path → digest; a link's is that of where it points to. Raises OSError when the
        folder is gone, ValueError for more than 100,000 files."""
        return await asyncio.to_thread(self._manifest)

    def _manifest(self) -> dict[str, str]:
        known, found = self._known, {}
        for path, info in self._files():
            key = (info.st_size, info.st_mtime_ns, info.st_ctime_ns, info.st_ino)
            before = known.get(path)
            if before is not None and before[0] == key:
                found[path] = before
                continue
            try:
                found[path] = (key, _digest(self.root / path, info))
            except FileNotFoundError:  # removed while we looked
                continue
            if len(found) > MAX_FILES:
                raise ValueError(f"{self.root} holds more than {MAX_FILES} files")
        self._known = found
        return {path: digest for path, (_, digest) in found.items()}

    def _files(self) -> Iterator[tuple[str, os.stat_result]]:
        """Every file below the root; links are not followed."""
        folders = [""]
        while folders:
            folder = folders.pop()
            with os.scandir(self.root / folder) as entries:
                for entry in entries:
                    path = f"{folder}{entry.name}"
                    info = entry.stat(follow_symlinks=False)
                    if stat.S_ISDIR(info.st_mode):
                        if entry.name not in self._ignore:
                            folders.append(f"{path}/")
                    elif stat.S_ISREG(info.st_mode) or stat.S_ISLNK(info.st_mode):
                        yield path, info


def _digest(path: Path, info: os.stat_result) -> str:
    if stat.S_ISLNK(info.st_mode):
        return "link:" + hashlib.sha256(os.fsencode(os.readlink(path))).hexdigest()
    with open(path, "rb", opener=lambda p, flags: os.open(p, flags | os.O_NOFOLLOW)) as stream:
        return "sha256:" + hashlib.file_digest(stream, "sha256").hexdigest()
