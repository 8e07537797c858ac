"""Files that survive: atomic replacement, lines that only grow."""

import errno
import json
import os
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proctor.kernel import faults
from proctor.kernel.errors import StorageError
from proctor.kernel.jsontext import JsonError
from proctor.store.files import (
    AppendFile,
    Sync,
    read_json,
    read_json_lines,
    read_lines,
    sync_ancestors,
    write_atomic,
    write_json,
    write_pretty_json,
)
from proctor.testing.faults import FaultPlan, injected

OLD, NEW = b"old" * 100, b"new" * 200
MOMENTS = ["begin", "partial", "written", "synced", "renamed", "done"]


@pytest.mark.parametrize("sync", Sync)
def test_a_file_is_written_whole(tmp_path, sync):
    path = tmp_path / "a.json"
    write_json(str(path), {"a": ["é", 1]}, "role", sync)
    assert path.read_bytes() == '{"a":["é",1]}\n'.encode()
    assert read_json(str(path)) == {"a": ["é", 1]}
    assert [p.name for p in tmp_path.iterdir()] == ["a.json"]


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_full_disk_leaves_the_old_bytes_or_the_new_ones(tmp_path, moment):
    """After the rename the new bytes are in place; before it, the old ones."""
    path = tmp_path / "a"
    path.write_bytes(OLD)
    with injected(FaultPlan("enospc", f"role.{moment}")) as injector:
        with pytest.raises(StorageError, match="No space left on device") as caught:
            write_atomic(str(path), NEW, "role", Sync.RECORD)
        assert injector.hits == 1
    assert str(path) in str(caught.value)
    assert "proctor resume" in caught.value.hint
    assert path.read_bytes() == (NEW if moment in ("renamed", "done") else OLD)
    assert [p.name for p in tmp_path.iterdir()] == ["a"]  # no half-written file stays


@pytest.mark.parametrize("size", [0, 10, 1 << 16, (1 << 16) + 1, 200_000])
def test_a_file_is_read_whole(tmp_path, size):
    path = tmp_path / "a.json"
    path.write_text(json.dumps("x" * size))
    assert read_json(str(path)) == "x" * size


def test_what_is_no_file_is_named_and_never_waited_for(tmp_path):
    with pytest.raises(IsADirectoryError, match=str(tmp_path)):
        read_json(str(tmp_path))
    pipe = str(tmp_path / "pipe")
    os.mkfifo(pipe)
    with pytest.raises(JsonError, match=pipe):
        read_json(pipe)


def test_half_of_the_bytes_are_there_at_the_partial_point(tmp_path):
    path = tmp_path / "a"
    seen = {}

    def look(name):
        temporary = tmp_path / "a.tmp"
        seen[name] = temporary.stat().st_size if temporary.exists() else None

    faults.install(look)
    try:
        write_atomic(str(path), NEW, "role", Sync.FILE)
    finally:
        faults.install(None)
    assert seen == {
        "role.begin": None, "role.partial": 300, "role.written": 600, "role.renamed": None,
        "role.done": None,
    }  # fmt: skip


@pytest.mark.parametrize("size", [0, 1, 2, 3, 1000])
def test_every_size_is_written_and_hits_its_points(tmp_path, size):
    with injected(FaultPlan("record", record_to=str(tmp_path / "points"))):
        write_atomic(str(tmp_path / "a"), b"x" * size, "role")
    assert (tmp_path / "a").read_bytes() == b"x" * size
    points = (tmp_path / "points").read_text().split()
    assert points.count("role.partial") <= 1
    assert (points[0], points[-1]) == ("role.begin", "role.done")


def test_a_record_is_synced_with_its_directory_and_a_plain_file_is_not(tmp_path, monkeypatch):
    synced = []
    original = os.fsync

    def fsync(fd):
        synced.append(Path(f"/proc/self/fd/{fd}").resolve().name)
        original(fd)

    monkeypatch.setattr(os, "fsync", fsync)
    for sync in Sync:
        synced.clear()
        write_atomic(str(tmp_path / "a"), b"x", "role", sync)
        expected = {Sync.NONE: [], Sync.FILE: ["a"], Sync.RECORD: ["a.tmp", tmp_path.name]}
        assert synced == expected[sync]


def test_every_ancestor_up_to_the_root_is_synced(tmp_path, monkeypatch):
    deep = tmp_path / "a" / "b" / "c"
    deep.mkdir(parents=True)
    synced = []
    original = os.fsync

    def fsync(fd):
        synced.append(Path(f"/proc/self/fd/{fd}").resolve())
        original(fd)

    monkeypatch.setattr(os, "fsync", fsync)
    sync_ancestors(str(deep), str(tmp_path))
    assert synced == [deep, deep.parent, tmp_path / "a", tmp_path]


