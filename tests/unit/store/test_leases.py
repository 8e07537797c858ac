"""Names of owners, and what is known of them."""

import subprocess
import sys

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
        while name.count(b"/") < 4 or len(name.rpartition(b"/")[2]) < 8:
            name += process.stdout.read(1)
        assert not is_dead(name.decode())
        process.stdin.close()
        process.wait()
        assert is_dead(name.decode())


def test_a_number_that_another_process_got_since_does_not_count_as_alive():
    host, boot, pid, _, nonce = owner_name().split("/")
    assert is_dead("/".join((host, boot, pid, "1", nonce)))


def test_before_a_restart_of_the_machine_everybody_is_dead():
    host, _, pid, start, nonce = owner_name().split("/")
    assert is_dead("/".join((host, "another-boot", pid, start, nonce)))


def test_of_other_machines_and_foreign_names_nothing_is_known():
    _, boot, pid, _, nonce = owner_name().split("/")
    assert not is_dead("/".join(("elsewhere", boot, pid, "1", nonce)))
    for name in ("", "me", "a/b/c", "/".join("abcde"), "////"):
        assert not is_dead(name)
