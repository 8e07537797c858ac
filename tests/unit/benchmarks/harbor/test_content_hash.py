"""The published content hash, computed a second time by hand."""

import hashlib

import pytest
from tests.unit.benchmarks.harbor.folders import MINIMAL, write

from proctor.benchmarks.harbor import content_hash
from proctor.kernel.errors import DataError


def by_hand(files):
    lines = "".join(
        f"{path}\0{hashlib.sha256(content.encode()).hexdigest()}\n"
        for path, content in sorted(files.items())
    )
    return "sha256:" + hashlib.sha256(lines.encode()).hexdigest()


def test_it_covers_the_publishable_files_sorted_by_path(tmp_path):
    files = {
        **MINIMAL,
        "README.md": "r",
        "solution/solve.sh": "s",
        "steps/one/instruction.md": "i",
        "environment/a/b": "",
        "environment/a-b": "x",
        "trajectory.json": "{}",
    }
    folder = write(tmp_path / "t", files, {"notes.txt": "not published", "other/x": "nor this"})
    assert content_hash(folder) == by_hand(files)


def test_ignore_rules(tmp_path):
    files = {
        ".gitignore": "*.log\n!keep.log\n",
        ".harborignore": "README.md\n",  # only inside tests/ and solution/ trees
        "README.md": "r",
        "environment/run.log": "l",
        "environment/keep.log": "k",
        "environment/.harborignore": "a\n",
        "environment/a": "a",
        "tests/.harborignore": "big/\n*.bin\n",
        "tests/big/x": "x",
        "tests/deep/y.bin": "y",
        "tests/deep/z": "z",
        "steps/one/tests/.harborignore": "t\n",
        "steps/one/tests/t": "t",
        "steps/one/t": "t",
    }
    left_out = {
        ".gitignore", ".harborignore", "environment/run.log", "tests/big/x", "tests/deep/y.bin",
        "steps/one/tests/t",
    }  # fmt: skip
    folder = write(tmp_path / "t", MINIMAL, files)
    published = {k: v for k, v in {**MINIMAL, **files}.items() if k not in left_out}
    assert content_hash(folder) == by_hand(published)


def test_a_folder_that_must_not_be_published(tmp_path):
    folder = write(tmp_path / "t", MINIMAL)
    (folder / "tests/out").symlink_to("/etc/hostname")
    with pytest.raises(DataError, match="leaves tests/"):
        content_hash(folder)