def test_where_nothing_can_be_written_the_path_is_named(tmp_path):
    (tmp_path / "file").write_text("x")
    path = tmp_path / "file" / "a"
    with pytest.raises(StorageError, match=f"cannot write {path}: Not a directory"):
        write_atomic(str(path), b"x", "role")


def test_a_pretty_document_is_for_people(tmp_path):
    write_pretty_json(str(tmp_path / "a"), {"a": {"b": "é"}}, "role")
    assert (tmp_path / "a").read_text("utf-8") == '{\n  "a": {\n    "b": "é"\n  }\n}\n'


@pytest.mark.parametrize("content", [b"", b"{", b"NaN", b"\xff", b"\0" * 100])
def test_a_damaged_file_is_named(tmp_path, content):
    path = tmp_path / "a.json"
    path.write_bytes(content)
    with pytest.raises(JsonError, match=r"a\.json: "):
        read_json(str(path))


# --- lines


def test_lines_end_only_at_newlines(tmp_path):
    path = tmp_path / "lines"
    path.write_bytes("a\u2028b\x0cc\u0085d\r\n\nlast without end".encode())
    assert list(read_lines(path)) == [
        (1, "a\u2028b\x0cc\u0085d".encode()),
        (2, b""),
        (3, b"last without end"),
    ]


@given(st.lists(st.dictionaries(st.text(), st.text() | st.integers(), max_size=3), max_size=8))
def test_appended_values_are_read_back(tmp_path_factory, values):
    path = str(tmp_path_factory.mktemp("lines") / "log")
    log = AppendFile(path, "log")
    for value in values:
        log.append(value)
    log.close()
    log.close()
    assert list(read_json_lines(path)) == values


def test_a_file_that_is_not_there_has_no_lines(tmp_path):
    assert list(read_json_lines(str(tmp_path / "none"))) == []


@pytest.mark.parametrize("torn", [b'{"number": 2', b"\0\0\0", b"\xff"])
def test_a_torn_line_of_a_dead_process_damages_no_other(tmp_path, torn):
    path = tmp_path / "log"
    path.write_bytes(b'{"number":1}\n' + torn)
    log = AppendFile(str(path), "log")
    assert path.read_bytes() == b'{"number":1}\n' + torn  # opening alone changes nothing
    log.append({"number": 3})
    log.append({"number": 4})
    log.close()
    assert [line["number"] for line in read_json_lines(str(path))] == [1, 3, 4]


@pytest.mark.parametrize(
    ("moment", "left"), [("begin", [1, 3]), ("partial", [1, 3]), ("done", [1, 2, 3])]
)
def test_a_full_disk_in_the_middle_of_a_line_damages_no_other(tmp_path, moment, left):
    """Before, the line after the torn one was lost with it."""
    path = str(tmp_path / "log")
    log = AppendFile(path, "log")
    log.append({"number": 1})
    with (
        injected(FaultPlan("enospc", f"log.{moment}")),
        pytest.raises(StorageError, match="No space left"),
    ):
        log.append({"number": 2})
    log.append({"number": 3})
    log.close()
    assert [line["number"] for line in read_json_lines(path)] == left


def test_lines_of_several_threads_are_whole(tmp_path):
    path = str(tmp_path / "log")
    log = AppendFile(path, "log")

    def write(name):
        for number in range(200):
            log.append({"name": name, "number": number, "text": "x" * 500})

    with injected(FaultPlan("record", at="never", record_to=str(tmp_path / "points"))):
        threads = [threading.Thread(target=write, args=(n,)) for n in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    log.close()
    lines = (tmp_path / "log").read_text("utf-8").splitlines()
    found = [(line["name"], line["number"]) for line in map(json.loads, lines)]
    assert sorted(found) == [(n, i) for n in range(4) for i in range(200)]
    for name in range(4):
        assert [i for n, i in found if n == name] == list(range(200))


def test_a_log_that_cannot_be_opened_is_named(tmp_path):
    with pytest.raises(StorageError, match="cannot write"):
        AppendFile(str(tmp_path), "log")


def test_other_failures_are_told_by_their_reason(tmp_path, monkeypatch):
    def rename(*_):
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, "rename", rename)
    with pytest.raises(StorageError, match="Input/output error"):
        write_atomic(str(tmp_path / "a"), b"x", "role")
    assert list(tmp_path.iterdir()) == []
