"""One owner for a directory: real processes that hold it, die, or never let go."""

import fcntl
import json
import os
import signal
import socket
import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from proctor.kernel.clock import iso
from proctor.kernel.errors import StorageError
from proctor.store.exclusive import (
    STALE_AFTER,
    Claim,
    Owner,
    boot_id,
    live_owner,
    process_start_time,
    read_owner,
)
from proctor.testing.faults import FaultPlan, injected

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)

HOLDER = """
import sys
from datetime import UTC, datetime
from proctor.store.exclusive import Claim
taken = Claim.take(sys.argv[1], datetime.now(UTC))
print(type(taken).__name__, getattr(taken, "pid", ""), flush=True)
sys.stdin.readline()
if isinstance(taken, Claim):
    taken.release(datetime.now(UTC))
"""


def hold(directory) -> "tuple[subprocess.Popen[str], list[str]]":
    """A process that tries to take the directory, and what it says it got."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(directory)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    return process, process.stdout.readline().split()


def finish(process) -> None:
    process.communicate("\n", timeout=60)


def test_of_two_processes_one_gets_it_and_the_other_is_told_who_has_it(tmp_path):
    first, got = hold(tmp_path)
    assert got == ["Claim"]
    second, refused = hold(tmp_path)
    assert refused == ["Owner", str(first.pid)]
    assert live_owner(str(tmp_path), datetime.now(UTC)).pid == first.pid
    finish(first)
    finish(second)
    third, got = hold(tmp_path)
    assert got == ["Claim"]
    finish(third)


@pytest.mark.parametrize("reaped", [True, False])
def test_a_killed_owner_is_dead_at_once(tmp_path, reaped):
    process, _ = hold(tmp_path)
    process.send_signal(signal.SIGKILL)
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)  # ended, and a zombie until reaped
    if reaped:
        process.communicate()
    owner = read_owner(str(tmp_path))
    assert (owner.pid, owner.released_at) == (process.pid, None)
    assert not owner.alive(datetime.now(UTC))
    claim = Claim.take(str(tmp_path), NOW)
    assert isinstance(claim, Claim)
    claim.release(NOW)
    process.communicate()


def test_the_note_of_this_process(tmp_path):
    claim = Claim.take(str(tmp_path), NOW)
    owner = read_owner(str(tmp_path))
    assert owner == Owner(
        os.getpid(), socket.gethostname(), process_start_time(os.getpid()), boot_id(),
        iso(NOW), iso(NOW), None,
    )  # fmt: skip
    later = NOW + timedelta(seconds=10)
    claim.beat(later)
    assert read_owner(str(tmp_path)) == replace(owner, heartbeat=iso(later))
    assert owner.alive(later)
    claim.release(later)
    claim.release(later)
    released = read_owner(str(tmp_path))
    assert released.released_at == iso(later)
    assert not released.alive(later)
    assert live_owner(str(tmp_path), later) is None


def test_one_process_cannot_take_it_twice(tmp_path):
    claim = Claim.take(str(tmp_path), NOW)
    assert Claim.take(str(tmp_path), NOW).pid == os.getpid()
    claim.release(NOW)
    again = Claim.take(str(tmp_path), NOW)
    assert isinstance(again, Claim)
    again.release(NOW)


def test_a_claim_is_not_inherited_by_programs_that_are_started(tmp_path):
    claim = Claim.take(str(tmp_path), NOW)
    child = subprocess.Popen(["sleep", "60"], close_fds=False)
    try:
        claim.release(NOW)
        again = Claim.take(str(tmp_path), NOW)
        assert isinstance(again, Claim)
        again.release(NOW)
    finally:
        child.kill()
        child.wait()


@pytest.mark.parametrize(
    ("change", "alive"),
    [
        ({}, True),
        ({"pid": 2**22 + 1}, False),
        ({"process_start_time": "1"}, False),
        ({"process_start_time": None}, False),
        ({"boot_id": "another boot"}, False),
        ({"released_at": iso(NOW)}, False),
        ({"host": "elsewhere", "heartbeat": iso(NOW)}, True),
        ({"host": "elsewhere", "heartbeat": iso(NOW - STALE_AFTER)}, False),
        ({"host": "elsewhere", "heartbeat": "2026-01-31T11:59:50"}, True),
        ({"host": "elsewhere", "heartbeat": "some time"}, False),
        ({"host": "elsewhere", "heartbeat": None}, False),
    ],
)
def test_who_is_alive(change, alive):
    assert replace(Owner.current(NOW), **change).alive(NOW) is alive


def test_a_fresh_note_of_another_host_counts_and_a_stale_one_does_not(tmp_path):
    note = {**Owner.current(NOW).to_json(), "host": "elsewhere", "pid": 1}
    (tmp_path / "owner.json").write_text(json.dumps(note))
    refused = Claim.take(str(tmp_path), NOW)
    assert (type(refused), refused.host) == (Owner, "elsewhere")
    claim = Claim.take(str(tmp_path), NOW + STALE_AFTER)
    assert isinstance(claim, Claim)
    claim.release(NOW)


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "null", '"x"', '{"pid": "12"}', '{"pid": true, "host": "h"}', '{"pid": 1}',
     '{"pid": 1, "host": "h", "heartbeat": 5}', '{"pid": 1, "host": ["h"]}'],
)  # fmt: skip
def test_a_note_that_is_none_is_nobodys(tmp_path, text):
    (tmp_path / "owner.json").write_text(text)
    assert read_owner(str(tmp_path)) is None
    claim = Claim.take(str(tmp_path), NOW)
    assert isinstance(claim, Claim)
    claim.release(NOW)


def test_a_lock_without_a_note_is_refused_all_the_same(tmp_path):
    fd = os.open(tmp_path / "owner.lock", os.O_RDWR | os.O_CREAT)
    fcntl.flock(fd, fcntl.LOCK_EX)
    refused = Claim.take(str(tmp_path), NOW)
    assert (type(refused), refused.host) == (Owner, "unknown host")
    os.close(fd)


def test_a_claim_whose_note_cannot_be_written_is_not_kept(tmp_path):
    with injected(FaultPlan("enospc", "owner.partial")), pytest.raises(StorageError):
        Claim.take(str(tmp_path), NOW)
    claim = Claim.take(str(tmp_path), NOW)
    assert isinstance(claim, Claim)
    claim.release(NOW)


def test_a_release_on_a_full_disk_does_not_fail_and_leaves_no_living_owner(tmp_path):
    """Before, it raised, and hid the report of the run whose disk was full."""
    claim = Claim.take(str(tmp_path), NOW)
    with injected(FaultPlan("enospc", "owner.partial")):
        claim.release(NOW)
    assert live_owner(str(tmp_path), NOW) is None
    again = Claim.take(str(tmp_path), NOW)
    assert isinstance(again, Claim)
    again.release(NOW)


def test_a_directory_that_is_not_there_is_named(tmp_path):
    with pytest.raises(StorageError, match=r"owner\.lock"):
        Claim.take(str(tmp_path / "none"), NOW)


def test_start_times_tell_processes_apart():
    assert process_start_time(os.getpid()) == process_start_time(os.getpid())
    assert process_start_time(2**22 + 1) is None
    assert boot_id() == boot_id() != ""
