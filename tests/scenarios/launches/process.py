"""proctor in a process of its own, watched through a named pipe."""

import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import yaml

HERE = Path(__file__).resolve().parent
ROOMS = HERE / "rooms.py"
PATIENCE_S = 120.0
"""Only says that nothing hangs."""


class Events:
    """The reading end of a named pipe that plug-ins write lines into."""

    def __init__(self, place: Path) -> None:
        self.path = str(place)
        os.mkfifo(place)
        self._fd = os.open(place, os.O_RDWR | os.O_NONBLOCK)
        self._rest = b""

    def next(self, limit_s: float = PATIENCE_S) -> str:
        """The next line, waiting for it."""
        end = time.monotonic() + limit_s
        while b"\n" not in self._rest:
            left_s = end - time.monotonic()
            ready, _, _ = select.select([self._fd], [], [], max(0.0, left_s))
            assert ready, f"no event within {limit_s} s"
            self._rest += os.read(self._fd, 65_536)
        line, _, self._rest = self._rest.partition(b"\n")
        return line.decode()

    def until(self, start: str) -> str:
        """Lines up to one that starts so; that one."""
        while True:
            line = self.next()
            if line.startswith(start):
                return line

    def rest(self) -> Iterator[str]:
        """The lines that are there already."""
        while b"\n" in self._rest or select.select([self._fd], [], [], 0)[0]:
            yield self.next()

    def close(self) -> None:
        """No more is told: plug-ins that have the pipe still could only wait. Idempotent."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


class Proctor:
    """A `proctor` command at work. Its temporary files go to `place/tmp`."""

    def __init__(
        self,
        place: Path,
        arguments: Sequence[str],
        *,
        events: Events | None = None,
        hold: str | None = None,
        faults: Sequence[str] = (),
    ) -> None:
        self.temporary = place / "tmp"
        self.temporary.mkdir(exist_ok=True)
        module = ["proctor.testing.faults", *faults, "--"] if faults else ["proctor"]
        self.process = subprocess.Popen(
            [sys.executable, "-m", *module, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=place,
            env={
                **os.environ,
                "TMPDIR": str(self.temporary),
                "ROOMS_EVENTS": events.path if events is not None else "",
                "ROOMS_HOLD": hold or "",
            },
        )

    def signal(self, number: int) -> None:
        self.process.send_signal(number)

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.end()

    def end(self, limit_s: float = PATIENCE_S) -> "Ended":
        out, err = self.process.communicate(timeout=limit_s)
        return Ended(self.process.returncode, out.decode(), err.decode())

    def left_behind(self) -> list[str]:
        """Processes that work below our temporary folder, and what is in it."""
        found = [str(path) for path in self.temporary.iterdir()]
        for entry in Path("/proc").iterdir():
            if entry.name.isdecimal() and int(entry.name) != os.getpid():
                try:
                    where = os.readlink(entry / "cwd")
                except OSError:
                    continue
                if where.startswith(str(self.temporary)):
                    found.append(f"process {entry.name} in {where}")
        return found


def timed_end(process: Proctor, limit_s: float) -> "Ended":
    """How it ended; it must not take longer than `limit_s` of its own doing. What a bare
    interpreter needs to come and go on this machine now is not of its doing."""
    began = time.monotonic()
    ended = process.end()
    took_s = time.monotonic() - began
    began = time.monotonic()
    subprocess.run([sys.executable, "-c", "pass"], check=True)
    busy_s = time.monotonic() - began
    assert took_s < limit_s + busy_s, f"took {took_s:.2f} s, the machine {busy_s:.2f} s"
    return ended


class Ended:
    """How a command ended."""

    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err

    @property
    def document(self) -> dict[str, Any]:
        """What `--json` printed."""
        return dict(json.loads(self.out))


def rooms_request(
    place: Path, *, tasks: int = 3, harness: dict[str, Any] | None = None, **execution: Any
) -> dict[str, Any]:
    """A request of the plug-ins in rooms.py."""
    registry = place / "registry"
    registry.mkdir(exist_ok=True)
    return {
        "benchmark": {"id": f"{ROOMS}:Steps", "tasks": tasks},
        "harness": {"id": f"{ROOMS}:Worker", **(harness or {})},
        "environment": {"id": f"{ROOMS}:Rooms", "registry": str(registry)},
        "execution": execution,
    }


def request_file(place: Path, request: dict[str, Any], **runtime: Any) -> str:
    """A request file with this request."""
    knobs = {"results_dir": str(place / "results"), "cleanup_grace_s": 2.0, **runtime}
    return write_yaml(place / "request.yaml", {**request, "runtime": knobs})


def write_yaml(path: Path, value: Any) -> str:
    path.write_text(yaml.safe_dump(value), encoding="utf-8")
    return str(path)


def launch_file(place: Path, requests: Sequence[dict[str, Any]], **runtime: Any) -> str:
    """A launch file with these requests."""
    concurrency = runtime.pop("task_concurrency", 3)
    spec = {
        "name": "night",
        "task_concurrency": concurrency,
        "requests": list(requests),
        "runtime": {"results_dir": str(place / "results"), "cleanup_grace_s": 2.0, **runtime},
    }
    return write_yaml(place / "launch.yaml", spec)
