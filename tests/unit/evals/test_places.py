"""Where things lie: namespaces, reservations, artifacts."""

import errno
import hashlib
import os
import subprocess
import sys
from datetime import UTC, datetime

import pytest

from proctor.evals.contracts.result import Artifact
from proctor.evals.results.artifacts import inventory, keep, keep_all
from proctor.evals.results.layout import STATES, RunLayout
from proctor.evals.results.reserve import namespace, reserve
from proctor.kernel.errors import BenchmarkFault, RunDirectoryError, StorageError, UsageError
from proctor.kernel.ids import task_dir_name
from proctor.testing.faults import FaultPlan, injected

NOW = datetime(2026, 1, 31, 18, 11, 14, tzinfo=UTC)


def test_a_namespace_is_three_portable_names():
    assert namespace("my:bench", "../agent", "org/model:v1") == "my_bench/agent/org_model_v1"


def test_ids_from_the_time_are_counted_up(tmp_path):
    made = [os.path.basename(reserve(str(tmp_path), "a/b/c", None, NOW)) for _ in range(3)]
    assert made == ["20260131-181114", "20260131-181114-2", "20260131-181114-3"]


def test_an_explicit_id_must_be_new(tmp_path):
    path = reserve(str(tmp_path), "a/b/c", "mine", NOW)
    assert path == str(tmp_path / "a" / "b" / "c" / "mine")
    with pytest.raises(RunDirectoryError, match="run 'mine' exists already") as caught:
        reserve(str(tmp_path), "a/b/c", "mine", NOW)
    assert f"proctor resume {path}" in caught.value.hint
    reserve(str(tmp_path), "a/b/other", "mine", NOW)


RACE = """
import sys
from datetime import UTC, datetime
from proctor.evals.results.reserve import reserve
sys.stdin.readline()
now = datetime(2026, 1, 31, 18, 11, 14, tzinfo=UTC)
print([reserve(sys.argv[1], "a/b/c", None, now) for _ in range(50)])
"""


def test_processes_that_reserve_at_once_never_share(tmp_path):
    racers = [
        subprocess.Popen([sys.executable, "-c", RACE, str(tmp_path)],
                         stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]  # fmt: skip
    made = []
    for racer in racers:
        racer.stdin.write("\n")
        racer.stdin.flush()
    for racer in racers:
        out, _ = racer.communicate(timeout=120)
        made += out.split(",")
    assert len(made) == len({path.strip(" []\n'") for path in made}) == 100


def test_a_place_that_cannot_be_written_is_told(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(UsageError, match="cannot write to the results directory") as caught:
        reserve(str(tmp_path / "file"), "a/b/c", None, NOW)
    assert "--results" in caught.value.hint


def test_the_layout(tmp_path):
    layout = RunLayout(tmp_path / "x" / ".." / "run")
    assert layout.root == str(tmp_path / "run")
    assert layout.task("normal", "a/b").endswith(f"run/details/normal/{task_dir_name('a/b')}")
    assert layout.dropped("a", 2).endswith(f"run/retry_details/{task_dir_name('a')}/attempt-2")
    assert STATES == ("running", "normal", "error", "fatal")


# --- artifacts


def test_artifacts_are_kept_with_size_and_digest(tmp_path):
    source = tmp_path / "source"
    source.write_bytes(b"from a file")
    kept = keep_all(str(tmp_path / "kept"), {"a.txt": b"bytes", "deep/b.txt": source})
    assert kept == (
        Artifact("a.txt", 5, hashlib.sha256(b"bytes").hexdigest()),
        Artifact("deep/b.txt", 11, hashlib.sha256(b"from a file").hexdigest()),
    )
    assert inventory(str(tmp_path / "kept")) == kept
    assert inventory(str(tmp_path / "none")) == ()


@pytest.mark.parametrize(
    "name", ["", ".", "..", "../x", "a/../../x", "/etc/x", "a\0b", "x" * 256, "é" * 200]
)
def test_a_name_that_no_file_can_have_is_the_benchmarks_fault(tmp_path, name):
    with pytest.raises(BenchmarkFault):
        keep(tmp_path / "kept", name, b"x")
    assert [p for p in tmp_path.rglob("*") if p.is_file()] == []


@pytest.mark.parametrize(("first", "second"), [("a", "a/b"), ("a/b", "a")])
def test_a_file_and_a_folder_of_one_name(tmp_path, first, second):
    keep(tmp_path, first, b"x")
    with pytest.raises(BenchmarkFault, match="cannot keep an artifact"):
        keep(tmp_path, second, b"x")


def test_a_full_disk_is_nobodys_fault_in_the_attempt(tmp_path):
    with injected(FaultPlan("enospc", "artifact.partial")), pytest.raises(StorageError):
        keep(tmp_path, "a", b"xx")


def test_links_and_devices_are_no_artifacts(tmp_path):
    (tmp_path / "real").write_text("x")
    (tmp_path / "link").symlink_to("/etc/passwd")
    (tmp_path / "folder").symlink_to("/etc")
    os.mkfifo(tmp_path / "pipe")
    assert [a.path for a in inventory(str(tmp_path))] == ["real"]


def test_artifacts_that_cannot_be_read_are_named(tmp_path):
    (tmp_path / "real").write_text("x")
    here = os.open(tmp_path, os.O_RDONLY)
    for _ in range(17):  # deeper than a path can say
        os.mkdir("a" * 250, dir_fd=here)
        deeper = os.open("a" * 250, os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = deeper
    os.close(os.open("file", os.O_CREAT | os.O_WRONLY, dir_fd=here))
    os.close(here)
    missed: list[OSError] = []
    assert [a.path for a in inventory(str(tmp_path), missed)] == ["real"]
    assert missed
    assert missed[0].errno == errno.ENAMETOOLONG
