"""How large proctor is: packages and bytes of a core installation.

    python -m bench.install [--json FILE]

Made in a fresh virtual environment from this checkout, with the pinned versions. Bytes are as
installed, bytecode included; pip and setuptools do not count.
"""

import argparse
import subprocess
import sys
from pathlib import Path

from bench.figures import Limit, concluded
from bench.measured import ROOT, circumstances, scratch
from bench.peers.installed import Size, size_of


def core() -> Size:
    """The size of a core installation."""
    with scratch() as folder:
        venv = folder / "venv"
        subprocess.run([sys.executable, "-m", "venv", str(venv)], check=True)
        python = venv / "bin" / "python"
        pip = [str(python), "-m", "pip", "--disable-pip-version-check", "--no-input"]
        pinned = ["install", "--quiet", "--quiet", "-c", f"{ROOT}/constraints.txt", str(ROOT)]
        subprocess.run([*pip, *pinned], check=True)
        return size_of(python)


def main() -> int:
    """Print the table; 1 when a limit is not kept."""
    parser = argparse.ArgumentParser(prog="install", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--json", type=Path, help="also write every figure here")
    args = parser.parse_args()
    size = core()
    found = [
        Limit("packages of the core, proctor included", size.packages, 25, "packages"),
        Limit("size of the core", size.megabytes, 80, "MB"),
    ]
    return concluded(found, circumstances(), args.json)


if __name__ == "__main__":
    sys.exit(main())
