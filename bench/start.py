"""What it costs to start proctor, and how large it is: import, `--help`, installation.

CPU times (user + system) are medians of fresh processes with warm caches, after a first run that
is not counted. The installation is made in a temporary virtual environment, core only, with the
pinned versions; pip and setuptools do not count.
"""

import os
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
REPEATS = 15
INSTALLERS = {"pip", "setuptools", "wheel"}


@dataclass(frozen=True, slots=True)
class Figure:
    """One line of the table: a value and the limit it has to keep, in `unit`."""

    what: str
    value: float
    limit: float | None
    unit: str

    def line(self) -> str:
        bound = "" if self.limit is None else f"≤ {self.limit:g} {self.unit}"
        verdict = "" if self.kept else "  TOO MUCH"
        return f"{self.what:<44}{self.value:>9.3f} {self.unit:<10}{bound}{verdict}"

    @property
    def kept(self) -> bool:
        return self.limit is None or self.value <= self.limit


def cpu_s(argv: list[str]) -> float:
    """Median CPU seconds of a process and its children."""
    return statistics.median([_once(argv) for _ in range(REPEATS + 1)][1:])


def _once(argv: list[str]) -> float:
    silent = [(os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)]
    pid = os.posix_spawn(argv[0], argv, os.environ, file_actions=silent)
    _, status, used = os.wait4(pid, 0)
    if os.waitstatus_to_exitcode(status) != 0:
        raise SystemExit(f"{' '.join(argv)} failed with {os.waitstatus_to_exitcode(status)}")
    return used.ru_utime + used.ru_stime


def start_figures() -> list[Figure]:
    python = sys.executable
    bare = cpu_s([python, "-c", "pass"])
    return [
        Figure("CPU of a bare interpreter", bare, None, "s"),
        Figure("CPU of `import proctor`", cpu_s([python, "-c", "import proctor"]), 0.10, "s"),
        Figure("CPU of `proctor --help`", cpu_s([python, "-m", "proctor", "--help"]), 0.20, "s"),
    ]


def install_figures() -> list[Figure]:
    with tempfile.TemporaryDirectory(prefix="proctor-bench-") as folder:
        venv = Path(folder, "venv")
        subprocess.run([sys.executable, "-m", "venv", venv], check=True)
        pip = [f"{venv}/bin/python", "-m", "pip", "--disable-pip-version-check"]
        core = ["install", "--quiet", "--quiet", "-c", f"{ROOT}/constraints.txt", str(ROOT)]
        subprocess.run([*pip, *core], check=True)
        listed = subprocess.run(
            [*pip, "list", "--format=freeze"], check=True, capture_output=True, text=True
        ).stdout
        names = {line.split("==")[0].lower() for line in listed.split()} - INSTALLERS
        (site,) = venv.glob("lib/python*/site-packages")
        size = sum(_size_bytes(p) for p in site.iterdir() if not _is_installer(p.name))
    return [
        Figure("packages of the core, proctor included", len(names), 25, "packages"),
        Figure("size of the core", size / 1e6, 80, "MB"),
    ]


def _is_installer(name: str) -> bool:
    return name.split("-")[0].lower() in INSTALLERS | {"pkg_resources", "_distutils_hack"}


def _size_bytes(path: Path) -> int:
    if path.is_dir():
        return sum(f.stat().st_size for f in path.rglob("*") if f.is_file())
    return path.stat().st_size


def main() -> int:
    """Print the table; 1 when a limit is not kept."""
    figures = [*start_figures(), *install_figures()]
    for figure in figures:
        print(figure.line())
    return 0 if all(figure.kept for figure in figures) else 1


if __name__ == "__main__":
    sys.exit(main())
