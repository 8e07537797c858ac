"""The command line as a person or a script has it: a process of its own."""

import json
import os
import select
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

LIMIT_S = 120


@dataclass(frozen=True)
class Done:
    """An ended process."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        """The one JSON document on stdout; anything else beside it is an error."""
        return json.loads(self.out)


def environment(**changes: str | None) -> dict[str, str]:
    """This process's variables without settings and keys; None removes one."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PROCTOR_", "OPENAI_"))
    }
    kept |= {"PYTHONWARNINGS": "error", "COLUMNS": "100"}
    return {n: v for n, v in (kept | changes).items() if v is not None}


def proctor(*words: str, cwd: Path, **variables: str | None) -> Done:
    """Run `proctor WORDS` in `cwd`; `variables` change its environment."""
    done = subprocess.run(
        command(*words), cwd=cwd, env=environment(**variables), stdin=subprocess.DEVNULL,
        capture_output=True, check=False, timeout=LIMIT_S,
    )  # fmt: skip
    out, err = (stream.decode("utf-8", "replace") for stream in (done.stdout, done.stderr))
    return Done(done.returncode, out, err)


def command(*words: str) -> list[str]:
    return [sys.executable, "-m", "proctor", *words]


def write_rows(path: Path, *rows: dict[str, Any]) -> Path:
    """A JSONL file."""
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    return path


def questions(path: Path, number: int) -> Path:
    """Tasks t1, t2, … whose input is their target."""
    return write_rows(
        path, *({"id": f"t{n}", "input": str(n), "target": str(n)} for n in range(1, number + 1))
    )


def runs_in(folder: Path) -> list[Path]:
    """Every run directory below `folder`."""
    return sorted(path.parent for path in folder.rglob("run_info.json"))


def files_in(folder: Path) -> dict[str, bytes]:
    """Every file below `folder` with its content."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def answering(text: str) -> list[str]:
    """The words that make a shell command the agent."""
    return ["--harness", "command", "-p", f"harness.command={text}"]


def table(rows: Path, *words: str) -> list[str]:
    """The words that run `rows` through the benchmark table."""
    return ["run", "--benchmark", "table", "--data", str(rows), *words]


class Bell:
    """A pipe in the file system: an agent rings (`echo > PATH`), a test waits for it."""

    def __init__(self, path: Path) -> None:
        os.mkfifo(path)
        self.path = path
        self._fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)  # so that no side ever waits to open

    def wait(self) -> None:
        ready, _, _ = select.select([self._fd], [], [], LIMIT_S)
        assert ready, "nobody rang"
        os.read(self._fd, 1)

    def close(self) -> None:
        os.close(self._fd)


@contextmanager
def started(*words: str, cwd: Path, **variables: str | None) -> Iterator[subprocess.Popen[bytes]]:
    """`proctor WORDS` at work; killed at the end of the block if it still is."""
    process = subprocess.Popen(
        command(*words), cwd=cwd, env=environment(**variables), stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    with process:
        try:
            yield process
        finally:
            if process.poll() is None:
                process.kill()
