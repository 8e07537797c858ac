"""A small root file system made of this machine's own programs, for images without a registry."""

import io
import os
import re
import shutil
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path

PROGRAMS = (
    "bash", "sh", "python3", "busybox",
    "awk", "basename", "cat", "chmod", "chown", "cp", "cut", "date", "dd", "df", "dirname", "du",
    "echo", "env", "expr", "false", "find", "flock", "grep", "head", "id", "kill", "ln", "ls",
    "mkdir", "mkfifo", "mktemp", "mv", "nproc", "od", "printf", "ps", "pwd", "readlink",
    "realpath", "rm", "rmdir", "sed", "seq", "sha256sum", "setsid", "sleep", "sort", "stat",
    "tail", "tar", "tee", "test", "timeout", "touch", "tr", "true", "truncate", "uname", "uniq",
    "wc", "whoami", "xargs",
)  # fmt: skip
USERS = "root:x:0:0:root:/root:/bin/sh\nworker:x:1000:1000::/worker:/bin/sh\n"
_LEFT_OUT = {"test", "tests", "idlelib", "tkinter", "__pycache__", "ensurepip", "config", "lib2to3"}


def build() -> bytes:
    """An uncompressed tar file with these programs, what they load, and Python's library."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for folder in ("tmp", "root", "worker", "usr/bin", "usr/lib", "etc", "var/tmp"):
            _folder(archive, folder, 0o1777 if folder.endswith("tmp") else 0o755)
        for name, target in (("bin", "usr/bin"), ("lib", "usr/lib"), ("lib64", "usr/lib64")):
            entry = tarfile.TarInfo(name)
            entry.type, entry.linkname = tarfile.SYMTYPE, target
            archive.addfile(entry)
        _text(archive, "etc/passwd", USERS)
        _text(archive, "etc/group", "root:x:0:\nworker:x:1000:\n")
        for source, place in sorted(_files().items(), key=lambda pair: pair[1]):
            _file(archive, source, place)
    return stream.getvalue()


def _files() -> dict[str, str]:
    """Files of this machine by their place in the root; without links."""
    path = "/usr/bin:/bin:/usr/sbin:/sbin"
    found: dict[str, str] = {}
    programs = {}
    for name in PROGRAMS:
        where = shutil.which(name, path=path)
        if where is not None:
            programs[f"usr/bin/{name}"] = os.path.realpath(where)
    library = Path(
        subprocess.run(
            ["/usr/bin/python3", "-c", "import sysconfig; print(sysconfig.get_path('stdlib'))"],
            check=True, capture_output=True, text=True,
        ).stdout.strip()
    )  # fmt: skip
    modules = {str(file): str(file).lstrip("/") for file in _python_files(library)}
    binaries = [*programs.values(), *(f for f in modules if ".so" in f)]
    for loaded in _loaded(binaries):
        found[os.path.realpath(loaded)] = loaded.lstrip("/").replace("usr/", "", 1)
    found = {source: "usr/" + place for source, place in found.items()}
    result = {**modules, **found}
    # One file can be several programs, and a name is what decides.
    result.update({f"{source}\0{place}": place for place, source in programs.items()})
    return result


def _python_files(library: Path) -> Iterator[Path]:
    for folder, inner, names in os.walk(library):
        inner[:] = [n for n in inner if n not in _LEFT_OUT and not n.startswith("config-")]
        for name in names:
            path = Path(folder, name)
            if path.is_file() and not path.is_symlink():
                yield path


def _loaded(binaries: list[str]) -> set[str]:
    """The shared libraries of programs, as ldd names them."""
    done = subprocess.run(["ldd", *binaries], capture_output=True, text=True, check=False)
    return set(re.findall(r"(/\S+\.so\S*) \(0x", done.stdout))


def _file(archive: tarfile.TarFile, source: str, place: str) -> None:
    source = source.partition("\0")[0]
    entry = tarfile.TarInfo(place)
    facts = os.stat(source)
    entry.size, entry.mode = facts.st_size, 0o755 if facts.st_mode & 0o100 else 0o644
    with open(source, "rb") as stream:
        archive.addfile(entry, stream)


def _folder(archive: tarfile.TarFile, name: str, mode: int) -> None:
    entry = tarfile.TarInfo(name)
    entry.type, entry.mode = tarfile.DIRTYPE, mode
    archive.addfile(entry)


def _text(archive: tarfile.TarFile, name: str, text: str) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(text.encode()), 0o644
    archive.addfile(entry, io.BytesIO(text.encode()))
