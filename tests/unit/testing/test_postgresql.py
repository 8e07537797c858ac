"""A PostgreSQL server for the time of a block."""

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from proctor.testing import postgresql
from proctor.testing.postgresql import NoPostgresql, temporary_postgresql

HOLDER = """
import sys
from proctor.testing.postgresql import temporary_postgresql
with temporary_postgresql() as url:
    sys.stdout.write(url + "\\n")
    sys.stdout.flush()
    sys.stdin.read()
"""


@pytest.fixture
def place(need, monkeypatch):
    """A temporary folder of this test in which servers are made; the way to it is short, because
    the names of sockets are."""
    need(sys.platform == "linux", "servers die with their parent on Linux only")
    try:
        postgresql._programs()
    except NoPostgresql as error:
        need(False, str(error))
    with tempfile.TemporaryDirectory(prefix="pgt-") as name:
        os.chmod(name, 0o755)
        monkeypatch.setattr(tempfile, "tempdir", name)
        monkeypatch.setenv("TMPDIR", name)
        yield Path(name)


@pytest.mark.slow
def test_it_answers_and_leaves_nothing(place):
    import psycopg

    with temporary_postgresql() as url:
        with psycopg.connect(url) as connection:
            assert connection.execute("SELECT 1 + 1").fetchone() == (2,)
        (folder,) = place.iterdir()
        assert folder.name.startswith(f"proctor-pg-{os.getpid()}-")
    assert list(place.iterdir()) == []


@pytest.mark.slow
def test_it_dies_with_a_killed_parent_and_the_next_one_tidies_up(place):
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdout.readline().startswith(b"postgresql://")
        (folder,) = place.iterdir()
        server = int((folder / "data" / "postmaster.pid").read_text().splitlines()[0])
        watch = os.pidfd_open(server)
        holder.send_signal(signal.SIGKILL)
        holder.wait()
    import select

    ready, _, _ = select.select([watch], [], [], 30)
    os.close(watch)
    assert ready, "the server outlives its parent"
    stranger = place / "proctor-pg-mine"
    stranger.mkdir()
    postgresql._remove_abandoned()
    assert list(place.iterdir()) == [stranger]
