"""scripts/engines.sh: several runs at once, and nothing stays of one that was killed."""

import os
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
LIMIT_S = 180
"""Only says that nothing hangs."""

pytestmark = pytest.mark.slow


def script(*arguments: str) -> str:
    done = subprocess.run(
        ["scripts/engines.sh", *arguments],
        cwd=ROOT, capture_output=True, text=True, timeout=LIMIT_S, check=True,
    )  # fmt: skip
    return done.stdout


def bridges() -> dict[str, str]:
    """The bridges that runs have taken, each with the folder in its alias."""
    shown = subprocess.run(
        ["ip", "-o", "link", "show", "type", "bridge"], capture_output=True, text=True, check=True
    )
    rows = [line.split() for line in shown.stdout.splitlines()]
    return {row[1].strip(":"): row[-1] for row in rows if row[1].startswith("prtest-d")}


def named(folder: Path) -> list[int]:
    """The processes whose command line names something below the folder."""
    found = []
    for place in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if f"{folder}/".encode() in place.read_bytes():
                found.append(int(place.parent.name))
        except OSError:
            continue
    return found


def mounts(folder: Path) -> list[str]:
    return [line for line in Path("/proc/self/mountinfo").read_text().splitlines()
            if f" {folder}/" in line]  # fmt: skip


@pytest.fixture
def owner() -> Iterator[subprocess.Popen[bytes]]:
    """A process whose engines they are."""
    process = subprocess.Popen(["sleep", "1000"])
    yield process
    process.kill()
    process.wait()


@pytest.fixture
def folder(need) -> Iterator[Path]:
    need(os.getuid() == 0, "engines are started by root only")
    with tempfile.TemporaryDirectory() as short:  # paths of sockets may not be long
        folder = Path(short, "engines")
        yield folder
        script("stop", str(folder))
        assert not folder.exists()


def left_of(folder: Path) -> dict[str, object]:
    return {
        "bridges": [name for name, at in bridges().items() if at == str(folder)],
        "processes": named(folder),
        "mounts": mounts(folder),
        "files": folder.exists(),
    }


NOTHING = {"bridges": [], "processes": [], "mounts": [], "files": False}


def test_a_run_beside_others_and_swept_when_its_owner_was_killed(folder, owner):
    before = bridges()
    started = script("start", str(folder), str(owner.pid)).split()
    assert started == [
        f"PROCTOR_TEST_DOCKER=unix://{folder}/docker.sock",
        f"PROCTOR_TEST_PODMAN=unix://{folder}/podman.sock",
    ]
    assert before.items() <= bridges().items()
    assert len(left_of(folder)["bridges"]) == 1

    script("sweep")
    assert len(left_of(folder)["bridges"]) == 1  # the owner lives
    owner.kill()  # not waited for: what has ended but is not collected yet is dead too
    os.waitid(os.P_PID, owner.pid, os.WEXITED | os.WNOWAIT)
    script("sweep")
    assert left_of(folder) == NOTHING
    assert before.items() <= bridges().items()


def test_engines_of_nobody_stay_until_none_of_them_runs(folder):
    script("start", str(folder))
    script("sweep")
    pids = [int((folder / f"{engine}.pid").read_text()) for engine in ("docker", "podman")]
    assert set(pids) <= set(named(folder))
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    script("sweep")
    assert left_of(folder) == NOTHING
