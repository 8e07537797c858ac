"""The signal that ends a container's processes reaches nobody else."""

import os
import signal
import subprocess
from contextlib import contextmanager

from proctor.environments import proctable
from proctor.environments.docker import sweeping


@contextmanager
def sleeping():
    with subprocess.Popen(["sleep", "600"]) as child:
        try:
            yield child
        finally:
            child.kill()


def test_an_id_that_another_process_has_by_now_is_left_alone():
    """As after a look at a container whose process ended and whose id was given away."""

    def belongs(pid):
        return sweeping._belongs("4026530000", "0" * 64, pid)

    with sleeping() as stranger:
        assert sweeping._killed({stranger.pid}, belongs) == {}
        assert proctable.runs(stranger.pid)


def test_an_id_that_is_given_away_after_it_was_asked_about_is_left_alone(monkeypatch):
    """The descriptor names the first process, and gets the signal in its place."""
    with sleeping() as stranger, sleeping() as member:
        open_fd = os.pidfd_open
        monkeypatch.setattr(os, "pidfd_open", lambda _: open_fd(member.pid))
        assert list(sweeping._killed({stranger.pid}, lambda _: True)) == [stranger.pid]
        assert member.wait(60) == -signal.SIGKILL
        assert proctable.runs(stranger.pid)


def test_what_belongs_there_is_ended_and_what_is_gone_is_passed_over():
    with sleeping() as gone:
        gone.kill()
        gone.wait()
        with sleeping() as member:
            at = proctable.start_ticks(member.pid)
            assert sweeping._killed({gone.pid, member.pid}, lambda _: True) == {member.pid: at}
            assert member.wait(60) == -signal.SIGKILL


def test_without_descriptors_the_container_is_restarted_instead(monkeypatch):
    def refused(_):
        raise OSError(24, "too many open files")

    with sleeping() as member:
        monkeypatch.setattr(os, "pidfd_open", refused)
        assert sweeping._killed({member.pid}, lambda _: True) is None
        assert proctable.runs(member.pid)
