"""The work that all systems do. Standard library only: it runs in their virtual environments too.

A case is called with

    python -m MODULE steps PLACE VARIANT RUNS STEPS REPORT
    python -m MODULE effect PLACE VARIANT SOCKET REPORT

where PLACE is `sqlite` or the URL of a PostgreSQL database. `effect` is called twice in the same
folder: the first time it dies (SIGKILL) after the effect, the second time it has to recover.
"""

import json
import os
import signal
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.journal_server import server_cpu_s
from bench.own import Span, report

RESULT_BYTES = 400
SERVER_PID = "BENCH_SERVER_PID"
"""The variable that names the PostgreSQL server whose CPU counts besides."""
_MARK = Path("died")


def result(number: int) -> str:
    """What a step yields: different for each, of RESULT_BYTES."""
    return f"{number:06d}".ljust(RESULT_BYTES, "x")


class Measured:
    """From construction to `end`: the costs of all steps, of this process and of the server. Start
    and imports do not count."""

    def __init__(self, runs: int, steps: int) -> None:
        self._steps = runs * steps
        self._pid = int(os.environ.get(SERVER_PID, "0"))
        self._server_s = self._server()
        self._span = Span()

    def end(self) -> dict[str, Any]:
        """The costs."""
        found = self._span.end()
        return {**found, "steps": self._steps, "server_s": self._server() - self._server_s}

    def _server(self) -> float:
        return server_cpu_s(self._pid) if self._pid else 0.0


def effect(path: str, key: str, *, once: bool) -> int:
    """One effect outside; how often it has happened now. `once`: the other side knows its key."""
    return int(_ask(path, {"do": key, "once": once})["effects"])


def effects(path: str, key: str) -> int:
    """How often it has happened."""
    return int(_ask(path, {"query": key})["effects"])


def _ask(path: str, request: dict[str, Any]) -> dict[str, Any]:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(path)
        connection.sendall(json.dumps(request).encode() + b"\n")
        with connection.makefile("rb") as answers:
            found: dict[str, Any] = json.loads(answers.readline())
    return found


def recovering() -> bool:
    """Whether this case has died before."""
    return _MARK.exists()


def die_once() -> None:
    """SIGKILL, the first time."""
    if not recovering():
        _MARK.touch()
        os.kill(os.getpid(), signal.SIGKILL)


def main(steps: Callable[[str, str, int, int], dict[str, Any]],
         one_effect: Callable[[str, str, str], str]) -> None:  # fmt: skip
    """A case's command line: `steps(place, variant, runs, steps)` gives the costs,
    `one_effect(place, variant, socket)` says how it ended."""
    step, place, variant, *rest = sys.argv[1:]
    if step == "steps":
        runs, count, path = rest
        report(path, steps(place, variant, int(runs), int(count)))
    else:
        path_of_socket, path = rest
        report(path, {"ended": one_effect(place, variant, path_of_socket)})
