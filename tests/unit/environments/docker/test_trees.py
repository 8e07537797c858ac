"""Tar streams both ways: what is sent is checked first, what comes is treated as hostile."""

import io
import os
import tarfile

import pytest

from proctor.environments import copying
from proctor.environments.copying import Stopped
from proctor.environments.docker.context import pack_context
from proctor.environments.docker.packing import Pack, first_file, folders, one_file
from proctor.environments.docker.unpacking import Unpack
from proctor.kernel.errors import EnvironmentFault


def tar(*entries):
    """A stream of (name, kind, contents or target)."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name, kind, content in entries:
            entry = tarfile.TarInfo(name)
            entry.type, entry.mode = kind, 0o4755
            if kind == tarfile.REGTYPE:
                entry.size = len(content)
                archive.addfile(entry, io.BytesIO(content))
            else:
                entry.linkname = content
                archive.addfile(entry)
    return stream.getvalue()


FILE, FOLDER, LINK = tarfile.REGTYPE, tarfile.DIRTYPE, tarfile.SYMTYPE
HARD, PIPE, DEVICE = tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE


def unpacked(data, target, limit=10_000):
    Unpack(limit, "/app/tree").run(io.BytesIO(data).read, target)


def code_of(data, target, limit=10_000):
    with pytest.raises(EnvironmentFault) as raised:
        unpacked(data, target, limit)
    return raised.value.fault_code


def test_a_tree_arrives_with_its_links_and_second_names(tmp_path):
    data = tar(
        ("tree/", FOLDER, ""), ("tree/a/", FOLDER, ""), ("tree/a/one", FILE, b"1"),
        ("tree/a/two", HARD, "tree/a/one"), ("tree/link", LINK, "a/one"),
        ("tree/" + "ü" * 90 + "/deep", FILE, b"d"),
    )  # fmt: skip
    unpacked(data, tmp_path / "out")
    assert (tmp_path / "out/a/two").read_bytes() == b"1"
    assert os.readlink(tmp_path / "out/link") == "a/one"
    assert (tmp_path / "out" / ("ü" * 90) / "deep").read_bytes() == b"d"
    assert (tmp_path / "out/a/one").stat().st_mode & 0o7777 == 0o755  # no setuid bit


@pytest.mark.parametrize(
    ("entry", "code"),
    [
        (("tree/x", LINK, "/etc/passwd"), "refused_path"),
        (("tree/x", LINK, "../x"), "refused_path"),
        (("tree/x", LINK, "a/../../x"), "refused_path"),
        (("tree/../../x", FILE, b"1"), "refused_path"),
        (("tree/x", HARD, "tree/../../etc/passwd"), "refused_path"),
        (("tree/x", PIPE, ""), "not_a_file"),
        (("tree/x", DEVICE, ""), "not_a_file"),
        (("tree", LINK, "elsewhere"), "not_a_file"),
        (("tree/" + "d/" * 120 + "x", FILE, b""), "too_large"),
        (("tree/x", FILE, b"1" * 10_001), "too_large"),
    ],
)
def test_hostile_entries_are_refused(entry, code, tmp_path):
    assert code_of(tar(("tree/", FOLDER, ""), entry), tmp_path / "out") == code
    assert not (tmp_path / "x").exists()


def test_nothing_is_written_through_a_link_that_came_first(tmp_path):
    """`a` becomes a link, and then a folder of files: the link must not be followed."""
    (tmp_path / "out").mkdir()
    (tmp_path / "victim").mkdir()
    (tmp_path / "out/a").symlink_to(tmp_path / "victim")
    data = tar(("tree/", FOLDER, ""), ("tree/a/file", FILE, b"1"))
    with pytest.raises((EnvironmentFault, OSError)):
        unpacked(data, tmp_path / "out")
    assert list((tmp_path / "victim").iterdir()) == []
    unpacked(tar(("tree/", FOLDER, ""), ("tree/a/", FOLDER, ""), ("tree/a/file", FILE, b"1")),
             tmp_path / "out")  # fmt: skip
    assert (tmp_path / "out/a/file").read_bytes() == b"1"
    assert list((tmp_path / "victim").iterdir()) == []


def test_a_second_name_of_something_that_is_a_link_is_refused(tmp_path):
    (tmp_path / "secret").write_text("s", "utf-8")
    data = tar(("tree/", FOLDER, ""), ("tree/a", LINK, "b"), ("tree/c", HARD, "tree/a"))
    assert code_of(data, tmp_path / "out") == "not_a_file"


def test_the_limit_counts_all_files_and_second_names(tmp_path):
    data = tar(("tree/", FOLDER, ""), ("tree/a", FILE, b"1" * 60), ("tree/b", HARD, "tree/a"))
    assert code_of(data, tmp_path / "out", limit=100) == "too_large"
    unpacked(data, tmp_path / "out", limit=120)


def test_a_stream_that_is_cut_is_a_fault(tmp_path):
    data = tar(("tree/", FOLDER, ""), ("tree/a", FILE, b"1" * 5_000))
    assert code_of(data[:2_000], tmp_path / "out") == "environment"
    assert code_of(b"no tar" * 200, tmp_path / "out") == "environment"


def test_a_tree_of_very_many_empty_files_is_refused(tmp_path, monkeypatch):
    """They cost no bytes, but the host has only so many inodes."""
    monkeypatch.setattr(copying, "MOST_ENTRIES", 5)
    five = [("tree/", FOLDER, ""), *((f"tree/{n}", FILE, b"") for n in range(4))]
    unpacked(tar(*five), tmp_path / "five")
    assert len(os.listdir(tmp_path / "five")) == 4
    assert code_of(tar(*five, ("tree/4", FILE, b"")), tmp_path / "six") == "too_large"
    assert not (tmp_path / "six" / "4").exists()


def test_unpacking_can_be_stopped(tmp_path):
    unpack = Unpack(100, "/app/tree")
    unpack.stop()
    with pytest.raises(Stopped):
        unpack.run(io.BytesIO(tar(("tree/", FOLDER, ""))).read, tmp_path / "out")


def packed(source, name="app/in", *, top=True):
    pack = Pack((1000, 1001))
    with pack.stream:
        pack.entry(source, name, top=top)
        size = pack.size()
        data = pack.stream.read()
    assert len(data) == size
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        return {m.name: m for m in archive.getmembers()}


def test_what_is_sent_has_owner_rights_and_links(tmp_path):
    (tmp_path / "tree/a").mkdir(parents=True)
    (tmp_path / "tree/a/run.sh").write_text("x" * 1_000, "utf-8")
    (tmp_path / "tree/a/run.sh").chmod(0o6755)
    (tmp_path / "tree/link").symlink_to("a/run.sh")
    found = packed(tmp_path / "tree")
    assert list(found) == ["app/in", "app/in/a", "app/in/a/run.sh", "app/in/link"]
    script = found["app/in/a/run.sh"]
    assert (script.uid, script.gid, script.mode, script.size) == (1000, 1001, 0o755, 1_000)
    assert found["app/in/link"].linkname == "a/run.sh"
    assert "app/in" not in packed(tmp_path / "tree", top=False)


def test_bytes_of_one_file_and_of_folders():
    assert first_file(one_file("a/b", b"data", 0o644, (0, 0), 1.0), "/a/b", 10) == b"data"
    with pytest.raises(EnvironmentFault) as raised:
        first_file(one_file("a/b", b"data", 0o644, (0, 0), 1.0), "/a/b", 3)
    assert raised.value.fault_code == "too_large"
    with pytest.raises(EnvironmentFault) as raised:
        first_file(folders(["a"], (0, 0), 0o755, 1.0), "/a", 3)
    assert raised.value.fault_code == "not_a_file"


def test_a_context_has_one_digest_whatever_its_times_are(tmp_path):
    (tmp_path / "Dockerfile").write_text("FROM x\n", "utf-8")
    (tmp_path / ".dockerignore").write_text("out\nDockerfile\n", "utf-8")
    (tmp_path / "out").mkdir()
    (tmp_path / "out/big").write_text("big", "utf-8")
    (tmp_path / "in").write_text("in", "utf-8")
    first = pack_context(tmp_path)
    with first.stream, tarfile.open(fileobj=first.stream) as archive:
        assert archive.getnames() == [".dockerignore", "Dockerfile", "in"]
    os.utime(tmp_path / "in", (1, 1))
    (tmp_path / "out/big").write_text("bigger", "utf-8")
    again = pack_context(tmp_path)
    again.stream.close()
    assert again.digest == first.digest
    (tmp_path / "in").write_text("IN", "utf-8")
    changed = pack_context(tmp_path)
    changed.stream.close()
    assert changed.digest != first.digest


def test_a_context_without_a_recipe_is_refused(tmp_path):
    with pytest.raises(EnvironmentFault) as raised:
        pack_context(tmp_path)
    assert (raised.value.fault_code, raised.value.permanent) == ("image_build", True)
    (tmp_path / "Dockerfile").write_text("FROM x\n", "utf-8")
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(EnvironmentFault) as raised:
        pack_context(tmp_path)
    assert raised.value.fault_code == "not_a_file"
