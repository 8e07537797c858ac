"""What the scripts do before anything is installed, run by a real shell on a made-up PATH."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SETUP = ROOT / "scripts" / "setup.sh"
TOOLS = ("basename", "bash", "cat", "dirname", "env", "id", "ls")


@pytest.fixture
def programs(tmp_path) -> Path:
    """A folder with the few programs that the scripts need, and nothing else."""
    folder = tmp_path / "programs"
    folder.mkdir()
    for tool in TOOLS:
        found = next(p for p in ("/usr/bin", "/bin") if Path(p, tool).exists())
        (folder / tool).symlink_to(Path(found, tool))
    return folder


def add(folder: Path, name: str, text: str) -> None:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


def shell(code: str, path: Path | str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", "-c", f'. "$SETUP"\n{code}'],
        env={"PATH": str(path), "SETUP": str(SETUP), **env},
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip


THIS_PYTHON = f'exec "{sys.executable}" "$@"'
FAILING_SHIM = "echo 'shim: this version is not installed' >&2; exit 127"
TOO_OLD = "exit 1  # what the version check of an older Python comes to"
WITHOUT_VENV = f'case "$2" in *ensurepip*) exit 1;; esac; exec "{sys.executable}" "$@"'


def test_a_failing_shim_and_an_old_python_are_passed_over(programs):
    add(programs, "python3", TOO_OLD)
    add(programs, "python3.13", FAILING_SHIM)
    add(programs, "python3.11", THIS_PYTHON)
    done = shell("find_python; printf %s $python", programs)
    assert (done.returncode, done.stdout, done.stderr) == (0, str(programs / "python3.11"), "")


def test_a_python_hidden_by_a_shim_of_the_same_name_is_found(programs, tmp_path):
    shims = tmp_path / "my shims"
    shims.mkdir()
    add(shims, "python3", FAILING_SHIM)
    add(programs, "python3", THIS_PYTHON)
    done = shell("find_python; printf %s $python", f"{shims}:{programs}")
    assert done.stdout == str(programs / "python3")


def test_a_python_that_makes_virtual_environments_is_preferred(programs):
    add(programs, "python3", WITHOUT_VENV)
    add(programs, "python3.12", THIS_PYTHON)
    assert shell("find_python; printf %s $python", programs).stdout == str(programs / "python3.12")


def test_the_named_python_wins(programs):
    add(programs, "python3", THIS_PYTHON)
    done = shell("find_python; printf %s $python", programs, PYTHON=sys.executable)
    assert done.stdout == sys.executable


def test_a_named_python_that_does_not_fit_is_refused(programs):
    add(programs, "python3", THIS_PYTHON)
    add(programs, "old", TOO_OLD)
    done = shell("find_python", programs, PYTHON="old")
    assert done.returncode == 1
    assert "PYTHON=old is not a Python >= 3.11" in done.stderr


def test_a_missing_venv_module_is_installed_or_told(programs):
    add(programs, "python3", WITHOUT_VENV)
    package = "python{}.{}-venv".format(*sys.version_info)
    done = shell("find_python", programs)
    assert done.returncode == 1
    assert f"sudo apt-get install {package}" in done.stderr


def test_no_python_that_fits_is_told(programs):
    add(programs, "python3", TOO_OLD)
    done = shell("find_python", programs)
    assert done.returncode == 1
    assert "no Python >= 3.11 found" in done.stderr


def test_a_folder_that_is_not_a_virtual_environment_is_left_alone(programs, tmp_path):
    add(programs, "python3", THIS_PYTHON)
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "thesis.txt").write_text("years of work")
    done = shell("make_venv", programs, PROCTOR_VENV=str(precious))
    assert done.returncode == 1
    assert "is not a virtual environment" in done.stderr
    assert os.listdir(precious) == ["thesis.txt"]


def test_a_missing_system_program_is_told_and_is_a_failure_in_ci(programs):
    outside = shell("ensure_command no-such-program no-such-package", programs, CI="")
    assert outside.returncode == 0
    assert "sudo apt-get install no-such-package" in outside.stderr
    inside = shell("ensure_command no-such-program no-such-package", programs, CI="true")
    assert inside.returncode == 1
    assert "in CI nothing is skipped" in inside.stderr


def test_the_installation_is_stamped_with_what_it_depends_on(tmp_path):
    """The stamp of this environment is accepted as it is, and not after a change of the pins."""
    venv = Path(sys.prefix)
    code = 'bin=$VENV/bin; fingerprint dev; root=$OTHER; fingerprint dev; fingerprint ""'
    other = tmp_path / "checkout"
    other.mkdir()
    (other / "pyproject.toml").write_text((ROOT / "pyproject.toml").read_text())
    (other / "constraints.txt").write_text("typer==0.0.1\n")
    done = shell(code, os.environ["PATH"], VENV=str(venv), OTHER=str(other))
    stamps = done.stdout.split()
    assert len(stamps) == len(set(stamps)) == 3
