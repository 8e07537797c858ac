"""The process table, owners of temporary roots, and the variables that commands see."""

import json
import os
import signal
import subprocess

from proctor.environments import proctable
from proctor.environments.owner import Owner, group_in_name, owner_in_name
from proctor.environments.variables import base_variables


def started(*argv, **more):
    """A child that has surely started: it says so."""
    child = subprocess.Popen(argv, stdout=subprocess.PIPE, start_new_session=True, **more)
    assert child.stdout is not None
    assert child.stdout.readline() == b"up\n"
    return child


def test_members_of_a_group_and_zombies():
    child = started("sh", "-c", "echo up; sleep 60 & wait")
    try:
        members = proctable.live_members(child.pid)
        assert child.pid in members
        os.killpg(child.pid, signal.SIGKILL)
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        assert child.pid not in proctable.live_members(child.pid)  # a zombie now
    finally:
        child.wait()
        child.stdout.close()
    assert proctable.live_members(2**30) == []


def test_marked_processes_are_found_by_their_variables():
    since = proctable.newest_pid()
    environ = {**os.environ, "MARK_FOR_TEST": "abc"}
    child = started("sh", "-c", "echo up; read x", env=environ, stdin=subprocess.PIPE)
    try:
        assert proctable.marked("MARK_FOR_TEST", "abc", since=since) == [child.pid]
        assert proctable.marked("MARK_FOR_TEST", "ab", since=since) == []
        # The numbering started again: every process is looked at.
        assert proctable.marked("MARK_FOR_TEST", "abc", since=2**31) == [child.pid]
    finally:
        child.kill()
        child.wait()
        child.stdout.close()
        child.stdin.close()
    assert proctable.marked("MARK_FOR_TEST", "abc", since=since) == []


def test_names_with_brackets_do_not_confuse(tmp_path):
    program = tmp_path / "a) R 1 1 (b"
    program.symlink_to("/bin/sh")
    child = started(str(program), "-c", "echo up; sleep 60 & wait")
    try:
        assert child.pid in proctable.live_members(child.pid)
        assert proctable.start_ticks(child.pid) > proctable.start_ticks(os.getpid())
    finally:
        os.killpg(child.pid, signal.SIGKILL)
        child.wait()
        child.stdout.close()


def test_facts_of_this_process():
    assert proctable.start_ticks(os.getpid()) > 0
    assert proctable.start_ticks(2**30) is None
    assert len(proctable.boot_id()) == 36


def test_owner_is_told_by_name_and_by_marker():
    owner = Owner.this_process()
    name = owner.new_name()
    assert name != owner.new_name()
    assert owner_in_name(name) == (os.getpid(), proctable.start_ticks(os.getpid()))
    for other in ("proctor-1-2", "proctor-1-2-xyz", "x" + name, name + "x", "tmp1234"):
        assert owner_in_name(other) is None
    record = json.loads(owner.marker("local", {"run": "r", "attempt": "a/1"}))
    assert record == {
        "provider": "local",
        "labels": {"run": "r", "attempt": "a/1"},
        "pid": os.getpid(),
        "started_ticks": owner.started_ticks,
        "boot_id": proctable.boot_id(),
        "pid_namespace": proctable.pid_namespace(),
    }
    assert Owner.from_json(record) == owner
    for odd in ({}, {**record, "pid": "7"}, {**record, "pid": True}, {**record, "boot_id": None}):
        assert Owner.from_json(odd) is None
    assert group_in_name(owner.group_name(name)) == owner
    for other in (name, f"{name}.", f"{name}..x", f"{name}.12", f"{name}.ab.x", "x.12.y"):
        assert group_in_name(other) is None


def test_only_a_short_list_of_variables_passes():
    full = {
        "PATH": "/opt/x/bin:relative:/usr/bin::.", "LANG": "C.UTF-8", "LC_ALL": "de_DE",
        "LC_TIME": "C", "TZ": "UTC", "HOME": "/somewhere", "TERM": "xterm", "OPENAI_API_KEY": "x",
        "LANGUAGE": "x", "PYTHONPATH": "/x", "LD_PRELOAD": "/x", "SSH_AUTH_SOCK": "/x",
    }  # fmt: skip
    assert base_variables(full) == {
        "PATH": "/opt/x/bin:/usr/bin", "TERM": "dumb", "LANG": "C.UTF-8", "LC_ALL": "de_DE",
        "LC_TIME": "C", "TZ": "UTC",
    }  # fmt: skip
    assert base_variables({"PATH": "bin"})["PATH"].startswith("/usr/local/sbin:")
    assert base_variables({})["PATH"].startswith("/usr/local/sbin:")
