"""What a start costs, counted in modules, since a clock on a busy machine proves nothing."""

import subprocess
import sys
from importlib.metadata import version

from tests.acceptance.command import command, environment, proctor

import proctor as package

HEAVY = {"pydantic", "rich", "yaml", "httpx", "jinja2", "asyncio", "h11", "markdown_it", "pygments"}


def imported(*words: str, cwd) -> set[str]:
    """The top-level packages that a Python process has imported, by its own account."""
    done = subprocess.run(
        [sys.executable, "-X", "importtime", *words], cwd=cwd, env=environment(),
        capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    lines = (line for line in done.stderr.splitlines() if line.startswith("import time:"))
    names = [line.rpartition("|")[2].strip() for line in lines]
    return {name.partition(".")[0] for name in names} | {
        name for name in names if name.startswith("proctor.")
    }


def test_importing_proctor_imports_next_to_nothing(tmp_path):
    bare = imported("-c", "pass", cwd=tmp_path)
    new = imported("-c", "import proctor", cwd=tmp_path) - bare
    assert new <= {"proctor", "importlib"}


def test_help_imports_nothing_heavy(tmp_path):
    found = imported(*command("--help")[1:], cwd=tmp_path)
    assert "typer" in found
    assert found & HEAVY == set()
    rooms = {name.split(".")[1] for name in found if name.startswith("proctor.")}
    assert rooms <= {"cli", "kernel", "__main__"}


def test_a_run_imports_no_service_and_no_sdk(rows, tmp_path):
    words = ["run", "--benchmark", "table", "--data", str(rows), "--harness", "nop"]
    found = imported(*command(*words)[1:], cwd=tmp_path)
    assert "pydantic" in found
    unused = {"httpx", "jinja2", "rich", "openai", "anthropic", "docker", "sqlalchemy", "fastapi",
              "numpy", "scipy"}  # fmt: skip
    assert found & unused == set()


def test_the_version_is_the_installed_one(tmp_path):
    assert package.__version__ == version("proctor")
    assert proctor("version", "--json", cwd=tmp_path).document["proctor"] == package.__version__
