"""The bare system calls that one durable record needs: python -m bench.bare_case N REPORT

    make a task's folder and an attempt's folder in it; write task.json beside its place and rename;
    write result.json beside its place, sync it, rename, sync its folder; rename the task's folder

The floor under any way to keep the same evidence one task after the other. Also the CPU time of a
fixed piece of pure Python: how fast the processor is just now, with what else runs beside.
"""

import json
import os
import sys
import time

from bench.own import Span, report

SHORT = b"x" * 200
LONG = b"x" * 1200


def _write(path: str, data: bytes, *, sync: bool) -> None:
    fd = os.open(path + ".tmp", os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
    os.write(fd, data)
    if sync:
        os.fsync(fd)
    os.rename(path + ".tmp", path)
    os.close(fd)


def record(number: int) -> None:
    """Keep one record."""
    place = f"running/task-{number:06d}"
    attempt = f"{place}/attempt-1"
    os.mkdir(place)
    os.mkdir(attempt)
    _write(f"{place}/task.json", SHORT, sync=False)
    _write(f"{attempt}/result.json", LONG, sync=True)
    folder = os.open(attempt, os.O_RDONLY | os.O_CLOEXEC)
    os.fsync(folder)
    os.close(folder)
    os.rename(place, f"normal/task-{number:06d}")


def python_s() -> float:
    """CPU seconds of a fixed piece of pure Python: encode and decode a small document."""
    value = {"id": "task-000001", "metrics": {"same": True}, "usage": list(range(20))}
    started = time.thread_time()
    for _ in range(10_000):
        value = json.loads(json.dumps(value))
    return time.thread_time() - started


def main() -> None:
    records, place = int(sys.argv[1]), sys.argv[2]
    os.mkdir("running")
    os.mkdir("normal")
    speed_s = python_s()
    span = Span()
    for number in range(records):
        record(number)
    report(place, {**span.end(), "records": records, "python_s": speed_s})


if __name__ == "__main__":
    main()
