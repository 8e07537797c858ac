"""A pseudo-terminal with a command on it, as in a window."""

import fcntl
import os
import select
import struct
import subprocess
import termios
import time
from collections.abc import Callable
from pathlib import Path

from tests.acceptance.command import LIMIT_S, command, environment


class Terminal:
    """Runs `proctor WORDS` on a terminal of its own; what it prints is in `seen`."""

    def __init__(
        self, *words: str, cwd: Path, size: tuple[int, int] = (24, 100), **variables: str | None
    ) -> None:
        self._master, slave = os.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", *size, 0, 0))
        env = environment(**{"TERM": "xterm-256color", "COLUMNS": None, **variables})

        def take_the_terminal() -> None:
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)

        self.process = subprocess.Popen(
            command(*words), cwd=cwd, env=env, stdin=slave, stdout=slave, stderr=slave,
            start_new_session=True, preexec_fn=take_the_terminal,  # noqa: PLW1509 - no threads here
        )  # fmt: skip
        os.close(slave)
        self.seen = b""

    def type(self, keys: bytes) -> None:
        os.write(self._master, keys)

    def wait_for(self, text: bytes) -> None:
        """Read until `text` has been printed."""
        self._read(lambda: text in self.seen)
        assert text in self.seen

    def end(self) -> int:
        """Read to the end; the exit code."""
        self._read(lambda: False)
        os.close(self._master)
        return self.process.wait(timeout=LIMIT_S)

    def _read(self, enough: Callable[[], bool]) -> None:
        deadline = time.monotonic() + LIMIT_S
        while not enough():
            ready, _, _ = select.select([self._master], [], [], deadline - time.monotonic())
            assert ready, f"nothing more was printed after {self.seen[-500:]!r}"
            try:
                data = os.read(self._master, 65536)
            except OSError:  # the other side is closed
                return
            if not data:
                return
            self.seen += data
