"""Which file systems share locks."""

import errno
import fcntl

import pytest

from proctor.store.journal.shared_locks import file_system_of, locks_are_shared

MOUNTS = r"""
22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
40 22 0:40 / /far rw,relatime shared:20 - nfs4 server:/far rw
41 22 0:41 / /far/local\040disk rw,relatime - xfs /dev/vdb rw
42 22 0:42 / /mnt rw - ext4 /dev/vdc rw
43 42 0:43 / /mnt rw master:3 propagate_from:2 - 9p share rw
44 22 0:44 / /fars rw - btrfs /dev/vdd rw
garbage
"""


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/", "ext4"),
        ("/far", "nfs4"),
        ("/far/a/b", "nfs4"),
        ("/far/local disk/x", "xfs"),
        ("/fars/x", "btrfs"),
        ("/mnt/x", "9p"),
        ("/mntx", "ext4"),
    ],
)
def test_the_innermost_and_topmost_mount_counts(path, kind):
    assert file_system_of(path, MOUNTS) == kind


def test_no_table_of_mounts_says_nothing():
    assert file_system_of("/x", "") is None


def test_a_network_file_system_does_not_share(tmp_path):
    assert locks_are_shared(str(tmp_path), "")
    mounts = f"40 22 0:40 / {tmp_path} rw - nfs4 server:/far rw"
    assert not locks_are_shared(str(tmp_path), mounts)


def test_a_folder_where_nothing_can_be_locked_does_not_share(tmp_path, monkeypatch):
    def refuse(*_):
        raise OSError(errno.ENOLCK, "no locks")

    monkeypatch.setattr(fcntl, "lockf", refuse)
    assert not locks_are_shared(str(tmp_path), "")


def test_a_folder_that_is_not_there_is_left_to_the_opening(tmp_path):
    assert locks_are_shared(str(tmp_path / "gone"), "")
