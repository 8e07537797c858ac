"""Names of owners, and what is known of them."""

import subprocess
import sys

from proctor.store import leases
from proctor.store.leases import is_dead, owner_name

NAME = "from proctor.store.leases import owner_name; import sys; sys.stdout.write(owner_name())"


def test_an_owner_gets_a_name_that_is_never_given_twice():
    assert owner_name() != owner_name()
    assert not is_dead(owner_name())


def test_a_process_that_has_ended_is_known_to_be_dead():
    done = subprocess.run([sys.executable, "-c", NAME], capture_output=True, text=True, check=True)
    assert is_dead(done.stdout)


def test_a_process_that_stands_still_is_not_dead():
    code = NAME + "; sys.stdout.flush(); sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        name = b""
        while name.count(b"/") < 6 or len(name.rpartition(b"/")[2]) < 8:
            name += process.stdout.read(1)
        assert not is_dead(name.decode())
        process.stdin.close()
        process.wait()
        assert is_dead(name.decode())


def named(**changes):
    fields = ("host", "machine", "boot", "namespace", "pid", "start", "nonce")
    return "/".join((dict(zip(fields, owner_name().split("/"), strict=True)) | changes).values())


def test_a_number_that_another_process_got_since_does_not_count_as_alive():
    assert is_dead(named(start="1"))


def test_before_a_restart_of_the_machine_everybody_is_dead(monkeypatch):
    monkeypatch.setattr(leases, "_machine", lambda: "m1")
    assert is_dead(named(boot="another-boot"))
    # Another machine of the same name, and one that does not know who it is.
    assert not is_dead(named(boot="another-boot", machine="m2"))
    monkeypatch.setattr(leases, "_machine", lambda: "")
    assert not is_dead(named(boot="another-boot"))


def test_of_another_namespace_of_process_ids_nothing_is_known():
    """A container on the same machine with the same name of its host."""
    assert not is_dead(named(namespace="pid:[1]", start="1"))
    assert not is_dead(named(namespace="pid:[1]", pid="999999999"))


def test_of_other_machines_and_foreign_names_nothing_is_known():
    assert not is_dead(named(host="elsewhere", start="1"))
    for name in ("", "me", "a/b/c", "/".join("abcde"), "/".join("abcdefg"), "//////"):
        assert not is_dead(name)
