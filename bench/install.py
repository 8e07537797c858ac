"""How large proctor is: packages and bytes of a core installation.

    python -m bench.install [--json FILE]

Made in a fresh virtual environment from this checkout, with the pinned versions. Bytes are as
installed, bytecode included; pip and setuptools do not count.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path

from bench.figures import Limit, limits_table
from bench.measured import ROOT, scratch
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
    sys.stdout.write(limits_table(found) + "\n")
    if args.json is not None:
        document = {"figures": [limit.to_json() for limit in found]}
        args.json.write_text(json.dumps(document, indent=2) + "\n", "utf-8")
    return 0 if all(limit.kept for limit in found) else 1


if __name__ == "__main__":
    sys.exit(main())
