import os
import stat
import subprocess
import warnings

import pytest

from proctor.environments.removal import remove_entry

pytestmark = pytest.mark.usefixtures("leak_free")


@pytest.fixture
def folder(tmp_path):
    fd = os.open(tmp_path, os.O_RDONLY)
    yield tmp_path, fd
    os.close(fd)


def dig(path, depth):
    """A chain of folders, made step by step because its path is longer than a path may be."""
    path.mkdir()
    fd = os.open(path, os.O_RDONLY)
    for _ in range(depth):
        os.mkdir("d" * 50, dir_fd=fd)
        inner = os.open("d" * 50, os.O_RDONLY, dir_fd=fd)
        os.close(fd)
        fd = inner
    os.mkfifo("pipe", dir_fd=fd)
    os.close(fd)


def as_somebody(action):
    """Run `action` without root's rights, because root is stopped by no mode."""
    if os.geteuid() != 0:
        action()
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # other threads: the child uses none
        child = os.fork()
    if child == 0:
        status = 1
        try:
            os.setgroups([])
            os.setresgid(65_534, 65_534, 65_534)
            os.setresuid(65_534, 65_534, 65_534)
            action()
            status = 0
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_files_links_pipes_and_nothing(folder):
    path, fd = folder
    (path / "file").write_text("x")
    os.mkfifo(path / "pipe")
    (path / "link").symlink_to("/etc")
    for name in ("file", "pipe", "link", "missing"):
        assert remove_entry(fd, name)
    assert os.listdir(path) == []
    assert os.path.isdir("/etc")


def test_links_inside_a_tree_are_not_followed(folder):
    path, fd = folder
    (path / "kept").mkdir()
    (path / "kept" / "file").write_text("x")
    (path / "tree" / "a").mkdir(parents=True)
    (path / "tree" / "a" / "link").symlink_to(path / "kept")
    (path / "tree" / "file-link").symlink_to(path / "kept" / "file")
    os.link(path / "kept" / "file", path / "tree" / "hard")
    assert remove_entry(fd, "tree")
    assert os.listdir(path) == ["kept"]
    assert (path / "kept" / "file").read_text() == "x"


def test_depth_costs_neither_stack_nor_descriptors(folder):
    path, fd = folder
    dig(path / "deep", 700)
    assert remove_entry(fd, "deep")
    assert os.listdir(path) == []


def test_locked_folders_of_our_own(tmp_path):
    tmp_path.chmod(0o777)
    for parent in tmp_path.parents:
        if parent.owner() == tmp_path.owner() and len(parent.parts) > 2:
            parent.chmod(parent.stat().st_mode | stat.S_IXOTH)
    subprocess.run(["true"], check=True)

    def action():
        os.umask(0o022)
        tree = tmp_path / "tree"
        (tree / "none" / "in").mkdir(parents=True)
        (tree / "none" / "in" / "file").write_text("x")
        (tree / "readonly").mkdir()
        (tree / "readonly" / "file").write_text("x")
        (tree / "readonly").chmod(0o555)
        (tree / "none" / "in").chmod(0o000)
        (tree / "none").chmod(0o000)
        tree.chmod(0o000)
        fd = os.open(tmp_path, os.O_RDONLY)
        assert remove_entry(fd, "tree")
        assert os.listdir(tmp_path) == []
        os.close(fd)

    as_somebody(action)


def test_what_cannot_be_removed_is_told_and_the_rest_goes(tmp_path):
    if os.geteuid() != 0:
        pytest.skip("needs a second user to own a file that is in the way")
    tree = tmp_path / "tree"
    for name in ("mine", "theirs"):
        (tree / name).mkdir(parents=True)
        (tree / name / "file").write_text("x")
    for path in (tmp_path, tree, tree / "mine"):
        os.chown(path, 65_534, 65_534)
    os.chown(tree / "mine" / "file", 65_534, 65_534)
    for parent in tmp_path.parents:
        if len(parent.parts) > 2:
            parent.chmod(parent.stat().st_mode | stat.S_IXOTH)

    def action():
        fd = os.open(tmp_path, os.O_RDONLY)
        with pytest.raises(PermissionError):
            remove_entry(fd, "tree")
        os.close(fd)

    as_somebody(action)
    assert sorted(p.name for p in tree.iterdir()) == ["theirs"]


def test_a_budget_lets_the_work_be_done_in_slices(folder):
    path, fd = folder
    for number in range(30):
        (path / "tree" / str(number)).mkdir(parents=True)
        (path / "tree" / str(number) / "file").write_text("x")
    calls = 1
    while not remove_entry(fd, "tree", max_entries=10):
        calls += 1
    assert os.listdir(path) == []
    assert 6 <= calls <= 13
    (path / "tree").mkdir()
    assert not remove_entry(fd, "tree", timeout_s=-1.0)
    assert remove_entry(fd, "tree", timeout_s=60)


def test_large_folders_go_in_batches(folder):
    path, fd = folder
    (path / "many").mkdir()
    for number in range(2_500):
        (path / "many" / str(number)).touch()
    assert remove_entry(fd, "many")
    assert os.listdir(path) == []
